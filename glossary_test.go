package croft

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGlossaryIdentifiers: each name in backticks in the glossary's column "Go
// identifier" exists: `pkg.Name` and `pkg.Type.Member` in that package, any other name
// in some package or as a package. A word before the backticks marks the others.
func TestGlossaryIdentifiers(t *testing.T) {
	text, err := os.ReadFile("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := declaredNames(t)
	entry := regexp.MustCompile("(?:\\b(file|field|program|section|route) )?`([^`]+)`")
	checked := 0
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(line, "|")
		if len(columns) != 6 || strings.TrimSpace(columns[3]) == "Go identifier" {
			continue
		}
		for _, m := range entry.FindAllStringSubmatch(columns[3], -1) {
			if m[1] != "" {
				continue
			}
			checked++
			if !declared[m[2]] {
				t.Errorf("docs/glossary.md: %s: %s does not exist", strings.TrimSpace(columns[1]), m[2])
			}
		}
	}
	if checked == 0 {
		t.Error("docs/glossary.md has no Go identifier")
	}
}

// declaredNames returns the packages of the module and what they declare outside of
// functions, each with and without its package: pkg, pkg.Name, pkg.Type.Member, Name,
// Type.Member, Member.
func declaredNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join(p.dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			names[f.Name.Name] = true
			for _, d := range f.Decls {
				for _, name := range declNames(d) {
					names[name], names[f.Name.Name+"."+name] = true, true
					names[name[strings.LastIndex(name, ".")+1:]] = true
				}
			}
		}
	}
	return names
}

// declNames returns the names of a declaration, with fields and methods as Type.Member.
func declNames(d ast.Decl) []string {
	if f, ok := d.(*ast.FuncDecl); ok {
		if f.Recv == nil {
			return []string{f.Name.Name}
		}
		return []string{receiverType(f.Recv.List[0].Type) + "." + f.Name.Name}
	}
	var names []string
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, n := range s.Names {
				names = append(names, n.Name)
			}
		case *ast.TypeSpec:
			names = append(names, s.Name.Name)
			members := new(ast.FieldList)
			switch typ := s.Type.(type) {
			case *ast.StructType:
				members = typ.Fields
			case *ast.InterfaceType:
				members = typ.Methods
			}
			for _, m := range members.List {
				for _, n := range m.Names {
					names = append(names, s.Name.Name+"."+n.Name)
				}
			}
		}
	}
	return names
}

// receiverType returns the name of the type in a receiver.
func receiverType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverType(e.X)
	case *ast.IndexExpr:
		return receiverType(e.X)
	case *ast.IndexListExpr:
		return receiverType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
