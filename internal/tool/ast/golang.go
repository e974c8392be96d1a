package ast

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
)

// golang parses Go with the standard library.
type golang struct{}

func (golang) outline(_ context.Context, name string, src []byte) ([]Func, []problem, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, invalidf("parse error: %s", firstError(err))
	}
	var funcs []Func
	for _, decl := range file.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok {
			funcs = append(funcs, goFunc(fset.File(file.FileStart), src, d))
		}
	}
	return funcs, nil, nil
}

func firstError(err error) string {
	var list scanner.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		return list[0].Error()
	}
	return err.Error()
}

func goFunc(at *token.File, src []byte, d *ast.FuncDecl) Func {
	off := at.Offset
	f := Func{
		Name: d.Name.Name, Path: d.Name.Name, Line: lineAt(src, off(d.Pos())), EndLine: lineAt(src, off(d.End())),
		start: off(d.Pos()), end: off(d.End()),
	}
	f.start = off(d.Type.Func)
	f.Line = lineAt(src, f.start)
	f.sigStart, f.sigEnd = f.start, off(d.Type.End())
	if d.Body != nil {
		f.bodyStart, f.bodyEnd = off(d.Body.Lbrace), off(d.Body.Rbrace)+1
	}
	if d.Recv != nil && len(d.Recv.List) == 1 {
		typ := d.Recv.List[0].Type
		f.Receiver = receiverName(typ)
		f.Path = strings.TrimPrefix(f.Receiver, "*") + "." + f.Name
	}
	return f
}

// receiverName returns the type of a receiver without type parameters: "*T".
func receiverName(typ ast.Expr) string {
	switch t := typ.(type) {
	case *ast.StarExpr:
		return "*" + receiverName(t.X)
	case *ast.ParenExpr:
		return receiverName(t.X)
	case *ast.IndexExpr:
		return receiverName(t.X)
	case *ast.IndexListExpr:
		return receiverName(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// layoutBody formats the body like gofmt, if it parses by itself; if not, replaceRange
// reports the error.
func (golang) layoutBody(_ context.Context, _ []byte, _ *Func, text string) (string, error) {
	text = strings.Trim(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if strings.TrimSpace(text) == "" {
		return "{\n}", nil
	}
	if block := strings.TrimSpace(text); strings.HasPrefix(block, "{") && strings.HasSuffix(block, "}") && oneBlock(block) {
		text = strings.Trim(block[1:len(block)-1], "\n")
	}
	const before = "package p\n\nfunc _() "
	laid := "{\n" + text + "\n}"
	formatted, err := format.Source([]byte(before + laid + "\n"))
	if err != nil {
		return laid, nil
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(formatted), before), "\n"), nil
}

// oneBlock reports whether text is exactly one block.
func oneBlock(text string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() "+text, parser.SkipObjectResolution)
	return err == nil && len(file.Decls) == 1
}

func (golang) layoutSignature(_ []byte, _ *Func, text string) string {
	text = strings.TrimSpace(strings.TrimSuffix(text, "{"))
	if !strings.HasPrefix(text, "func") {
		text = "func " + text
	}
	return text
}

func (golang) layoutMethod(_ context.Context, _ []byte, _ *Func, text string) (string, error) {
	text = strings.Trim(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	const before = "package p\n\n"
	if formatted, err := format.Source([]byte(before + text + "\n")); err == nil {
		text = strings.TrimSuffix(strings.TrimPrefix(string(formatted), before), "\n")
	}
	file, err := parser.ParseFile(token.NewFileSet(), "new_method", before+text+"\n", parser.SkipObjectResolution)
	if err != nil {
		return "", invalidf("replacement did not parse: %s", firstError(err))
	}
	if len(file.Decls) == 0 || len(file.Imports) > 0 {
		return "", fmt.Errorf("%w", invalidf("replacement did not parse: new_method has no declaration"))
	}
	return "\n\n" + text, nil
}
