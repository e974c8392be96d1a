package ast

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/croft-run/croft/internal/tool/ast/grammar"
)

// Rename renames a symbol inside one file. line selects a declaration or use if the name is
// ambiguous; 0 selects none. Other files are not read: for a name that they use,
// rename_symbol asks a language server.
func (e *Editor) Rename(ctx context.Context, name string, src []byte, from, to string, line int) (Change, error) {
	l, err := e.languageFor(name)
	if err != nil {
		return Change{}, err
	}
	for _, word := range []struct{ arg, text string }{{"old_name", from}, {"new_name", to}} {
		if !isIdentifier(word.text) {
			return Change{}, invalidf("%s %q is not a name", word.arg, word.text)
		}
	}
	if from == to {
		return Change{}, invalidf("no change: the new name equals the old")
	}
	var places []int
	switch l := l.(type) {
	case golang:
		places, err = renameGo(name, src, from, to, line)
	case *treeLanguage:
		places, err = l.renamePlaces(ctx, name, src, from, to, line)
	}
	if err != nil {
		return Change{}, err
	}
	return e.replaceNames(ctx, l, name, src, from, to, places)
}

func isIdentifier(word string) bool {
	for i, r := range word {
		if r != '_' && r != '$' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return word != ""
}

// replaceNames replaces a name at the given offsets, and checks that the result parses.
func (e *Editor) replaceNames(ctx context.Context, l language, name string, src []byte, from, to string, places []int) (Change, error) {
	slices.Sort(places)
	places = slices.Compact(places)
	var content []byte
	var before, after strings.Builder
	last, lastLine := 0, 0
	for _, at := range places {
		content = append(append(content, src[last:at]...), to...)
		last = at + len(from)
	}
	content = append(content, src[last:]...)
	shift := len(to) - len(from)
	for i, at := range places {
		if n := lineAt(src, at); n != lastLine {
			lastLine = n
			fmt.Fprintln(&before, lineText(src, at))
			fmt.Fprintln(&after, lineText(content, at+i*shift))
		}
	}
	_, was, err := l.outline(ctx, name, src)
	if err != nil {
		return Change{}, err
	}
	_, is, err := l.outline(ctx, name, content)
	if err != nil || len(is) > len(was) {
		return Change{}, invalidf("replacement did not parse: %s: %q can't be a name there", name, to)
	}
	return Change{
		Line: lineAt(src, places[0]), Content: content, Count: len(places),
		Before: strings.TrimSuffix(before.String(), "\n"), After: strings.TrimSuffix(after.String(), "\n"),
	}, nil
}

func lineText(src []byte, offset int) string {
	start := bytes.LastIndexByte(src[:offset], '\n') + 1
	end := bytes.IndexByte(src[offset:], '\n')
	if end < 0 {
		return string(src[start:])
	}
	return strings.TrimSuffix(string(src[start:offset+end]), "\r")
}

// renamePlaces finds the names to change in a syntax tree, which has no types: in the whole
// file or, if the name is a local of the function around line, in that function. An
// ambiguous name is an error.
func (l *treeLanguage) renamePlaces(ctx context.Context, name string, src []byte, from, to string, line int) ([]int, error) {
	t, err := l.set.Parse(ctx, l.lang, src)
	if err != nil {
		return nil, err
	}
	funcs := l.listFunctions(t)
	start, end := 0, len(src)
	local := false
	if line > 0 {
		if f := innermostFunc(funcs, line); f != nil && l.declaresName(t, f, from) {
			start, end, local = f.start, f.end, true
		}
	}
	var places []int
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.Start < start || n.End > end || !l.idents[n.Kind] || l.isForeignName(t, i) {
			continue
		}
		switch t.Text(i) {
		case to:
			return nil, invalidf("%s is in use at line %d of %s; use rename_symbol, which knows whether they are the same", to, lineAt(src, n.Start), name)
		case from:
			if strings.HasPrefix(n.Kind, "shorthand") {
				return nil, invalidf("%s at line %d of %s is also the name of a property; use rename_symbol", from, lineAt(src, n.Start), name)
			}
			places = append(places, n.Start)
		}
	}
	if len(places) == 0 {
		return nil, notFoundf("%s not found in %s", from, name)
	}
	for i := range funcs {
		f := &funcs[i]
		if inside := f.start > start && f.end <= end || !local; inside && l.declaresName(t, f, from) {
			return nil, invalidf("%s has another meaning in %s at line %d of %s; pass line to pick one, or use rename_symbol", from, f.Display(), f.Line, name)
		}
	}
	return places, nil
}

func innermostFunc(funcs []Func, line int) *Func {
	var found *Func
	for i := range funcs {
		if f := &funcs[i]; f.Line <= line && line <= f.EndLine && (found == nil || f.start >= found.start) {
			found = f
		}
	}
	return found
}

// isForeignName reports whether a name belongs to another scope: a property of an object,
// or the keyword of an argument.
func (l *treeLanguage) isForeignName(t *grammar.Tree, i int) bool {
	n, p := &t.Nodes[i], &t.Nodes[t.Nodes[i].Parent]
	switch p.Kind {
	case "attribute", "field_access", "method_invocation", "member_expression", "field_expression":
		return n.Field == "attribute" || n.Field == "field" || n.Field == "property" || p.Kind == "method_invocation" && n.Field == "name" && t.Child(n.Parent, "object") >= 0
	case "keyword_argument":
		return n.Field == "name"
	}
	return false
}

// bindings maps kinds of nodes to the field that declares a name; "" is any.
var bindings = map[string]string{
	"assignment": "left", "for_statement": "left", "for_in_clause": "left", "named_expression": "name", "as_pattern_target": "",
	"parameters": "", "default_parameter": "name", "typed_parameter": "", "typed_default_parameter": "name", "list_splat_pattern": "",
	"dictionary_splat_pattern": "", "lambda_parameters": "", "pattern_list": "", "tuple_pattern": "",
	"variable_declarator": "name", "formal_parameters": "", "required_parameter": "pattern", "optional_parameter": "pattern",
	"array_pattern": "", "pair_pattern": "value", "rest_pattern": "", "assignment_pattern": "left", "catch_clause": "parameter",
	"parameter": "pattern", "let_declaration": "pattern", "formal_parameter": "name", "catch_formal_parameter": "name",
	"enhanced_for_statement": "name", "closure_parameters": "", "init_declarator": "declarator", "parameter_declaration": "declarator",
	"declaration": "declarator", "pointer_declarator": "declarator", "reference_declarator": "", "array_declarator": "declarator",
	"for_in_statement": "left", "arrow_function": "parameter", "mut_pattern": "", "ref_pattern": "", "slice_pattern": "",
}

// declaresName reports whether a function, or a nested one, has a parameter or variable of
// that name.
func (l *treeLanguage) declaresName(t *grammar.Tree, f *Func, name string) bool {
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.Start < f.start || n.End > f.end || !l.idents[n.Kind] || t.Text(i) != name {
			continue
		}
		p := &t.Nodes[n.Parent]
		if field, ok := bindings[p.Kind]; ok && (field == "" || field == n.Field) && n.Start != f.nameAt {
			return true
		}
	}
	return false
}
