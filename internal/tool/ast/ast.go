// Package ast edits source files by declaration name instead of quoted text: the body of a
// function, its signature, a method after another, a name.
//
// Every edit is a function from a text to a [Change], with three guarantees. Only the bytes
// of the named declaration differ: comments, spacing and line endings elsewhere are kept.
// The result parses, if the text did. The rest of the outline is unchanged: a body that
// closes its function and opens another is refused, although it parses.
//
// Go is parsed by go/parser. Python, JavaScript, TypeScript, Rust, Java, C and C++ are
// parsed by tree-sitter grammars in WebAssembly (package grammar): no cgo, and one table
// per language of which nodes are functions and scopes. A hand-written scanner would be
// smaller, but wrong for strings, regular expressions, templates and JSX, where a wrong
// range destroys a file; a language server would have to be installed.
//
// [Editor.Apply] applies an edit to a file of a workspace, if the file is unchanged since
// it was read.
package ast

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tool/ast/grammar"
)

// An Editor edits source texts. The zero value is ready to use, and is safe for concurrent
// use.
type Editor struct {
	grammars grammar.Set
}

// Close frees the loaded grammars.
func (e *Editor) Close(ctx context.Context) error { return e.grammars.Close(ctx) }

// A Change is the result of an edit.
type Change struct {
	Line          int    // where it begins, 1-based, before and after
	Before, After string // the text that was replaced and what replaced it; Before is "" for an insertion
	Content       []byte // the whole text after
	Count         int    // places that changed
}

// A Func is a function or method of a file.
type Func struct {
	Name     string // the last element of Path
	Path     string // with its scopes: "Server.handle"
	Receiver string // in Go, as it is written: "*Server"
	Line     int    // 1-based
	EndLine  int

	start, end         int // the declaration, without comment and decorators
	sigStart, sigEnd   int
	bodyStart, bodyEnd int // the range of the body; empty if there is no body
	nameAt             int
	arrow              bool
}

// Display returns the name of the function for messages.
func (f *Func) Display() string {
	if f.Receiver != "" {
		return "(" + f.Receiver + ")." + f.Name
	}
	return f.Path
}

// An Error has a text for the agent; Unwrap returns its code.
type Error struct {
	Text string
	Code fault.Code
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }

func invalidf(format string, args ...any) error {
	return &Error{fmt.Sprintf(format, args...), fault.InvalidArgument}
}

func notFoundf(format string, args ...any) error {
	return &Error{fmt.Sprintf(format, args...), fault.NotFound}
}

// extensions maps file extensions to languages.
var extensions = map[string]grammar.Language{
	".go": "go",
	".py": grammar.Python, ".pyi": grammar.Python,
	".js": grammar.JavaScript, ".mjs": grammar.JavaScript, ".cjs": grammar.JavaScript, ".jsx": grammar.JavaScript,
	".ts": grammar.TypeScript, ".mts": grammar.TypeScript, ".cts": grammar.TypeScript, ".tsx": grammar.TSX,
	".rs": grammar.Rust, ".java": grammar.Java,
	".c": grammar.C, ".h": grammar.CPP,
	".cc": grammar.CPP, ".cpp": grammar.CPP, ".cxx": grammar.CPP, ".hh": grammar.CPP, ".hpp": grammar.CPP, ".hxx": grammar.CPP,
}

// Extensions returns the supported file extensions, sorted.
func Extensions() []string {
	var list []string
	for ext := range extensions {
		list = append(list, ext)
	}
	slices.Sort(list)
	return list
}

// A language parses one kind of file and formats inserted text.
type language interface {
	// outline returns the functions of a text in order, and its syntax errors; err if the
	// text can't be parsed at all.
	outline(ctx context.Context, name string, src []byte) (funcs []Func, errors []problem, err error)
	// layoutBody formats a new body of f, to replace bodyStart to bodyEnd.
	layoutBody(ctx context.Context, src []byte, f *Func, text string) (string, error)
	// layoutSignature formats a new signature of f.
	layoutSignature(src []byte, f *Func, text string) string
	// layoutMethod formats a method to be inserted after f.
	layoutMethod(ctx context.Context, src []byte, f *Func, text string) (string, error)
}

// A problem is a syntax error.
type problem struct {
	start, end int
	line, col  int
	what       string
}

func (e *Editor) languageFor(name string) (language, error) {
	lang, ok := extensions[strings.ToLower(path.Ext(name))]
	switch {
	case !ok:
		return nil, &Error{fmt.Sprintf("no AST support for %s (known extensions: %s)", name, strings.Join(Extensions(), ", ")), fault.Unsupported}
	case lang == "go":
		return golang{}, nil
	}
	return &treeLanguage{set: &e.grammars, lang: lang, rules: rulesOf[lang]}, nil
}

// Outline returns the functions and methods of a text, in order.
func (e *Editor) Outline(ctx context.Context, name string, src []byte) ([]Func, error) {
	l, err := e.languageFor(name)
	if err != nil {
		return nil, err
	}
	funcs, _, err := l.outline(ctx, name, src)
	return funcs, err
}

// FunctionBody replaces the body of a function, given as F, (*T).M, (T).M or Class.method.
// The text may include the braces; "" is an empty body.
func (e *Editor) FunctionBody(ctx context.Context, name string, src []byte, function, text string) (Change, error) {
	d, f, err := e.findFunction(ctx, name, src, function)
	if err != nil {
		return Change{}, err
	}
	if f.bodyStart == f.bodyEnd {
		return Change{}, invalidf("%s has no body in %s", f.Display(), name)
	}
	laid, err := d.layoutBody(ctx, src, f, text)
	if err != nil {
		return Change{}, err
	}
	return d.replaceRange(ctx, f, f.bodyStart, f.bodyEnd, laid)
}

// Signature replaces the part of a function before its body.
func (e *Editor) Signature(ctx context.Context, name string, src []byte, function, text string) (Change, error) {
	d, f, err := e.findFunction(ctx, name, src, function)
	if err != nil {
		return Change{}, err
	}
	if strings.TrimSpace(text) == "" {
		return Change{}, invalidf("new_signature is required")
	}
	return d.replaceRange(ctx, f, f.sigStart, f.sigEnd, d.layoutSignature(src, f, strings.TrimSpace(text)))
}

// InsertAfter inserts a method after another of the same type or class.
func (e *Editor) InsertAfter(ctx context.Context, name string, src []byte, receiver, method, text string) (Change, error) {
	d, err := e.open(ctx, name, src)
	if err != nil {
		return Change{}, err
	}
	f, err := d.lookupMethod(receiver, method)
	if err != nil {
		return Change{}, err
	}
	if strings.TrimSpace(text) == "" {
		return Change{}, invalidf("new_method is required")
	}
	laid, err := d.layoutMethod(ctx, src, f, text)
	if err != nil {
		return Change{}, err
	}
	end := d.lineEnd(f.end)
	return d.replaceRange(ctx, nil, end, end, laid)
}
