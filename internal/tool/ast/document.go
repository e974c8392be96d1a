package ast

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A parsedFile is a parsed text.
type parsedFile struct {
	language
	name   string
	src    []byte
	funcs  []Func
	errors []problem
}

func (e *Editor) open(ctx context.Context, name string, src []byte) (*parsedFile, error) {
	l, err := e.languageFor(name)
	if err != nil {
		return nil, err
	}
	d := &parsedFile{language: l, name: name, src: src}
	if d.funcs, d.errors, err = l.outline(ctx, name, src); err != nil {
		return nil, err
	}
	return d, nil
}

// findFunction parses a text and looks a function up in it.
func (e *Editor) findFunction(ctx context.Context, name string, src []byte, function string) (*parsedFile, *Func, error) {
	d, err := e.open(ctx, name, src)
	if err != nil {
		return nil, nil, err
	}
	f, err := d.lookupFunction(function)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range d.errors {
		if p.start < f.end && f.start <= p.end {
			return nil, nil, invalidf("parse error: %s:%d:%d: %s", name, p.line, p.col, p.what)
		}
	}
	return d, f, nil
}

// lookupFunction returns the function that spec names; it must be unique.
func (d *parsedFile) lookupFunction(spec string) (*Func, error) {
	spec = strings.TrimSpace(spec)
	if spec == "" {
		return nil, invalidf("function_name is required")
	}
	receiver, bare, isGoMethod := goMethod(spec)
	var exact, loose []*Func
	for i := range d.funcs {
		f := &d.funcs[i]
		want := dottedName(spec)
		switch {
		case isGoMethod:
			if f.Name == bare && strings.TrimSpace(f.Receiver) == receiver {
				exact = append(exact, f)
			}
		case f.Path == want:
			exact = append(exact, f)
		case strings.HasSuffix(f.Path, "."+want) && f.Receiver == "":
			loose = append(loose, f)
		}
	}
	if len(exact) == 0 {
		exact = loose
	}
	if len(exact) == 0 && !isGoMethod {
		exact = d.assignedTo(dottedName(spec))
	}
	switch {
	case len(exact) == 1:
		return exact[0], nil
	case len(exact) > 1:
		var lines []string
		for _, f := range exact {
			lines = append(lines, fmt.Sprintf("line %d", f.Line))
		}
		return nil, invalidf("ambiguous: %s matches %d declarations at %s", spec, len(exact), strings.Join(lines, ", "))
	case isGoMethod:
		return nil, notFoundf("method %s not found in %s%s", spec, d.name, d.offer(bare))
	}
	_, last, _ := cutLast(dottedName(spec))
	return nil, notFoundf("function %s not found in %s%s", spec, d.name, d.offer(last))
}

// assignedTo returns the functions that are assigned to a dotted name, such as "res.status" of
// "res.status = function status(code) {": search_code shows them by that name.
func (d *parsedFile) assignedTo(want string) []*Func {
	_, last, ok := cutLast(want)
	if !ok {
		return nil
	}
	assignment := regexp.MustCompile(`(?:^|[^\w$])` + regexp.QuoteMeta(want) + `\s*=[^=]`)
	var out []*Func
	for i := range d.funcs {
		f := &d.funcs[i]
		start := bytes.LastIndexByte(d.src[:f.start], '\n') + 1
		if f.Name == last && f.bodyStart > start && assignment.Match(d.src[start:f.bodyStart]) {
			out = append(out, f)
		}
	}
	return out
}

// offer lists functions of the file for an error: those with a name, or else the first ones.
func (d *parsedFile) offer(name string) string {
	const most = 12
	var same, all []string
	for i := range d.funcs {
		f := &d.funcs[i]
		all = append(all, f.Display())
		if strings.EqualFold(f.Name, name) {
			same = append(same, fmt.Sprintf("%s at line %d", f.Display(), f.Line))
		}
	}
	list := same
	if len(list) == 0 {
		list = all
	}
	if len(list) == 0 {
		return " (it has no functions)"
	}
	text := strings.Join(list[:min(len(list), most)], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return " (available: " + text + ")"
}

// goMethod splits (*T).M and (T).M.
func goMethod(spec string) (receiver, name string, ok bool) {
	if !strings.HasPrefix(spec, "(") {
		return "", "", false
	}
	end := strings.LastIndex(spec, ").")
	if end < 0 {
		return "", "", false
	}
	return strings.TrimSpace(spec[1:end]), spec[end+2:], true
}

// dottedName converts A::b and A#b to A.b.
func dottedName(spec string) string { return strings.NewReplacer("::", ".", "#", ".").Replace(spec) }

// lookupMethod returns the last method of that name on a type or class.
func (d *parsedFile) lookupMethod(receiver, method string) (*Func, error) {
	receiver = dottedName(strings.Trim(strings.TrimSpace(receiver), "()"))
	if receiver == "" {
		return nil, invalidf("receiver_type is required")
	}
	if method = strings.TrimSpace(method); method == "" {
		return nil, invalidf("method_name is required")
	}
	bare := strings.TrimPrefix(receiver, "*")
	var found *Func
	var available []string
	for i := range d.funcs {
		f := &d.funcs[i]
		owner, _, _ := cutLast(f.Path)
		if owner != bare && !strings.HasSuffix(owner, "."+bare) {
			continue
		}
		available = append(available, f.Display())
		if f.Name == method && (found == nil || f.Receiver == receiver) {
			found = f
		}
	}
	if found != nil {
		return found, nil
	}
	if len(available) == 0 {
		return nil, notFoundf("method %s not found on %s in %s (no methods found on that receiver)", method, receiver, d.name)
	}
	return nil, notFoundf("method %s not found on %s in %s (available: %s)", method, receiver, d.name, strings.Join(available, ", "))
}

func cutLast(path string) (owner, name string, ok bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// replaceRange replaces src[start:end] and checks the guarantees of this package. f is the
// function that may change; nil for an insertion.
func (d *parsedFile) replaceRange(ctx context.Context, f *Func, start, end int, text string) (Change, error) {
	if bytes.Contains(d.src, []byte("\r\n")) {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
	}
	content := slices.Concat(d.src[:start], []byte(text), d.src[end:])
	after, errors, err := d.outline(ctx, d.name, content)
	if err != nil {
		return Change{}, invalidf("replacement did not parse: %s", strings.TrimPrefix(err.Error(), "parse error: "))
	}
	newEnd := start + len(text)
	for _, p := range errors {
		if len(errors) > len(d.errors) || p.start <= newEnd && start <= p.end {
			line, col := p.line, p.col
			if p.start < start { // the parser gave up before the new text; report the new text
				at := newEnd - len(strings.TrimLeft(text, " \t\r\n"))
				line, col = lineAt(content, at), at-bytes.LastIndexByte(content[:at], '\n')
			}
			return Change{}, invalidf("replacement did not parse: %s:%d:%d: %s", d.name, line, col, p.what)
		}
	}
	if was, is := outlineKeys(d.src, d.funcs, start, end, f != nil), outlineKeys(content, after, start, newEnd, f != nil); !slices.Equal(was, is) {
		return Change{}, invalidf("replacement did not parse: %s:%d:1: it changes more of the file than the named declaration", d.name, lineAt(content, start))
	}
	if bytes.Equal(content, d.src) {
		return Change{}, invalidf("no change: the new text equals the old")
	}
	return d.newChange(f, start, end, text, content), nil
}

// outlineKeys returns what must be equal in the outlines before and after a replacement:
// functions outside the range with their text, functions around it by name, and the body of
// a function whose signature is replaced.
func outlineKeys(src []byte, funcs []Func, start, end int, replaced bool) []string {
	var list []string
	for i := range funcs {
		f := &funcs[i]
		switch {
		case f.end <= start || f.start >= end:
			list = append(list, f.Path+"\x00"+string(src[f.start:f.end]))
		case f.start >= start && f.end <= end: // inside the replaced range
		case replaced && f.start == start && (f.bodyStart >= end || f.bodyStart == f.bodyEnd):
			list = append(list, "\x00"+string(src[f.bodyStart:f.bodyEnd]))
		case f.start <= start && f.end >= end:
			list = append(list, f.Path)
		default:
			list = append(list, f.Path+"\x00cut") // a function cut by the range
		}
	}
	return list
}

// newChange describes the edit by whole lines of the function or insertion.
func (d *parsedFile) newChange(f *Func, start, end int, text string, content []byte) Change {
	if f == nil {
		trimmed := strings.TrimLeft(text, "\r\n")
		return Change{Line: lineAt(content, start+len(text)-len(trimmed)), After: trimmed, Content: content, Count: 1}
	}
	grown := len(content) - len(d.src)
	first, last := min(f.start, start), max(f.end, end)
	return Change{
		Line: f.Line, Content: content, Count: 1,
		Before: string(d.src[first:last]), After: string(content[first : last+grown]),
	}
}

// lineEnd returns the end of the line of offset if only spaces, a semicolon and a comment
// follow; else offset.
func (d *parsedFile) lineEnd(offset int) int {
	rest := d.src[offset:]
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	rest = bytes.TrimSuffix(rest, []byte{'\r'})
	tail := bytes.TrimLeft(rest, " \t;,")
	if len(tail) == 0 || bytes.HasPrefix(tail, []byte("//")) || bytes.HasPrefix(tail, []byte("#")) {
		return offset + len(rest)
	}
	return offset
}

func lineAt(src []byte, offset int) int {
	return bytes.Count(src[:min(offset, len(src))], []byte{'\n'}) + 1
}

// indentAt returns the indentation of the line of offset.
func indentAt(src []byte, offset int) string {
	start := bytes.LastIndexByte(src[:offset], '\n') + 1
	end := start
	for end < len(src) && (src[end] == ' ' || src[end] == '\t') {
		end++
	}
	return string(src[start:end])
}
