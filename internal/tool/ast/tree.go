package ast

import (
	"context"
	"strings"

	"github.com/croft-run/croft/internal/tool/ast/grammar"
)

// A treeLanguage is parsed by a tree-sitter grammar.
type treeLanguage struct {
	set  *grammar.Set
	lang grammar.Language
	*rules
}

func (l *treeLanguage) outline(ctx context.Context, _ string, src []byte) ([]Func, []problem, error) {
	t, err := l.set.Parse(ctx, l.lang, src)
	if err != nil {
		return nil, nil, err
	}
	var problems []problem
	for _, i := range t.Errors() {
		problems = append(problems, problemAt(t, i))
	}
	return l.listFunctions(t), problems, nil
}

func problemAt(t *grammar.Tree, i int) problem {
	n := t.Nodes[i]
	p := problem{start: n.Start, end: n.End, line: lineAt(t.Source, n.Start), what: "syntax error"}
	p.col = n.Start - (strings.LastIndexByte(string(t.Source[:n.Start]), '\n') + 1) + 1
	if n.Start == n.End {
		p.what = "missing " + n.Kind
	}
	return p
}

// listFunctions walks the tree once; paths[i] is the scope that node i opens.
func (l *treeLanguage) listFunctions(t *grammar.Tree) []Func {
	var funcs []Func
	paths := make([]string, len(t.Nodes))
	lines := lineIndex(t.Source)
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if i > 0 {
			paths[i] = paths[n.Parent]
		}
		name, at, decl := l.namedFunction(t, i)
		if name != "" {
			scope := n.Parent
			if l.values[n.Kind] { // its name comes from its holder, which is no scope
				scope = t.Nodes[scope].Parent
			}
			path := joinPath(paths[scope], name)
			paths[i] = path
			f := Func{Name: path[strings.LastIndexByte(path, '.')+1:], Path: path, nameAt: at}
			l.setRanges(t, &f, decl, i)
			f.Line, f.EndLine = lines.lineOf(f.start), lines.lineOf(f.end)
			funcs = append(funcs, f)
			continue
		}
		if field, ok := l.scopes[n.Kind]; ok {
			if c := t.Child(i, field); c >= 0 {
				paths[i] = joinPath(paths[i], typeName(t, c))
			}
		}
	}
	return funcs
}

func joinPath(scope, name string) string {
	if scope == "" || name == "" {
		return scope + name
	}
	return scope + "." + name
}

// namedFunction returns the name of the function at node i, or "", the offset of the name,
// and the declaration: for a function in a variable, the statement around it.
func (l *treeLanguage) namedFunction(t *grammar.Tree, i int) (name string, at, decl int) {
	n := &t.Nodes[i]
	if field, ok := l.funcs[n.Kind]; ok {
		if c := t.Child(i, field); c >= 0 {
			return functionName(t, c), t.Nodes[c].Start, i
		}
		return "", 0, -1
	}
	if !l.values[n.Kind] || i == 0 {
		return "", 0, -1
	}
	holder := n.Parent
	field, ok := l.holders[t.Nodes[holder].Kind]
	if !ok || n.Field != "value" && n.Field != "right" {
		return "", 0, -1
	}
	c := t.Child(holder, field)
	if c < 0 || c == i {
		return "", 0, -1
	}
	name = strings.Trim(t.Text(c), `"'`)
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		name = name[dot+1:] // exports.f = ...
	}
	if strings.ContainsAny(name, " \n{[(") {
		return "", 0, -1
	}
	return name, t.Nodes[c].Start, l.declarationOf(t, holder)
}

// declarationOf returns the declaration around a variable, if it declares nothing else.
func (l *treeLanguage) declarationOf(t *grammar.Tree, holder int) int {
	if t.Nodes[holder].Kind != "variable_declarator" {
		return holder
	}
	parent := t.Nodes[holder].Parent
	count := 0
	for c := range t.Children(parent) {
		if t.Nodes[c].Kind == "variable_declarator" {
			count++
		}
	}
	if count == 1 {
		return parent
	}
	return holder
}

// functionName returns the name in a C declarator, else the text.
func functionName(t *grammar.Tree, i int) string {
	for {
		n := &t.Nodes[i]
		switch n.Kind {
		case "qualified_identifier":
			return strings.ReplaceAll(strings.ReplaceAll(t.Text(i), " ", ""), "::", ".")
		case "function_declarator", "pointer_declarator", "parenthesized_declarator", "attributed_declarator", "template_function":
			next := t.Child(i, "declarator")
			if next < 0 {
				next = t.Child(i, "name")
			}
			if next < 0 {
				return ""
			}
			i = next
		case "reference_declarator":
			next := -1
			for c := range t.Children(i) {
				next = c
			}
			if next < 0 {
				return ""
			}
			i = next
		default:
			return strings.Trim(t.Text(i), `"'`)
		}
	}
}

// typeName returns a type's name without type parameters.
func typeName(t *grammar.Tree, i int) string {
	for t.Nodes[i].Kind == "generic_type" || t.Nodes[i].Kind == "template_type" {
		next := t.Child(i, "type")
		if next < 0 {
			next = t.Child(i, "name")
		}
		if next < 0 {
			break
		}
		i = next
	}
	return strings.ReplaceAll(t.Text(i), "::", ".")
}

// setRanges sets the ranges that a new body and a new signature replace. decl is the
// declaration, i the function.
func (l *treeLanguage) setRanges(t *grammar.Tree, f *Func, decl, i int) {
	f.start, f.end = t.Nodes[decl].Start, t.Nodes[decl].End
	f.sigStart, f.sigEnd = f.start, f.end
	body := t.Child(i, "body")
	if body < 0 {
		f.sigEnd = trimEnd(t.Source, f.start, f.end, ";")
		return
	}
	b := t.Nodes[body]
	f.bodyStart, f.bodyEnd = b.Start, b.End
	if l.python {
		f.sigEnd, f.bodyStart = pythonHead(t, i, b.Start)
		f.bodyEnd = trimEnd(t.Source, f.bodyStart, b.End, "") // a comment includes the CR of its line
		f.end = trimEnd(t.Source, f.start, f.end, "")
		return
	}
	f.arrow = t.Nodes[i].Kind == "arrow_function"
	f.sigEnd = trimEnd(t.Source, f.start, b.Start, "")
}

// trimEnd moves end back over spaces and the bytes of cut.
func trimEnd(src []byte, start, end int, cut string) int {
	for end > start && strings.IndexByte(" \t\r\n"+cut, src[end-1]) >= 0 {
		end--
	}
	return end
}

// pythonHead returns the end of the signature, before the colon, and the start of the body,
// after the colon and a comment on its line.
func pythonHead(t *grammar.Tree, i, body int) (sigEnd, bodyStart int) {
	last := t.Nodes[i].Start
	for c := range t.Children(i) {
		if n := t.Nodes[c]; n.End <= body && n.Kind != "comment" && n.Field != "body" {
			last = n.End
		}
	}
	at := last
	for at < body && t.Source[at] != ':' {
		at++
	}
	sigEnd, bodyStart = last, min(at+1, body)
	rest := t.Source[bodyStart:body]
	line, _, more := strings.Cut(string(rest), "\n")
	if comment := strings.TrimLeft(line, " \t"); more && strings.HasPrefix(comment, "#") {
		bodyStart += len(strings.TrimRight(line, "\r"))
	}
	return sigEnd, bodyStart
}

// lineStarts maps offsets to lines by binary search.
type lineStarts []int

func lineIndex(src []byte) lineStarts {
	index := lineStarts{0}
	for i, c := range src {
		if c == '\n' {
			index = append(index, i+1)
		}
	}
	return index
}

func (l lineStarts) lineOf(offset int) int {
	low, high := 0, len(l)
	for low < high {
		mid := (low + high) / 2
		if l[mid] <= offset {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
