package lsp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

// maxNameFiles bounds the files whose declarations are listed for a name.
const maxNameFiles = 30

var (
	// The text before a name, and after it, on a line that may declare the name.
	declaringBefore = lazyregexp.New(`(?:\b(?:func|function|class|def|const|let|var|type|interface|enum|struct|union|fn|trait|mod|` +
		`namespace|export|static|define|typedef)\b[^=;]*|\.)$`)
	declaringStart = lazyregexp.New(`^\s*(?:[\w$<>\[\],*&:~]+\s+)*[*&]*$`)
	importing      = lazyregexp.New(`\brequire\s*\(|\bimport\b`)
	declaringAfter = lazyregexp.New(`^\s*(?:[=:(<;]|$)`)
)

// mayDeclare reports whether a line looks as if it declared a name.
func mayDeclare(line, name string) bool {
	for _, at := range wholeWord(name).FindAllStringIndex(line, -1) {
		before, after := line[:at[0]], line[at[1]:]
		if declaringBefore.MatchString(before) && (!strings.HasSuffix(before, ".") || strings.HasPrefix(strings.TrimSpace(after), "=")) ||
			declaringStart.MatchString(before) && declaringAfter.MatchString(after) {
			return true
		}
	}
	return false
}

// resolve returns the position of a symbol that is given by a position, or by a name.
func (s *Set) resolve(ctx context.Context, c *tool.Call, in position) (position, error) {
	in.Name = strings.TrimSpace(in.Name)
	if in.Name == "" || in.Line > 0 && in.Col > 0 {
		file, err := in.resolveFile(ctx, c)
		in.FilePath = file
		return in, err
	}
	in.Col = 0
	if in.FilePath == "" {
		if in.Line > 0 {
			return in, tool.Errorf(fault.InvalidArgument, "file_path is required with line")
		}
		return s.findName(ctx, in.Name, nil)
	}
	file, err := fileName(ctx, c, in.FilePath)
	if err != nil {
		return in, err
	}
	if in.Line == 0 {
		return s.findName(ctx, in.Name, []string{file})
	}
	text, err := readText(ctx, s.ws, file)
	if err != nil {
		return in, err
	}
	last := lastPart(in.Name)
	in.FilePath, in.Col = file, columnOf(text, in.Line, 1, last)
	if in.Col == 0 {
		return in, tool.Errorf(fault.InvalidArgument, "%s is not in line %d of %s; %s", last, in.Line, file, namesIn(text, in.Line))
	}
	return in, nil
}

// findName returns the position of the only declaration of a name, which may have its
// container before it, in some files or in all.
func (s *Set) findName(ctx context.Context, name string, files []string) (position, error) {
	last := lastPart(name)
	if last == "" {
		return position{}, tool.Errorf(fault.InvalidArgument, "name %q is no name of a symbol: give NAME or CONTAINER.NAME", name)
	}
	left := 0
	one := len(files) == 1
	if !one {
		found, err := s.declaringFiles(ctx, last)
		if err != nil {
			return position{}, err
		}
		files = found[:min(len(found), maxNameFiles)]
		left = len(found) - len(files)
	}
	var exact, same []Symbol // of the whole name, of its last part
	var failed error
	for _, file := range files {
		list, err := s.DocumentSymbols(ctx, file)
		if err != nil && (one || ctx.Err() != nil) {
			return position{}, err
		}
		failed = cmp.Or(failed, err) // the server of another language may not be there
		for _, sym := range list {
			if lastPart(cleanName(sym.Name)) != last {
				continue
			}
			same = append(same, sym)
			equal := func(o Symbol) bool { return o.Path == sym.Path && o.Container == sym.Container && o.Name == sym.Name }
			if isNamed(sym, name) && !slices.ContainsFunc(exact, equal) {
				exact = append(exact, sym) // declarations of one symbol, such as overloads, count once
			}
		}
	}
	if len(exact) == 0 && name != last {
		for _, sym := range same { // an assignment to NAME, such as "res.status = function status"
			if text, err := readText(ctx, s.ws, sym.Path); err == nil {
				if col := columnOf(text, sym.Line, 1, name); col > 0 {
					sym.Col = col + utf8.RuneCountInString(name) - utf8.RuneCountInString(last)
					exact = append(exact, sym)
				}
			}
		}
	}
	for _, drop := range []func(Symbol) bool{isLocal, isOwnChild, func(sym Symbol) bool { return s.isImport(ctx, sym) }} {
		if rest := slices.DeleteFunc(slices.Clone(exact), drop); len(exact) > 1 && len(rest) > 0 {
			exact = rest
		}
	}
	switch {
	case len(exact) == 1 && left == 0:
		return s.positionOf(ctx, exact[0], last)
	case len(exact) > 0:
		return position{}, ambiguous(name, exact, left)
	case failed != nil:
		return position{}, failed
	case len(same) > 0:
		return position{}, tool.Errorf(fault.NotFound, "no declaration of %q found; there is:\n%s", name, listSymbols(same))
	}
	return s.useOf(ctx, name, last, files, one)
}

// useOf returns a use of a name in a file that does not declare it.
func (s *Set) useOf(ctx context.Context, name, last string, files []string, one bool) (position, error) {
	if one {
		text, err := readText(ctx, s.ws, files[0])
		if err != nil {
			return position{}, err
		}
		for i := range strings.Count(string(text), "\n") + 1 {
			if col := columnOf(text, i+1, 1, last); col > 0 {
				return position{FilePath: files[0], Line: i + 1, Col: col, Name: name}, nil
			}
		}
		return position{}, tool.Errorf(fault.NotFound, "%s is not in %s", last, files[0])
	}
	t, err := s.searchName(ctx, last, nil)
	if err != nil {
		return position{}, err
	}
	if m := t.except(nil); m.Places > 0 {
		const text = "no declaration of %q found; it is a text in %s: give file_path, and line and col if that is not enough"
		return position{}, tool.Errorf(fault.NotFound, text, name, firstFiles(m.Files))
	}
	return position{}, tool.Errorf(fault.NotFound, "no declaration of %q found: it is in no file", name)
}

// declaringFiles returns the files with a language server that may declare a name.
func (s *Set) declaringFiles(ctx context.Context, name string) ([]string, error) {
	t, err := s.searchName(ctx, name, &workspace.GrepOptions{Include: sourceGlobs()})
	if err != nil {
		return nil, err
	}
	var out []string
	for file := range t.declaring {
		out = append(out, file)
	}
	slices.Sort(out)
	return out, nil
}

// sourceGlobs match the files that a language server is for.
func sourceGlobs() []string {
	var out []string
	for ext := range languages {
		out = append(out, "*"+ext)
	}
	slices.Sort(out)
	return out
}

func (s *Set) positionOf(ctx context.Context, sym Symbol, last string) (position, error) {
	text, err := readText(ctx, s.ws, sym.Path)
	if err != nil {
		return position{}, err
	}
	at := position{FilePath: sym.Path, Line: sym.Line, Col: sym.Col, Name: sym.Name}
	for line := sym.Line; line < sym.Line+3; line++ { // some servers give where the declaration begins
		if col := columnOf(text, line, at.Col, last); col > 0 {
			at.Line, at.Col = line, col
			return at, nil
		}
		at.Col = 1
	}
	at.Col = sym.Col
	return at, nil
}

// columnOf returns the column of a name in a line, from a column on; 0 if it is not there.
func columnOf(text []byte, line, from int, name string) int {
	content, _, ok := lineOf(text, line-1)
	if !ok {
		return 0
	}
	for _, at := range wholeWord(name).FindAllIndex(content, -1) {
		if col := len([]rune(string(content[:at[0]]))) + 1; col >= from {
			return col
		}
	}
	return 0
}

// cleanName returns a symbol's name without the receiver's punctuation: "(*T).M" is "T.M".
func cleanName(name string) string {
	name = strings.NewReplacer("(*", "", "(", "", ")", "", "::", ".", "#", ".").Replace(name)
	return strings.TrimSpace(name)
}

func lastPart(name string) string {
	name = cleanName(name)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// isNamed reports whether a symbol has a name, which may begin with its container.
func isNamed(sym Symbol, name string) bool {
	name = cleanName(name)
	container, _, qualified := cutLast(name)
	if !qualified {
		return true
	}
	own, _, _ := cutLast(cleanName(sym.Name))
	full := strings.TrimPrefix(cleanName(sym.Container)+"."+own, ".")
	return wholeWord(container).MatchString(full)
}

func cutLast(name string) (before, after string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name, false
	}
	return name[:i], name[i+1:], true
}

// isLocal reports whether a symbol is a variable inside of another declaration.
func isLocal(sym Symbol) bool {
	return sym.Depth > 0 && (sym.Kind == "variable" || sym.Kind == "constant")
}

// isOwnChild reports whether a symbol is the value of a symbol of its name, such as the function
// that is assigned to a property.
func isOwnChild(sym Symbol) bool {
	return lastPart(sym.Container) == lastPart(sym.Name) && sym.Depth > 0
}

// isImport reports whether a symbol is a variable that an import sets.
func (s *Set) isImport(ctx context.Context, sym Symbol) bool {
	text, err := readText(ctx, s.ws, sym.Path)
	if err != nil {
		return false
	}
	line, _, _ := lineOf(text, sym.Line-1)
	return importing.Match(line)
}

func ambiguous(name string, list []Symbol, left int) error {
	text := listSymbols(list)
	if left > 0 {
		text += fmt.Sprintf("  %d more files that may declare it were not looked at\n", left)
	}
	const what = "%q may be one of several symbols; give its container (CONTAINER.NAME), file_path, or file_path and line:\n%s"
	return tool.Errorf(fault.InvalidArgument, what, name, text)
}

func listSymbols(list []Symbol) string {
	var b strings.Builder
	const most = 20
	for i, sym := range list {
		if i == most {
			fmt.Fprintf(&b, "  ... and %d more\n", len(list)-most)
			break
		}
		name := sym.Name
		if sym.Container != "" {
			name = sym.Container + "." + name
		}
		fmt.Fprintf(&b, "  %s:%d:%d  %s [%s]\n", sym.Path, sym.Line, sym.Col, name, sym.Kind)
	}
	return b.String()
}
