package search

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/croft-run/croft/workspace/driver"
)

const (
	askEvery = 16 << 10 // bytes of a file, or of rules, between two looks at the clock; fewer where they are dear
	maxSteps = 64 << 20 // of an expression that are made without one
)

// A page is the search of one file. It counts lines while matches are found from
// left to right.
type page struct {
	q       *Query
	data    []byte
	limit   int // of matches; 0 is all
	counted int // newlines before this offset are in line
	line    int
	found   []driver.Match
	bytes   int // what they cost

	stop    func() bool // nil for never
	stopped bool        // it said so
	asked   int         // offset where stop was asked last
	context int         // bytes that were read for context since
}

// ask asks whether to stop.
func (p *page) ask() bool {
	p.stopped = p.stopped || p.stop != nil && p.stop()
	return p.stopped
}

// ends reports whether the search is over at an offset: it was told to stop, or
// has found enough.
func (p *page) ends(at int) bool {
	if (at-p.asked)*(1+p.q.steps/64)+p.context > askEvery {
		p.asked, p.context = at, 0
		p.ask()
	}
	return p.stopped || p.limit > 0 && len(p.found) >= p.limit || p.bytes > driver.MaxGrepBytes
}

// add records the lines from start to end, the end of the last without its line
// ending.
func (p *page) add(start, end, column int) {
	p.line += bytes.Count(p.data[p.counted:start], newline)
	p.counted = start
	m := driver.Match{Line: p.line + 1, Column: column + 1}
	m.Text, m.Cut = clip(p.data[start:end])
	if p.q.before > 0 {
		b := block{}
		p.context += start - b.before(p.data, start, p.q.before)
		m.Before, m.Cut = b.lines, m.Cut || b.cut
	}
	if p.q.after > 0 {
		b := block{}
		p.context += b.after(p.data, end, p.q.after) - end
		m.After, m.Cut = b.lines, m.Cut || b.cut
	}
	p.bytes += cost(&m)
	p.found = append(p.found, m)
}

// clip returns what an answer has of a line, and whether that is not all.
func clip(line []byte) (string, bool) {
	const most = driver.MaxMatchText
	if len(line) <= most {
		return string(line), false
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(line[end]) {
		end--
	}
	return string(line[:end]), true
}

// A block is the context on one side of a match.
type block struct {
	lines []string
	bytes int
	cut   bool // a line, or the block
}

// add reports whether the line fits.
func (b *block) add(line []byte) bool {
	text, cut := clip(line)
	if b.bytes += lineCost + len(text); b.bytes > driver.MaxMatchContext/2 {
		b.cut = true
		return false
	}
	b.lines, b.cut = append(b.lines, text), b.cut || cut
	return true
}

// before adds up to n lines that end before start, and returns where it looked
// first.
func (b *block) before(data []byte, start, n int) int {
	end := start
	for ; n > 0 && end > 0; n-- {
		begin := bytes.LastIndexByte(data[:end-1], '\n') + 1
		fits := b.add(bytes.TrimSuffix(data[begin:end-1], []byte{'\r'}))
		if end = begin; !fits {
			break
		}
	}
	for i, j := 0, len(b.lines)-1; i < j; i, j = i+1, j-1 {
		b.lines[i], b.lines[j] = b.lines[j], b.lines[i]
	}
	return end
}

// after adds up to n lines that follow the one that ends at end, and returns
// where it looked last.
func (b *block) after(data []byte, end, n int) int {
	i := bytes.IndexByte(data[end:], '\n')
	if i < 0 {
		return len(data)
	}
	start := end + i + 1
	for ; n > 0 && start < len(data); n-- {
		stop, next := lineEnd(data, start, start)
		fits := b.add(data[start:stop])
		if start = next; !fits {
			break
		}
	}
	return start
}

func (p *page) cursor(n *needle) cursor { return cursor{needle: n, data: p.data, stop: p.ask} }

// findOne goes from one occurrence of the only needle to the next and asks the
// expression about its line.
func (p *page) findOne() {
	n := &p.q.needles[0]
	c := p.cursor(n)
	for from := 0; from < len(p.data) && !p.ends(from); {
		at := c.next(from)
		if at < 0 {
			return
		}
		start := from + bytes.LastIndexByte(p.data[from:at], '\n') + 1
		end, next := lineEnd(p.data, start, at)
		column, ok := at-start, at+len(n.text) <= end
		if p.q.re != nil {
			column, ok = p.match(p.q.re, p.data[start:end])
		}
		if ok {
			p.add(start, end, column)
		}
		from = next
	}
}

// findAny is findOne for several needles, one of which is in every match.
func (p *page) findAny() {
	cursors := make([]cursor, len(p.q.needles))
	next := make([]int, len(p.q.needles))
	for i := range cursors {
		cursors[i] = p.cursor(&p.q.needles[i])
		next[i] = cursors[i].next(0)
	}
	for from := 0; from < len(p.data) && !p.ends(from); {
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
			return
		}
		start := from + bytes.LastIndexByte(p.data[from:at], '\n') + 1
		end, after := lineEnd(p.data, start, at)
		if column, ok := p.match(p.q.re, p.data[start:end]); ok {
			p.add(start, end, column)
		}
		from = after
	}
}

// findLines asks the expression about every line.
func (p *page) findLines() {
	for start := 0; start < len(p.data) && !p.ends(start); {
		end, next := lineEnd(p.data, start, start)
		if column, ok := p.match(p.q.re, p.data[start:end]); ok {
			p.add(start, end, column)
		}
		start = next
	}
}

// match returns where in a line the first match begins.
func (p *page) match(re matcher, line []byte) (column int, ok bool) {
	loc := p.span(re, line)
	if loc == nil {
		return 0, false
	}
	return loc[0], true
}

// A matcher is what a *regexp.Regexp does here.
type matcher interface {
	FindIndex(b []byte) []int
	FindReaderIndex(r io.RuneReader) []int
}

// span returns the first match in data. Package regexp can't be told to stop, but
// what it reads can end: so it gets a text that may take long from a reader, which
// is slower.
func (p *page) span(re matcher, data []byte) []int {
	if len(data) <= maxSteps/max(p.q.steps, 1) {
		return re.FindIndex(data)
	}
	loc := re.FindReaderIndex(&runes{page: p, data: data})
	if p.stopped {
		return nil
	}
	return loc
}

// runes reads data until the page is told to stop.
type runes struct {
	page *page
	data []byte
	n    uint
}

func (r *runes) ReadRune() (rune, int, error) {
	if r.n++; len(r.data) == 0 || r.n%256 == 0 && r.page.ask() {
		return 0, 0, io.EOF
	}
	c, size := rune(r.data[0]), 1
	if c >= utf8.RuneSelf {
		c, size = utf8.DecodeRune(r.data)
	}
	r.data = r.data[size:]
	return c, size, nil
}

// findSpans shows the whole file to the expression. Other matches that begin in a
// line that was reported are part of that report: the search goes on behind it.
func (p *page) findSpans() {
	if !p.mayMatch() {
		return
	}
	next := p.nextSpan()
	for from := 0; from < len(p.data) && !p.ends(from); {
		first, last := next(from)
		if first < 0 || first == len(p.data) && p.data[first-1] == '\n' {
			return
		}
		start := bytes.LastIndexByte(p.data[:first], '\n') + 1
		end, after := lineEnd(p.data, start, max(first, last-1)) // a match that ends with a newline ends in that line
		p.add(start, end, first-start)
		from = after
	}
}

// nextSpan returns what finds the first match at or after an offset, at which a
// line begins; -1 is none.
func (p *page) nextSpan() func(from int) (first, last int) {
	if p.q.re == nil {
		c := p.cursor(&p.q.needles[0])
		return func(from int) (int, int) {
			at := c.next(from)
			return at, at + len(c.needle.text)
		}
	}
	return func(from int) (int, int) {
		re := p.q.re
		if from > 0 {
			re = p.q.rest
		}
		loc := p.span(re, p.data[from:])
		if loc == nil {
			return -1, -1
		}
		return from + loc[0], from + loc[1]
	}
}

func (p *page) mayMatch() bool {
	for i := range p.q.needles {
		c := p.cursor(&p.q.needles[i])
		if c.next(0) >= 0 {
			return true
		}
	}
	return len(p.q.needles) == 0
}
