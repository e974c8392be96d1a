package ast

import (
	"bytes"
	"context"
	"strings"
)

// layoutBody formats a new body with the indentation of the old one, or one step deeper
// than the function.
func (l *treeLanguage) layoutBody(ctx context.Context, src []byte, f *Func, text string) (string, error) {
	outer := indentAt(src, f.start)
	inner := l.innerIndent(src, f, outer)
	text = strings.Trim(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if l.python {
		if strings.TrimSpace(text) == "" {
			text = "pass"
		}
		laid, err := l.indentText(ctx, text, inner)
		return "\n" + laid, err
	}
	if block := strings.TrimSpace(text); strings.HasPrefix(block, "{") && matchingBrace(block) == len(block)-1 {
		text = strings.Trim(block[1:len(block)-1], "\n")
	}
	if strings.TrimSpace(text) == "" {
		return "{}", nil
	}
	laid, err := l.indentText(ctx, text, inner)
	return "{\n" + laid + "\n" + outer + "}", err
}

// matchingBrace returns the index of the brace that closes the first one. It ignores
// strings; a wrong result fails to parse later.
func matchingBrace(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// innerIndent returns the indentation of a function's statements.
func (l *treeLanguage) innerIndent(src []byte, f *Func, outer string) string {
	old := src[f.bodyStart:f.bodyEnd]
	for line := range bytes.SplitSeq(old, []byte{'\n'}) {
		text := bytes.TrimLeft(line, " \t")
		indent := string(line[:len(line)-len(text)])
		if len(bytes.TrimRight(text, "\r}")) > 0 && len(indent) > len(outer) && strings.HasPrefix(indent, outer) {
			return indent
		}
	}
	return outer + l.indentStep(src)
}

// indentStep returns one step of the file's indentation.
func (l *treeLanguage) indentStep(src []byte) string {
	for line := range bytes.SplitSeq(src, []byte{'\n'}) {
		text := bytes.TrimLeft(line, " \t")
		if n := len(line) - len(text); n > 1 && len(text) > 1 && text[0] != '*' {
			if line[0] == '\t' {
				return "\t"
			}
			return string(line[:min(n, 8)])
		} else if n == 1 && line[0] == '\t' {
			return "\t"
		}
	}
	return l.indentUnit
}

// indentText indents text so that its least indented line begins with indent. Lines that
// begin inside a string are kept.
func (l *treeLanguage) indentText(ctx context.Context, text, indent string) (string, error) {
	inside, err := l.inStrings(ctx, text)
	if err != nil {
		return "", err
	}
	all := strings.Split(text, "\n")
	common, first := "", true
	for i, line := range all {
		if strings.TrimSpace(line) == "" || inside[i] {
			continue
		}
		lead := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if first {
			common, first = lead, false
		}
		for !strings.HasPrefix(lead, common) {
			common = common[:len(common)-1]
		}
	}
	for i, line := range all {
		switch {
		case inside[i]:
		case strings.TrimSpace(line) == "":
			all[i] = ""
		default:
			all[i] = indent + line[len(common):]
		}
	}
	return strings.Join(all, "\n"), nil
}

// inStrings returns the lines of text, from 0, that begin inside a string.
func (l *treeLanguage) inStrings(ctx context.Context, text string) (map[int]bool, error) {
	inside := map[int]bool{}
	if !strings.Contains(text, "\n") {
		return inside, nil
	}
	t, err := l.set.Parse(ctx, l.lang, []byte(text))
	if err != nil {
		return nil, err
	}
	index := lineIndex(t.Source)
	for i := range t.Nodes {
		if n := &t.Nodes[i]; strings.Contains(n.Kind, "string") {
			for line := index.lineOf(n.Start); line < index.lineOf(n.End); line++ {
				inside[line] = true // the next line, counted from 0
			}
		}
	}
	return inside, nil
}

func (l *treeLanguage) layoutSignature(src []byte, f *Func, text string) string {
	switch {
	case l.python:
		return strings.TrimSpace(strings.TrimSuffix(text, ":"))
	case f.bodyStart == f.bodyEnd:
		return strings.TrimSpace(strings.TrimSuffix(text, ";"))
	}
	text = strings.TrimSpace(strings.TrimSuffix(text, "{"))
	if before := strings.TrimRight(string(src[:f.start]), " \t"); strings.HasSuffix(before, "export") || strings.HasSuffix(before, "default") {
		text = strings.TrimPrefix(text, "export ")
		text = strings.TrimPrefix(text, "default ")
	}
	if f.arrow && !strings.HasSuffix(text, "=>") {
		text += " =>"
	}
	return text
}

func (l *treeLanguage) layoutMethod(ctx context.Context, src []byte, f *Func, text string) (string, error) {
	text = strings.Trim(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	laid, err := l.indentText(ctx, text, indentAt(src, f.start))
	return "\n\n" + laid, err
}
