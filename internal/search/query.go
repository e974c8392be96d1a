package search

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// maxPattern is the maximum number of bytes of a pattern of any kind.
const maxPattern = 64 << 10

// A Query is a compiled pattern. It is safe for concurrent use.
type Query struct {
	re        *regexp.Regexp // nil if the only needle is the whole pattern
	needles   []needle       // every match contains one of them; empty if unknown
	multiline bool
	rest      *regexp.Regexp // re after the first line of a file, where \A can't match
	steps     int            // instructions of re: the cost per byte
	never     bool           // no line can match
	before    int
	after     int
}

// Compile compiles the pattern of a Grep with its options. An error is
// InvalidArgument and describes the defect of the pattern.
func Compile(pattern string, o *driver.GrepOptions) (*Query, error) {
	switch {
	case pattern == "":
		return nil, fmt.Errorf("%w: the pattern is empty", fault.InvalidArgument)
	case len(pattern) > maxPattern:
		return nil, fmt.Errorf("%w: the pattern has %d bytes; at most %d are allowed", fault.InvalidArgument, len(pattern), maxPattern)
	}
	if err := CheckGrep(o); err != nil {
		return nil, err
	}
	q := &Query{multiline: o.Multiline, before: o.Before, after: o.After}
	if o.Literal && !o.IgnoreCase {
		q.needles = []needle{newNeedle(pattern, false)}
		q.never = !q.multiline && strings.Contains(pattern, "\n")
		return q, nil
	}
	if o.Literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	return q, q.compileRegexp(pattern, o)
}

// CheckGrep checks the numbers in the options of a Grep.
func CheckGrep(o *driver.GrepOptions) error {
	switch {
	case o.Before < 0 || o.After < 0 || o.MaxPerFile < 0 || o.MaxMatches < 0 || o.MaxFileSize < -1 || o.MaxTime < 0:
		return fmt.Errorf("%w: limits and numbers of lines must not be negative", fault.InvalidArgument)
	case o.Before > driver.MaxContext || o.After > driver.MaxContext:
		return fmt.Errorf("%w: %d lines before and %d after are requested; at most %d each are allowed", fault.InvalidArgument, o.Before, o.After, driver.MaxContext)
	case o.MaxMatches > driver.MaxGrepMatches:
		return fmt.Errorf("%w: %d matches are requested; at most %d are allowed", fault.InvalidArgument, o.MaxMatches, driver.MaxGrepMatches)
	}
	return nil
}

func (q *Query) compileRegexp(pattern string, o *driver.GrepOptions) error {
	var flags string
	if o.IgnoreCase {
		flags += "i"
	}
	if o.Multiline {
		flags += "ms"
	}
	if flags != "" {
		pattern = "(?" + flags + ":" + pattern + ")"
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return badPattern(err)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return badPattern(err)
	}
	q.re = re
	lits := requiredLiterals(tree)
	for _, l := range lits {
		q.needles = append(q.needles, newNeedle(l.text, l.fold))
	}
	if len(lits) == 1 && lits[0].whole && !strings.Contains(lits[0].text, "\n") {
		q.re = nil
		return nil
	}
	return q.analyseRegexp(tree)
}

// analyseRegexp computes the cost of the expression, and its form after the first
// line.
func (q *Query) analyseRegexp(tree *syntax.Regexp) error {
	q.rest = q.re
	if dropBeginText(tree) {
		var err error
		if q.rest, err = regexp.Compile(tree.String()); err != nil {
			return badPattern(err)
		}
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return badPattern(err)
	}
	q.steps = len(prog.Inst)
	return nil
}

// dropBeginText makes \A match nowhere, and reports whether there was one.
func dropBeginText(tree *syntax.Regexp) bool {
	if tree.Op == syntax.OpBeginText {
		tree.Op = syntax.OpNoMatch
		return true
	}
	had := false
	for _, sub := range tree.Sub {
		had = dropBeginText(sub) || had
	}
	return had
}

// Find returns the matches in the content of one file, at most limit of them; 0 is
// all, up to one more than the maximum of a result. Paths are left empty.
func (q *Query) Find(data []byte, limit int) []driver.Match { return q.find(data, limit, nil) }

// find is Find, which ends early when stop returns true.
func (q *Query) find(data []byte, limit int, stop func() bool) []driver.Match {
	p := &fileSearch{q: q, data: data, limit: limit, stop: stop}
	switch {
	case q.never || len(data) == 0:
	case q.multiline:
		p.findSpans()
	case len(q.needles) == 0:
		p.findLines()
	case len(q.needles) == 1:
		p.findOne()
	default:
		p.findAny()
	}
	return p.found
}

var newline = []byte{'\n'}

// lineEnd returns the end of the line that contains at, without its line ending,
// and the start of the next line.
func lineEnd(data []byte, start, at int) (end, next int) {
	i := bytes.IndexByte(data[at:], '\n')
	if i < 0 {
		end, next = len(data), len(data)
	} else {
		end, next = at+i, at+i+1
	}
	// A CR at the end of the last line without LF is text.
	if end > start && data[end-1] == '\r' && next > end {
		end--
	}
	return end, next
}

// IsBinary reports whether data contains a NUL.
func IsBinary(data []byte) bool { return bytes.IndexByte(data, 0) >= 0 }

func badPattern(err error) error {
	return fault.WithHint(fmt.Errorf("%w: the pattern is not an RE2 regular expression: %w", fault.InvalidArgument, err), fault.HintPattern)
}
