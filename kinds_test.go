package croft

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// kindLists are files with two kinds in one list or switch all the same, each for a reason.
var kindLists = map[string]bool{
	"internal/daemon/cli/evalcmd/eval.go":      true, // an evaluation on the host needs no provider, and one in the sandbox no server
	"internal/daemon/cli/console/errortext.go": true, // package names, which are cut from error texts
	"internal/testshell/providers.go":          true, // what tests run on
}

// TestKindsAreListedOnce holds that what a program knows of the kinds of Croft's own providers is in
// package provider/all: a list elsewhere is one that the author of the next provider forgets.
func TestKindsAreListedOnce(t *testing.T) {
	kinds := map[string]bool{}
	dirs, err := filepath.Glob("provider/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		kinds[filepath.Base(dir)] = true
	}
	if !kinds["sandbox"] || !kinds["docker"] {
		t.Fatalf("the kinds are %v", kinds)
	}
	delete(kinds, "all")
	used := map[string]bool{}
	for _, p := range packages(t) {
		if strings.HasPrefix(p.dir, "provider/") {
			continue
		}
		names, err := filepath.Glob(filepath.Join(p.dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				var parts []ast.Node
				switch n := n.(type) {
				case *ast.CompositeLit:
					for _, e := range n.Elts {
						parts = append(parts, e)
					}
				case *ast.SwitchStmt:
					for _, c := range n.Body.List {
						for _, e := range c.(*ast.CaseClause).List {
							parts = append(parts, e)
						}
					}
				}
				if found := kindsIn(kinds, parts); len(found) > 1 {
					used[name] = true
					if !kindLists[name] {
						t.Errorf("%s lists the kinds %v; a feature of the provider, its traits, or provider/all should say that", name, found)
					}
				}
				return true
			})
		}
	}
	for name := range kindLists {
		if !used[name] {
			t.Errorf("%s is an exception and has no list of kinds", name)
		}
	}
}

// kindsIn returns the kinds that are constants or texts in the parts of a list.
func kindsIn(kinds map[string]bool, parts []ast.Node) (found []string) {
	add := func(kind string) {
		if kinds[kind] && !strings.Contains(strings.Join(found, " "), kind) {
			found = append(found, kind)
		}
	}
	for _, part := range parts {
		ast.Inspect(part, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					add(text)
				}
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && n.Sel.Name == "Kind" {
					add(of.Name)
				}
			}
			return true
		})
	}
	return found
}
