package secret

import (
	"bytes"

	"github.com/croft-run/croft/internal/lazyregexp"
)

var (
	// severalLines matches what begins a secret that is found by several lines.
	severalLines = lazyregexp.New(`PRIVATE KEY|Private-Lines:|(?i:login)|kind"?: ?"?Secret`)
	lineNumber   = lazyregexp.New(`^[ \t]*\d+[\t:-]`)
)

// HasSeveralLines reports whether a text may have a secret that is found by several lines, such as a value of a Kubernetes Secret,
// which one line of it does not tell.
func HasSeveralLines(p []byte) bool { return severalLines.Match(p) }

// findUnprefixed finds secrets of several lines without what tools such as grep write before
// each line: the path and the number.
func findUnprefixed(f Finder, p []byte) []Span {
	if !severalLines.Match(p) {
		return nil
	}
	var d decoded
	before := 0 // length of the path that a line has in common with the line before it
	for at := 0; at < len(p); {
		line := p[at:lineAfter(p, at)]
		next := p[at+len(line) : lineAfter(p, at+len(line))]
		same := commonPath(line, next)
		skip := max(before, same)
		if m := lineNumber.FindIndex(line[skip:]); m != nil {
			skip += m[1]
		}
		for i := at + skip; i < at+len(line); i++ {
			d.text, d.start, d.end = append(d.text, p[i]), append(d.start, i), append(d.end, i+1)
		}
		before = same
		at += len(line)
	}
	if len(d.text) == len(p) {
		return nil // no line has a prefix
	}
	return d.toOriginal(f.Find(d.text))
}

// lineAfter returns the index of the line after the one at an index.
func lineAfter(p []byte, at int) int {
	if i := bytes.IndexByte(p[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(p)
}

// commonPath returns the length of the path that two lines begin with, and of the ":" or "-" after
// it, which may differ; 0 if there is none.
func commonPath(a, b []byte) int {
	isEnd := func(c byte) bool { return c == ':' || c == '-' }
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if n > 0 && n < min(len(a), len(b)) && isEnd(a[n]) && isEnd(b[n]) {
		return n + 1
	}
	return bytes.LastIndexAny(a[:n], ":-") + 1
}
