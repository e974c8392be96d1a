package event

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/croft-run/croft/fault"
)

// TestKinds: the list Kinds has each constant of type Kind.
func TestKinds(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			typ, ok := spec.Type.(*ast.Ident)
			if !ok || typ.Name != "Kind" {
				return true
			}
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found++
			if !slices.Contains(Kinds, Kind(text)) {
				t.Errorf("Kinds lacks %s (%s)", spec.Names[0], text)
			}
			return true
		})
	}
	if found != len(Kinds) {
		t.Errorf("%d constants of type Kind, and %d entries in Kinds", found, len(Kinds))
	}
}

func TestFilterCheck(t *testing.T) {
	for kind, want := range map[Kind]fault.Code{
		Operation: "", "*": "", "lifecycle.*": "", "lifecycle.sandbox.*": "", Dropped: "",
		"lifecycle": fault.InvalidArgument, "lifecyle.*": fault.InvalidArgument, "": fault.InvalidArgument, "tool.cal": fault.InvalidArgument,
	} {
		if err := (Filter{Kinds: []Kind{kind}}).Check(); err == nil && want != "" || err != nil && fault.Of(err) != want {
			t.Errorf("Check of kind %q: %v, want %q", kind, err, want)
		}
	}
}
