package ast

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRename(t *testing.T) {
	const src = `package p

import "fmt"

type T struct{ total int } // total stays

func (t *T) sum(total int) int { // total is a parameter
	x := "total"
	fmt.Println(x, total)
	return total + t.total
}

func helper() int { return (&T{total: 1}).sum(2) }
`
	tests := []struct {
		name, file, src, from, to string
		line                      int
		old, new                  []string
		err                       string
	}{
		{name: "parameter", file: "a.go", src: src, from: "total", to: "n", line: 7,
			old: []string{"sum(total int)", "(x, total)", "return total +"}, new: []string{"sum(n int)", "(x, n)", "return n +"}},
		{name: "field", file: "a.go", src: src, from: "total", to: "all", line: 5,
			old: []string{"{ total int }", "t.total", "T{total: 1}"}, new: []string{"{ all int }", "t.all", "T{all: 1}"}},
		{name: "method", file: "a.go", src: src, from: "sum", to: "add", old: []string{") sum(total", ").sum(2)"}, new: []string{") add(total", ").add(2)"}},
		{name: "ambiguous", file: "a.go", src: src, from: "total", to: "n", err: "ambiguous: total matches 2 declarations at line 5, line 7; pass line"},
		{name: "in use", file: "a.go", src: src, from: "total", to: "x", line: 7, err: "x is in use at line 8"},
		{name: "keyword", file: "a.go", src: src, from: "total", to: "func", line: 7, err: `new_name "func" is a keyword`},
		{name: "not a name", file: "a.go", src: src, from: "total", to: "a b", line: 7, err: `new_name "a b" is not a name`},
		{name: "unknown type", file: "a.go", src: "package p\n\ntype T struct{ n int }\n\nfunc f() int { return other().n }\n", from: "n", to: "m", err: "n at line 5 of a.go may be the same symbol, which depends on other files; use rename_symbol"},
		{name: "python function", file: "a.py", src: "def f(x):\n    return x.f\n\nprint(f(1), 'f', k(f=f))  # f\n", from: "f", to: "g",
			old: []string{"def f(", "print(f(1)", "f=f"}, new: []string{"def g(", "print(g(1)", "f=g"}},
		{name: "python local", file: "a.py", src: "x = 1\ndef f(x):\n    return x\n", from: "x", to: "y", line: 2, old: []string{"f(x)", "return x"}, new: []string{"f(y)", "return y"}},
		{name: "python shadowed", file: "a.py", src: "x = 1\ndef f(x):\n    return x\n", from: "x", to: "y", err: "x has another meaning in f at line 2 of a.py; pass line to pick one, or use rename_symbol"},
		{name: "script", file: "a.ts", src: "const f = (a: T) => a.f;\nf(1);\n", from: "f", to: "g", old: []string{"const f", "f(1)"}, new: []string{"const g", "g(1)"}},
		{name: "shorthand", file: "a.ts", src: "const v = 1;\nsend({ v });\n", from: "v", to: "w", err: "v at line 2 of a.ts is also the name of a property; use rename_symbol"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := editor.Rename(t.Context(), tt.file, []byte(tt.src), tt.from, tt.to, tt.line)
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Fatalf("error = %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := tt.src
			for i := range tt.old {
				want = strings.Replace(want, tt.old[i], tt.new[i], 1)
			}
			if diff := cmp.Diff(want, string(got.Content)); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
		})
	}
}
