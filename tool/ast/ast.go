// Package ast edits source files by naming what is to change instead of quoting
// it: the body of a function, its signature, a method after another, a name.
//
// Every edit is a function from a text to a [Change], and keeps three promises.
// Only the bytes of what was named differ: comments, spacing and line endings
// elsewhere are as they were. The result parses, where the text did. And nothing
// else of the outline moved: a body that closes its function and opens another is
// refused, although it parses.
//
// Go is read by go/parser. Python, JavaScript, TypeScript, Rust, Java, C and C++
// are read by tree-sitter's grammars in WebAssembly (package grammar), so there is
// no cgo and one way to handle them all: a table of which nodes are functions and
// which give them a scope. A scanner of our own would be smaller, and wrong in the
// corners (strings, regular expressions, templates, JSX) where a wrong range
// destroys a file; a language server's ranges need that server to be installed.
//
// [Editor.Apply] joins it to a workspace: the file is written only if it still is
// what was read.
package ast

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool/ast/grammar"
)

// An Editor edits. Its zero value is ready, and it is safe for concurrent use.
type Editor struct {
	grammars grammar.Set
}

// Close frees the grammars that were loaded.
func (e *Editor) Close(ctx context.Context) error { return e.grammars.Close(ctx) }

// A Change is what an edit makes of a text.
type Change struct {
	Line          int    // where it begins, 1-based, before and after
	Before, After string // the text that was replaced and what replaced it; Before is "" for an insertion
	Content       []byte // the whole text after
	Count         int    // places that changed
}

// A Func is a function or method of a file.
type Func struct {
	Name     string // the last element of Path
	Path     string // with what it is in: "Server.handle"
	Receiver string // in Go, as it is written: "*Server"
	Line     int    // 1-based
	EndLine  int

	start, end         int // the declaration, without comment and decorators
	sigStart, sigEnd   int
	bodyStart, bodyEnd int // what a new body replaces; equal where there is none
	nameAt             int
	arrow              bool
}

// Display is how the function is named in messages.
func (f *Func) Display() string {
	if f.Receiver != "" {
		return "(" + f.Receiver + ")." + f.Name
	}
	return f.Path
}

// An Error says what can't be done, in words for the agent; Unwrap gives its code.
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

// extensions are the files that are understood.
var extensions = map[string]grammar.Language{
	".go": "go",
	".py": grammar.Python, ".pyi": grammar.Python,
	".js": grammar.JavaScript, ".mjs": grammar.JavaScript, ".cjs": grammar.JavaScript, ".jsx": grammar.JavaScript,
	".ts": grammar.TypeScript, ".mts": grammar.TypeScript, ".cts": grammar.TypeScript, ".tsx": grammar.TSX,
	".rs": grammar.Rust, ".java": grammar.Java,
	".c": grammar.C, ".h": grammar.CPP,
	".cc": grammar.CPP, ".cpp": grammar.CPP, ".cxx": grammar.CPP, ".hh": grammar.CPP, ".hpp": grammar.CPP, ".hxx": grammar.CPP,
}

// Extensions returns the file name extensions that are understood, sorted.
func Extensions() []string {
	var list []string
	for ext := range extensions {
		list = append(list, ext)
	}
	slices.Sort(list)
	return list
}

// A language reads one kind of file and lays out what goes into it.
type language interface {
	// outline returns the functions of a text in order, and the number of errors
	// in it; err says what is wrong where that is all there is to say.
	outline(ctx context.Context, name string, src []byte) (funcs []Func, errors []problem, err error)
	// layoutBody lays out a new body for f, to replace bodyStart to bodyEnd.
	layoutBody(ctx context.Context, src []byte, f *Func, text string) (string, error)
	// layoutSignature lays out a new signature for f.
	layoutSignature(src []byte, f *Func, text string) string
	// layoutMethod lays out a method to be inserted behind f.
	layoutMethod(ctx context.Context, src []byte, f *Func, text string) (string, error)
}

// A problem is a place that does not parse.
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

// FunctionBody replaces the body of a function, given as F, (*T).M, (T).M or
// Class.method. The text may have the braces around it or not; "" is an empty
// body.
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

// Signature replaces all of a function that is before its body.
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

// InsertAfter inserts a method behind another of the same type or class.
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
	laid, err := d.language.layoutMethod(ctx, src, f, text)
	if err != nil {
		return Change{}, err
	}
	end := d.lineEnd(f.end)
	return d.replaceRange(ctx, nil, end, end, laid)
}
