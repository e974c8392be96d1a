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

// maxPattern bounds the bytes of a pattern of any kind.
const maxPattern = 64 << 10

// A Query is a compiled pattern. Any number of goroutines may use it.
type Query struct {
	re        *regexp.Regexp // decides on a line; nil where a needle alone does
	needles   []needle       // one of them is in every match; none where nothing is known
	multiline bool
	never     bool // it can't match in any line
	before    int
	after     int
}

// Compile compiles the pattern of a Grep with its options. An error is
// InvalidArgument and says what is wrong with the pattern.
func Compile(pattern string, o *driver.GrepOptions) (*Query, error) {
	switch {
	case pattern == "":
		return nil, fmt.Errorf("%w: the pattern is empty", fault.InvalidArgument)
	case len(pattern) > maxPattern:
		return nil, fmt.Errorf("%w: the pattern has %d bytes; at most %d are allowed", fault.InvalidArgument, len(pattern), maxPattern)
	case o.Before < 0 || o.After < 0 || o.MaxPerFile < 0 || o.MaxMatches < 0 || o.MaxTime < 0:
		return nil, fmt.Errorf("%w: a limit or a number of lines is negative", fault.InvalidArgument)
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
	return q, q.compile(pattern, o)
}

func (q *Query) compile(pattern string, o *driver.GrepOptions) error {
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
		return fmt.Errorf("%w: the pattern is not a regular expression of RE2: %w", fault.InvalidArgument, err)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return fmt.Errorf("%w: the pattern is not a regular expression of RE2: %w", fault.InvalidArgument, err)
	}
	q.re = re
	lits := required(tree)
	for _, l := range lits {
		q.needles = append(q.needles, newNeedle(l.text, l.fold))
	}
	if len(lits) == 1 && lits[0].whole && !strings.Contains(lits[0].text, "\n") {
		q.re = nil
	}
	return nil
}

// Find returns the matches in the content of one file, at most limit of them;
// 0 is all. Their paths are left empty.
func (q *Query) Find(data []byte, limit int) []driver.Match {
	switch {
	case q.never || len(data) == 0:
		return nil
	case q.multiline:
		return q.findSpans(data, limit)
	case len(q.needles) == 0:
		return q.findLines(data, limit)
	case len(q.needles) == 1:
		return q.findOne(data, limit)
	}
	return q.findAny(data, limit)
}

// A page counts lines while matches are found from left to right.
type page struct {
	q       *Query
	data    []byte
	counted int // newlines before this offset are in line
	line    int
	found   []driver.Match
}

// add records the lines from start to end, the end of the last without its line
// ending.
func (p *page) add(start, end, column int) {
	p.line += bytes.Count(p.data[p.counted:start], newline)
	p.counted = start
	m := driver.Match{Line: p.line + 1, Column: column + 1, Text: string(p.data[start:end])}
	if p.q.before > 0 {
		m.Before = linesBefore(p.data, start, p.q.before)
	}
	if p.q.after > 0 {
		m.After = linesAfter(p.data, end, p.q.after)
	}
	p.found = append(p.found, m)
}

var newline = []byte{'\n'}

// lineEnd returns where the line that contains at ends, without its line
// ending, and where the next begins.
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

// findOne goes from one occurrence of the only needle to the next and asks the
// expression about its line.
func (q *Query) findOne(data []byte, limit int) []driver.Match {
	n := &q.needles[0]
	c := cursor{needle: n, data: data}
	at := c.next(0)
	if at < 0 {
		return nil
	}
	p := page{q: q, data: data}
	for from := 0; at >= 0; {
		start := from + bytes.LastIndexByte(data[from:at], '\n') + 1
		end, next := lineEnd(data, start, at)
		column, ok := at-start, at+len(n.text) <= end
		if q.re != nil {
			column, ok = q.match(data[start:end])
		}
		if ok {
			if p.add(start, end, column); len(p.found) == limit {
				break
			}
		}
		if next >= len(data) {
			break
		}
		from, at = next, c.next(next)
	}
	return p.found
}

// match returns where in a line the first match begins.
func (q *Query) match(line []byte) (column int, ok bool) {
	loc := q.re.FindIndex(line)
	if loc == nil {
		return 0, false
	}
	return loc[0], true
}

// findAny is findOne for several needles, one of which is in every match.
func (q *Query) findAny(data []byte, limit int) []driver.Match {
	cursors := make([]cursor, len(q.needles))
	next := make([]int, len(q.needles))
	for i := range q.needles {
		cursors[i] = cursor{needle: &q.needles[i], data: data}
		next[i] = cursors[i].next(0)
	}
	p := page{q: q, data: data}
	for from := 0; from < len(data); {
		at := -1
		for i := range next {
			if next[i] >= 0 && next[i] < from {
				next[i] = cursors[i].next(from)
			}
			if next[i] >= 0 && (at < 0 || next[i] < at) {
				at = next[i]
			}
		}
		if at < 0 {
			break
		}
		start := from + bytes.LastIndexByte(data[from:at], '\n') + 1
		end, after := lineEnd(data, start, at)
		if column, ok := q.match(data[start:end]); ok {
			if p.add(start, end, column); len(p.found) == limit {
				break
			}
		}
		from = after
	}
	return p.found
}

// findLines asks the expression about every line.
func (q *Query) findLines(data []byte, limit int) []driver.Match {
	p := page{q: q, data: data}
	for start := 0; start < len(data); {
		end, next := lineEnd(data, start, start)
		if column, ok := q.match(data[start:end]); ok {
			if p.add(start, end, column); len(p.found) == limit {
				break
			}
		}
		start = next
	}
	return p.found
}

// findSpans shows the whole file to the expression. Matches that begin in a line
// that was reported already are part of that report.
func (q *Query) findSpans(data []byte, limit int) []driver.Match {
	if !q.mayMatch(data) {
		return nil
	}
	for n := 1024; ; n *= 8 {
		p := page{q: q, data: data}
		spans := q.spans(data, n)
		reported := 0 // all before this offset is
		for _, span := range spans {
			if span[0] < reported || span[0] == len(data) && data[len(data)-1] == '\n' {
				continue
			}
			start := bytes.LastIndexByte(data[:span[0]], '\n') + 1
			last := max(span[0], span[1]-1) // a match that ends with a newline ends in that line
			end, next := lineEnd(data, start, last)
			if p.add(start, end, span[0]-start); len(p.found) == limit {
				return p.found
			}
			reported = max(next, end+1) // a last line without a newline has no next
		}
		if len(spans) < n {
			return p.found
		}
	}
}

func (q *Query) mayMatch(data []byte) bool {
	for i := range q.needles {
		c := cursor{needle: &q.needles[i], data: data}
		if c.next(0) >= 0 {
			return true
		}
	}
	return len(q.needles) == 0
}

// spans returns the first n matches in data.
func (q *Query) spans(data []byte, n int) [][]int {
	if q.re != nil {
		return q.re.FindAllIndex(data, n)
	}
	var spans [][]int
	c := cursor{needle: &q.needles[0], data: data}
	for at := c.next(0); at >= 0 && len(spans) < n; {
		end := at + len(q.needles[0].text)
		spans = append(spans, []int{at, end})
		at = c.next(end)
	}
	return spans
}

// linesBefore returns up to n lines that end before start.
func linesBefore(data []byte, start, n int) []string {
	var lines []string
	for end := start; n > 0 && end > 0; n-- {
		begin := bytes.LastIndexByte(data[:end-1], '\n') + 1
		lines = append(lines, string(bytes.TrimSuffix(data[begin:end-1], []byte{'\r'})))
		end = begin
	}
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return lines
}

// linesAfter returns up to n lines that follow the one that ends at end.
func linesAfter(data []byte, end, n int) []string {
	i := bytes.IndexByte(data[end:], '\n')
	if i < 0 {
		return nil
	}
	var lines []string
	for start := end + i + 1; n > 0 && start < len(data); n-- {
		stop, next := lineEnd(data, start, start)
		lines = append(lines, string(data[start:stop]))
		start = next
	}
	return lines
}

// IsBinary reports whether data is not text: whether it has a NUL.
func IsBinary(data []byte) bool { return bytes.IndexByte(data, 0) >= 0 }
