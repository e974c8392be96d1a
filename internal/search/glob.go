package search

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/croft-run/croft/fault"
)

// maxAlternatives is the maximum number of alternatives that the braces of a glob
// expand to.
const maxAlternatives = 1024

// A Glob is a compiled pattern for paths. It is safe for concurrent use.
type Glob struct {
	pattern string
	elems   []string // of the pattern; nil if a brace spans a slash
	dots    []string // elements, or alternatives, that start with a dot
	all     bool     // the pattern is "**" or "**/*"
	suffix  string   // the pattern is "**/*" and this suffix
	anyName bool     // match the last element alone
}

// NewGlob compiles a pattern that matches whole paths relative to the start of the
// search.
func NewGlob(pattern string) (*Glob, error) {
	if err := checkGlob(pattern); err != nil {
		return nil, err
	}
	p := strings.TrimRight(pattern, "/")
	for strings.HasPrefix(p, "./") {
		p = p[2:]
	}
	if strings.HasSuffix(p, "/**") {
		p += "/*" // everything below, without the directory itself
	}
	g := &Glob{pattern: p}
	g.analyse()
	return g, nil
}

// NewFilter compiles a pattern of Include or Exclude: without a slash it matches
// the last element of any path.
func NewFilter(pattern string) (*Glob, error) {
	g, err := NewGlob(pattern)
	if err != nil || strings.Contains(g.pattern, "/") || g.all {
		return g, err
	}
	g, err = NewGlob("**/" + g.pattern)
	if err == nil && g.suffix == "" && !g.all {
		g.anyName, g.pattern = true, g.pattern[len("**/"):]
	}
	return g, err
}

func checkGlob(pattern string) error {
	switch {
	case pattern == "" || pattern == "/":
		return fmt.Errorf("%w: the glob is empty", fault.InvalidArgument)
	case len(pattern) > maxPattern:
		return fmt.Errorf("%w: the glob has %d bytes; at most %d are allowed", fault.InvalidArgument, len(pattern), maxPattern)
	case strings.IndexByte(pattern, 0) >= 0:
		return fmt.Errorf("%w: the glob has a NUL byte", fault.InvalidArgument)
	case !utf8.ValidString(pattern):
		return fmt.Errorf("%w: the glob is not UTF-8; ? and * match other bytes", fault.InvalidArgument)
	case pattern[0] == '/':
		return fmt.Errorf("%w: the glob %q is absolute; globs are relative", fault.SandboxViolation, pattern)
	case !doublestar.ValidatePattern(pattern):
		return fault.Advise(fmt.Errorf("%w: the glob %q is malformed", fault.InvalidArgument, pattern),
			"allowed are *, **, ?, [class], {a,b} and \\ before a character")
	case countAlternatives(pattern) > maxAlternatives:
		return fmt.Errorf("%w: the braces of the glob make more than %d alternatives", fault.InvalidArgument, maxAlternatives)
	}
	for elem := range strings.SplitSeq(pattern, "/") {
		if elem == ".." {
			return fmt.Errorf("%w: the glob %q has an element \"..\"", fault.SandboxViolation, pattern)
		}
	}
	return nil
}

// countAlternatives is an upper bound of the number of alternatives of a pattern.
func countAlternatives(pattern string) int {
	product, inner := 1, 1
	for _, c := range pattern {
		switch c {
		case ',':
			inner++
		case '}':
			product, inner = product*inner, 1
			if product > maxAlternatives {
				return product
			}
		case '{':
			product *= inner // a nested brace
			inner = 1
		}
	}
	return product * inner
}

const metaChars = `*?[{\`

func (g *Glob) analyse() {
	g.all = g.pattern == "**" || g.pattern == "**/*"
	if s, ok := strings.CutPrefix(g.pattern, "**/*"); ok && !strings.ContainsAny(s, metaChars+"/") {
		g.suffix = s
	}
	for token := range strings.FieldsFuncSeq(g.pattern, func(r rune) bool { return strings.ContainsRune("/{},", r) }) {
		if token[0] == '.' && doublestar.ValidatePattern(token) {
			g.dots = append(g.dots, token)
		}
	}
	if elems := strings.Split(g.pattern, "/"); !spansSlash(elems) {
		g.elems = elems
	}
}

// spansSlash reports whether a slash is within a brace or a class.
func spansSlash(elems []string) bool {
	for _, elem := range elems {
		if !doublestar.ValidatePattern(elem) || elem == "" || elem == "." {
			return true
		}
	}
	return false
}

// Base returns the directory of all matches: the leading elements of the pattern
// without metacharacters. It is "." if there are none.
func (g *Glob) Base() string {
	n := 0
	for n < len(g.elems)-1 && !strings.ContainsAny(g.elems[n], metaChars) {
		n++
	}
	if n == 0 || g.anyName {
		return "."
	}
	return strings.Join(g.elems[:n], "/")
}

// Match reports whether a path, relative to the start of the search, matches. It
// ignores the rule for dots: see Shows.
func (g *Glob) Match(path string) bool {
	if g.all {
		return true
	}
	if g.suffix != "" {
		return strings.HasSuffix(path, g.suffix)
	}
	if g.anyName {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	return doublestar.MatchUnvalidated(g.pattern, path)
}

// Descends reports whether anything below the directory dir may match.
func (g *Glob) Descends(dir string) bool {
	if g.elems == nil || g.all || g.suffix != "" || g.anyName {
		return true
	}
	i := 0
	for elem := range strings.SplitSeq(dir, "/") {
		switch {
		case i == len(g.elems):
			return false
		case g.elems[i] == "**":
			return true
		case !doublestar.MatchUnvalidated(g.elems[i], elem):
			return false
		}
		i++
	}
	return i < len(g.elems)
}

// Shows reports whether the pattern itself names a name that starts with a dot.
func (g *Glob) Shows(name string) bool {
	for _, dot := range g.dots {
		if doublestar.MatchUnvalidated(dot, name) {
			return true
		}
	}
	return false
}
