package search

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/croft-run/croft/workspace/driver"
)

const (
	stopCheckInterval = 16 << 10 // bytes of a file, or of rules, between two checks of stop; fewer for costly expressions
	maxSteps          = 64 << 20 // steps of an expression without a check
)

// A fileSearch is the search of one file. It counts lines while matches are found
// from left to right.
type fileSearch struct {
	q       *Query
	data    []byte
	limit   int // of matches; 0 is all
	counted int // newlines before this offset are counted in line
	line    int
	found   []driver.Match
	bytes   int // size of found

	stop    func() bool // may be nil
	stopped bool        // stop returned true
	asked   int         // offset of the last check of stop
	context int         // bytes read for context since then
}

func (p *fileSearch) checkStop() bool {
	p.stopped = p.stopped || p.stop != nil && p.stop()
	return p.stopped
}

// isDone reports whether the search ends at an offset: it was stopped, or a limit
// is reached.
func (p *fileSearch) isDone(at int) bool {
	if (at-p.asked)*(1+p.q.steps/64)+p.context > stopCheckInterval {
		p.asked, p.context = at, 0
		p.checkStop()
	}
	return p.stopped || p.limit > 0 && len(p.found) >= p.limit || p.bytes > driver.MaxGrepBytes
}

// addMatch records the lines from start to end, which is without the last line
// ending.
func (p *fileSearch) addMatch(start, end, column int) {
	p.line += bytes.Count(p.data[p.counted:start], newline)
	p.counted = start
	m := driver.Match{Line: p.line + 1, Column: column + 1}
	m.Text, m.Cut = clipLine(p.data[start:end])
	if p.q.before > 0 {
		b := contextLines{}
		p.context += start - b.addBefore(p.data, start, p.q.before)
		m.Before, m.Cut = b.lines, m.Cut || b.cut
	}
	if p.q.after > 0 {
		b := contextLines{}
		p.context += b.addAfter(p.data, end, p.q.after) - end
		m.After, m.Cut = b.lines, m.Cut || b.cut
	}
	p.bytes += matchSize(&m)
	p.found = append(p.found, m)
}

// clipLine returns the part of a line that a result has, and whether the line was
// cut.
func clipLine(line []byte) (string, bool) {
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

// contextLines is the context on one side of a match.
type contextLines struct {
	lines []string
	bytes int
	cut   bool // a line or the context was cut
}

// add reports whether the line fits.
func (b *contextLines) add(line []byte) bool {
	text, cut := clipLine(line)
	if b.bytes += lineCost + len(text); b.bytes > driver.MaxMatchContext/2 {
		b.cut = true
		return false
	}
	b.lines, b.cut = append(b.lines, text), b.cut || cut
	return true
}

// addBefore adds up to n lines that end before start, and returns the start of the
// first one.
func (b *contextLines) addBefore(data []byte, start, n int) int {
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

// addAfter adds up to n lines after the one that ends at end, and returns the end
// of the last one.
func (b *contextLines) addAfter(data []byte, end, n int) int {
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

func (p *fileSearch) newCursor(n *needle) cursor {
	return cursor{needle: n, data: p.data, stop: p.checkStop}
}

// findOne iterates over the occurrences of the only needle and matches the
// expression against their lines.
func (p *fileSearch) findOne() {
	n := &p.q.needles[0]
	c := p.newCursor(n)
	for from := 0; from < len(p.data) && !p.isDone(from); {
		at := c.nextMatch(from)
		if at < 0 {
			return
		}
		start := from + bytes.LastIndexByte(p.data[from:at], '\n') + 1
		end, next := lineEnd(p.data, start, at)
		column, ok := at-start, at+len(n.text) <= end
		if p.q.re != nil {
			column, ok = p.matchLine(p.q.re, p.data[start:end])
		}
		if ok {
			p.addMatch(start, end, column)
		}
		from = next
	}
}

// findAny is findOne for several needles, of which every match contains one.
func (p *fileSearch) findAny() {
	cursors := make([]cursor, len(p.q.needles))
	next := make([]int, len(p.q.needles))
	for i := range cursors {
		cursors[i] = p.newCursor(&p.q.needles[i])
		next[i] = cursors[i].nextMatch(0)
	}
	for from := 0; from < len(p.data) && !p.isDone(from); {
		at := -1
		for i := range next {
			if next[i] >= 0 && next[i] < from {
				next[i] = cursors[i].nextMatch(from)
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
		if column, ok := p.matchLine(p.q.re, p.data[start:end]); ok {
			p.addMatch(start, end, column)
		}
		from = after
	}
}

// findLines matches the expression against every line.
func (p *fileSearch) findLines() {
	for start := 0; start < len(p.data) && !p.isDone(start); {
		end, next := lineEnd(p.data, start, start)
		if column, ok := p.matchLine(p.q.re, p.data[start:end]); ok {
			p.addMatch(start, end, column)
		}
		start = next
	}
}

// matchLine returns the offset of the first match in a line.
func (p *fileSearch) matchLine(re matcher, line []byte) (column int, ok bool) {
	loc := p.firstMatch(re, line)
	if loc == nil {
		return 0, false
	}
	return loc[0], true
}

// A matcher is the used part of *regexp.Regexp.
type matcher interface {
	FindIndex(b []byte) []int
	FindReaderIndex(r io.RuneReader) []int
}

// firstMatch returns the first match in data. Package regexp can't be canceled, but
// its input can end: a text that may take long is passed as a reader that checks
// stop, which is slower.
func (p *fileSearch) firstMatch(re matcher, data []byte) []int {
	if len(data) <= maxSteps/max(p.q.steps, 1) {
		return re.FindIndex(data)
	}
	loc := re.FindReaderIndex(&stoppableReader{page: p, data: data})
	if p.stopped {
		return nil
	}
	return loc
}

// stoppableReader reads data until the search is stopped.
type stoppableReader struct {
	page *fileSearch
	data []byte
	n    uint
}

func (r *stoppableReader) ReadRune() (rune, int, error) {
	if r.n++; len(r.data) == 0 || r.n%256 == 0 && r.page.checkStop() {
		return 0, 0, io.EOF
	}
	c, size := rune(r.data[0]), 1
	if c >= utf8.RuneSelf {
		c, size = utf8.DecodeRune(r.data)
	}
	r.data = r.data[size:]
	return c, size, nil
}

// findSpans matches the expression against the whole file. Further matches that
// begin in a reported line are part of that report: the search continues after it.
func (p *fileSearch) findSpans() {
	if !p.mayMatch() {
		return
	}
	next := p.nextSpan()
	for from := 0; from < len(p.data) && !p.isDone(from); {
		first, last := next(from)
		if first < 0 || first == len(p.data) && p.data[first-1] == '\n' {
			return
		}
		start := bytes.LastIndexByte(p.data[:first], '\n') + 1
		end, after := lineEnd(p.data, start, max(first, last-1)) // a match that ends with a newline ends in that line
		p.addMatch(start, end, first-start)
		from = after
	}
}

// nextSpan returns a function that finds the first match at or after an offset at
// the beginning of a line, or -1.
func (p *fileSearch) nextSpan() func(from int) (first, last int) {
	if p.q.re == nil {
		c := p.newCursor(&p.q.needles[0])
		return func(from int) (int, int) {
			at := c.nextMatch(from)
			return at, at + len(c.needle.text)
		}
	}
	return func(from int) (int, int) {
		re := p.q.re
		if from > 0 {
			re = p.q.rest
		}
		loc := p.firstMatch(re, p.data[from:])
		if loc == nil {
			return -1, -1
		}
		return from + loc[0], from + loc[1]
	}
}

func (p *fileSearch) mayMatch() bool {
	for i := range p.q.needles {
		c := p.newCursor(&p.q.needles[i])
		if c.nextMatch(0) >= 0 {
			return true
		}
	}
	return len(p.q.needles) == 0
}
