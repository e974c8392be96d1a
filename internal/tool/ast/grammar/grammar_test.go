package grammar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

var samples = map[Language]struct{ src, want string }{
	Python:     {"def f(x): return x\n", "function_definition"},
	JavaScript: {"function f() { return 1 }", "function_declaration"},
	TypeScript: {"const f = (a: string): number => 1", "arrow_function"},
	TSX:        {"const a = <b/>;", "jsx_self_closing_element"},
	Rust:       {"impl A { fn f(&self) -> u8 { 1 } }", "function_item"},
	Java:       {"class A { int f() { return 1; } }", "method_declaration"},
	C:          {"int f(void) { return 1; }", "function_definition"},
	CPP:        {"class A { int f() { return 1; } };", "class_specifier"},
}

func TestEveryGrammarParses(t *testing.T) {
	var set Set
	defer set.Close(t.Context())
	for lang, s := range samples {
		tree, err := set.Parse(t.Context(), lang, []byte(s.src))
		if err != nil {
			t.Errorf("%s: %v", lang, err)
			continue
		}
		var kinds []string
		for i := range tree.Nodes {
			kinds = append(kinds, tree.Nodes[i].Kind)
		}
		if got := strings.Join(kinds, " "); !strings.Contains(got, s.want) || len(tree.Errors()) > 0 {
			t.Errorf("%s: nodes = %s, errors %d, want %s and none", lang, got, len(tree.Errors()), s.want)
		}
	}
}

func TestTree(t *testing.T) {
	var set Set
	defer set.Close(t.Context())
	tree, err := set.Parse(t.Context(), Python, []byte("x = 1\ndef f(a):\n  return a\n"))
	if err != nil {
		t.Fatal(err)
	}
	def := -1
	for i := range tree.Nodes {
		if tree.Nodes[i].Kind == "function_definition" {
			def = i
		}
	}
	name, body := tree.Child(def, "name"), tree.Child(def, "body")
	if got := fmt.Sprint(tree.Text(name), "|", tree.Text(body), "|", strings.Count(string(tree.Source[:tree.Nodes[body].Start]), "\n")+1); got != "f|return a|3" {
		t.Errorf("name, body and line = %s, want f|return a|3", got)
	}
	if got := tree.Child(def, "nothing"); got != -1 {
		t.Errorf("a field that is not there = %d, want -1", got)
	}
}

func TestErrorsAreFound(t *testing.T) {
	var set Set
	defer set.Close(t.Context())
	for _, src := range []string{"function f() {", "let = ;", "f(("} {
		tree, err := set.Parse(t.Context(), JavaScript, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		if len(tree.Errors()) == 0 {
			t.Errorf("no errors in %q", src)
		}
	}
}

func TestLimits(t *testing.T) {
	var set Set
	defer set.Close(t.Context())
	if _, err := set.Parse(t.Context(), "cobol", nil); !errors.Is(err, fault.Unsupported) {
		t.Errorf("unknown language: %v, want %v", err, fault.Unsupported)
	}
	if _, err := set.Parse(t.Context(), Python, make([]byte, MaxSource+1)); !errors.Is(err, fault.ResourceExhausted) {
		t.Errorf("long text: %v, want %v", err, fault.ResourceExhausted)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := set.Parse(ctx, Python, []byte(strings.Repeat("x = [1]\n", 10_000))); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v, want %v", err, context.Canceled)
	}
	if _, err := set.Parse(t.Context(), Python, []byte("x = 1")); err != nil {
		t.Errorf("after a cancelled parse: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for lang, s := range samples {
		f.Add(string(lang), s.src)
	}
	var set Set
	f.Cleanup(func() { set.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, lang, src string) {
		tree, err := set.Parse(t.Context(), Language(lang), []byte(src))
		if err != nil {
			if _, known := samples[Language(lang)]; known {
				t.Fatal(err)
			}
			return
		}
		for i, n := range tree.Nodes {
			if n.Start > n.End || n.End > len(src) || n.Parent > i {
				t.Fatalf("node %d is out of bounds: %+v", i, n)
			}
		}
	})
}
