package ast

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// renameGo finds the uses of one object in one file. The file is type-checked alone;
// unresolved imports and other files are ignored.
func renameGo(name string, src []byte, from, to string, line int) ([]int, error) {
	if token.IsKeyword(to) {
		return nil, invalidf("new_name %q is a keyword", to)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, invalidf("parse error: %s", firstError(err))
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{}, Scopes: map[ast.Node]*types.Scope{}}
	conf := types.Config{Error: func(error) {}, Importer: emptyImporter{}, FakeImportC: true}
	_, _ = conf.Check(file.Name.Name, fset, []*ast.File{file}, info) // errors are expected, since imports are empty
	objects, err := goObjects(fset, info, from, line)
	switch {
	case err != nil:
		return nil, err
	case len(objects) == 0:
		return nil, notFoundf("%s not found in %s", from, name)
	case len(objects) > 1:
		var lines []string
		for _, o := range objects {
			lines = append(lines, fmt.Sprintf("line %d", fset.Position(o.Pos()).Line))
		}
		return nil, invalidf("ambiguous: %s matches %d declarations at %s; pass line", from, len(objects), strings.Join(lines, ", "))
	}
	return goPlaces(fset, file, info, objects[0], from, to)
}

// emptyImporter is an importer for which every package is empty.
type emptyImporter struct{}

func (emptyImporter) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	p := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	p.MarkComplete()
	return p, nil
}

// goObjects returns the objects of the file with the name, in order; with line, those
// declared or used there.
func goObjects(fset *token.FileSet, info *types.Info, from string, line int) ([]types.Object, error) {
	var found []types.Object
	for _, idents := range []map[*ast.Ident]types.Object{info.Defs, info.Uses} {
		for id, o := range idents {
			if o == nil || id.Name != from || line > 0 && fset.Position(id.Pos()).Line != line {
				continue
			}
			if o.Pos().IsValid() && !slices.Contains(found, o) {
				found = append(found, o)
			}
		}
	}
	slices.SortFunc(found, func(a, b types.Object) int { return int(a.Pos() - b.Pos()) })
	return found, nil
}

// goPlaces returns the offsets at which the object is named. It returns an error if the new
// name would be captured or would capture another.
func goPlaces(fset *token.FileSet, file *ast.File, info *types.Info, o types.Object, from, to string) ([]int, error) {
	var places []int
	var err error
	ast.Inspect(file, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || err != nil {
			return err == nil
		}
		pos := fset.Position(id.Pos())
		is := info.Defs[id] == o || info.Uses[id] == o
		switch {
		case is && id.Name == from:
			if _, other := scopeAt(info, file, id.Pos()).LookupParent(to, id.Pos()); other != nil && other.Pos().IsValid() && o.Parent() != nil {
				err = invalidf("%s is in use at line %d; it would mean another thing at line %d", to, fset.Position(other.Pos()).Line, pos.Line)
			}
			places = append(places, pos.Offset)
		case id.Name == to && sameSpace(o, info, id):
			err = invalidf("%s is in use at line %d of %s", to, pos.Line, pos.Filename)
		case id.Name == from && info.Defs[id] == nil && info.Uses[id] == nil && mayBeObject(o, file, id):
			err = invalidf("%s at line %d of %s may be the same symbol, which depends on other files; use rename_symbol", from, pos.Line, pos.Filename)
		}
		return err == nil
	})
	return places, err
}

// scopeAt returns the innermost scope at a position.
func scopeAt(info *types.Info, file *ast.File, pos token.Pos) *types.Scope {
	if s := info.Scopes[file]; s != nil {
		if inner := s.Innermost(pos); inner != nil {
			return inner
		}
		return s
	}
	return types.Universe
}

// sameSpace reports whether an existing use of the new name could clash: a field or method
// with those of any type, a variable within its scope.
func sameSpace(o types.Object, info *types.Info, id *ast.Ident) bool {
	other := info.Defs[id]
	if other == nil {
		other = info.Uses[id]
	}
	if o.Parent() == nil || other == nil || other.Parent() == nil { // a field or method, or unknown
		return other == nil || o.Parent() == nil && other.Parent() == nil
	}
	return o.Parent() == other.Parent() || containsScope(o.Parent(), other.Parent())
}

func containsScope(outer, inner *types.Scope) bool {
	for ; inner != nil; inner = inner.Parent() {
		if inner == outer {
			return true
		}
	}
	return false
}

// mayBeObject reports whether an unresolved name could be the object: a selector on a value
// of unknown type.
func mayBeObject(o types.Object, file *ast.File, id *ast.Ident) bool {
	if id == file.Name {
		return false
	}
	selected := false
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel == id {
			selected = true
		}
		return !selected
	})
	return selected == (o.Parent() == nil)
}
