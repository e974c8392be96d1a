package ast

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

// editor is shared: compiling a grammar is most of what a test takes.
var editor Editor

const goSource = `// Package p is a test.
package p

import   "fmt"   // spaces stay

// S serves.
type S struct{ n  int }

// Run runs.
func (s *S) Run(a   int) error {
	return nil // old
}

func (s S) Stop() {}

func F() int { return 1 } // behind F

var  x = F() // untouched
`

func TestGoBodyChangesNothingElse(t *testing.T) {
	got, err := editor.FunctionBody(t.Context(), "a.go", []byte(goSource), "(*S).Run", "if a>1 {\nfmt.Println(`raw\n  text`)\n}\nreturn nil")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(goSource, "{\n\treturn nil // old\n}", "{\n\tif a > 1 {\n\t\tfmt.Println(`raw\n  text`)\n\t}\n\treturn nil\n}", 1)
	if diff := cmp.Diff(want, string(got.Content)); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	text := got.Text("edit_function_body", "a.go")
	if want := "edit_function_body: modified a.go at line 10\n--- before\n+++ after\n@@ starting line 10 @@\n-func (s *S) Run(a   int) error {\n"; !strings.HasPrefix(text, want) {
		t.Errorf("text = %q, want it to begin with %q", text, want)
	}
}

func TestGoEdits(t *testing.T) {
	tests := []struct {
		name     string
		edit     func() (Change, error)
		old, new string
	}{
		{"empty body", func() (Change, error) { return editor.FunctionBody(t.Context(), "a.go", []byte(goSource), "F", "") }, "{ return 1 }", "{\n}"},
		{"body in braces", func() (Change, error) {
			return editor.FunctionBody(t.Context(), "a.go", []byte(goSource), "F", "{\n\treturn 2\n}")
		}, "{ return 1 }", "{\n\treturn 2\n}"},
		{"signature", func() (Change, error) {
			return editor.Signature(t.Context(), "a.go", []byte(goSource), "(*S).Run", "func (s *S) Run(ctx string, a int) (err error)")
		}, "func (s *S) Run(a   int) error", "func (s *S) Run(ctx string, a int) (err error)"},
		{"signature without func", func() (Change, error) {
			return editor.Signature(t.Context(), "a.go", []byte(goSource), "F", "F(y int) int {")
		}, "func F() int {", "func F(y int) int {"},
		{"method", func() (Change, error) {
			return editor.InsertAfter(t.Context(), "a.go", []byte(goSource), "S", "Stop", "// Wait waits.\nfunc (s S) Wait() {  }")
		}, "Stop() {}\n", "Stop() {}\n\n// Wait waits.\nfunc (s S) Wait() {}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.edit()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Replace(goSource, tt.old, tt.new, 1), string(got.Content)); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name string
		edit func() (Change, error)
		want string
		code fault.Code
	}{
		{"extension", func() (Change, error) { return editor.FunctionBody(t.Context(), "n.txt", nil, "F", "") }, "no AST support for n.txt (known extensions: .c, .cc, ", fault.Unsupported},
		{"no function", func() (Change, error) { return editor.FunctionBody(t.Context(), "a.go", []byte(goSource), "X", "") }, "function X not found in a.go", fault.NotFound},
		{"no method", func() (Change, error) {
			return editor.FunctionBody(t.Context(), "a.go", []byte(goSource), "(*S).X", "")
		}, "method (*S).X not found in a.go", fault.NotFound},
		{"other receiver", func() (Change, error) {
			return editor.FunctionBody(t.Context(), "a.go", []byte(goSource), "(*S).Stop", "")
		}, "method (*S).Stop not found in a.go", fault.NotFound},
		{"methods there are", func() (Change, error) {
			return editor.InsertAfter(t.Context(), "a.go", []byte(goSource), "*S", "Go", "func (s *S) X() {}")
		}, "method Go not found on *S in a.go (available: (*S).Run, (S).Stop)", fault.NotFound},
		{"no receiver", func() (Change, error) {
			return editor.InsertAfter(t.Context(), "a.go", []byte(goSource), "T", "Go", "func (s *S) X() {}")
		}, "method Go not found on T in a.go (no methods found on that receiver)", fault.NotFound},
		{"ambiguous", func() (Change, error) {
			return editor.FunctionBody(t.Context(), "a.go", []byte("package p\n\nfunc F() {}\nfunc F() {}\n"), "F", "x()")
		}, "ambiguous: F matches 2 declarations at line 3, line 4", fault.InvalidArgument},
		{"source does not parse", func() (Change, error) { return editor.FunctionBody(t.Context(), "a.go", []byte("package"), "F", "") }, "parse error: a.go:1:8: expected 'IDENT', found 'EOF'", fault.InvalidArgument},
		{"body does not parse", func() (Change, error) {
			return editor.FunctionBody(t.Context(), "a.go", []byte(goSource), "F", "return (")
		}, "replacement did not parse: a.go:", fault.InvalidArgument},
		{"body that ends its function", func() (Change, error) {
			return editor.FunctionBody(t.Context(), "a.go", []byte(goSource), "F", "return 1 }\nfunc evil() {")
		}, "replacement did not parse: a.go:16:1: it changes more of the file than the named declaration", fault.InvalidArgument},
		{"script that ends its function", func() (Change, error) {
			return editor.FunctionBody(t.Context(), "a.js", []byte("function f() { return 1 }\n"), "f", "return 1 }\nfunction evil() {")
		}, "replacement did not parse: a.js:1:1: it changes more of the file than the named declaration", fault.InvalidArgument},
		{"python", func() (Change, error) {
			return editor.FunctionBody(t.Context(), "a.py", []byte("def f():\n    return 1\n"), "f", "return (")
		}, "replacement did not parse: a.py:2:", fault.InvalidArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.edit()
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
			if !errors.Is(err, tt.code) {
				t.Errorf("code = %v, want %v", fault.Of(err), tt.code)
			}
		})
	}
}

// TestAssignedFunction: a function that is assigned to a property is found by the name of the
// property, as search_code shows it, and what is there is offered for a name that is not.
func TestAssignedFunction(t *testing.T) {
	const src = "res.status = function status(code) {\n  return 1;\n};\nres.links = function (links) {\n  return 1;\n};\nvar send = exports.send = (x) => {\n  return 1;\n};\n"
	for name, want := range map[string]string{
		"res.status":   "status(code) {\n  return 2;\n}",
		"res.links":    "(links) {\n  return 2;\n}",
		"exports.send": "(x) => {\n  return 2;\n}",
	} {
		got, err := editor.FunctionBody(t.Context(), "a.js", []byte(src), name, "return 2;")
		if err != nil || !strings.Contains(string(got.Content), want) {
			t.Errorf("%s: %v\n%s", name, err, got.Content)
		}
	}
	_, err := editor.FunctionBody(t.Context(), "a.js", []byte(src), "req.status", "return 2;")
	if err == nil || !strings.Contains(err.Error(), "function req.status not found in a.js (available: ") || !strings.Contains(err.Error(), "status at line 1") {
		t.Errorf("another owner: %v", err)
	}
}
