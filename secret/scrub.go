package secret

import (
	"bytes"
	"io"
	"slices"
)

// MinLength is the length of the shortest text that is searched. A shorter one would match
// everywhere.
const MinLength = 4

// ScrubOptions are the options of a scrubber.
type ScrubOptions struct {
	// Finders find secrets by form, such as the operator's patterns. They are used for
	// whole texts only (Bytes and String); a stream is searched for values.
	Finders []Finder
}

// A Finder finds texts to redact.
type Finder interface {
	// Find returns the parts of p to redact.
	Find(p []byte) []Span
}

// A Span is a part of a text to redact, with a name.
type Span struct {
	Start, End int
	Name       string
}

// A Scrubber replaces the texts of secrets by [REDACTED:<name>]. It is immutable and safe
// for concurrent use. A nil Scrubber changes nothing.
type Scrubber struct {
	find    automaton
	names   []string
	skipped []string
	longest int // of the values, in bytes
	finders []Finder
}

// NewScrubber returns a scrubber for values.
func NewScrubber(values []Value, opts *ScrubOptions) *Scrubber {
	s := &Scrubber{}
	if opts != nil {
		s.finders = opts.Finders
	}
	for _, v := range values {
		if len(v.text) < MinLength {
			s.skipped = append(s.skipped, v.name)
			continue
		}
		s.names = append(s.names, v.name)
		s.longest = max(s.longest, len(v.text))
		for _, text := range encodings(v.text) {
			if len(text) >= MinLength {
				s.find.add(text, len(s.names)-1)
			}
		}
	}
	s.find.setFailLinks()
	return s
}

// Skipped returns the names of values that are too short to search for.
func (s *Scrubber) Skipped() []string {
	if s == nil {
		return nil
	}
	return slices.Clone(s.skipped)
}

// Bytes returns p with secrets replaced, or p itself if there are none.
func (s *Scrubber) Bytes(p []byte) []byte { return s.Part(p, 0, len(p)) }

// Part returns p[from:to] with secrets replaced, also those that begin before from or end
// after to. It returns p[from:to] itself if there are none.
func (s *Scrubber) Part(p []byte, from, to int) []byte {
	if s == nil {
		return p[from:to]
	}
	st := stream{s: s}
	if len(s.find.nodes) > 0 {
		st.searchWhole(p)
	}
	for _, f := range s.finders {
		for _, sp := range findDecoded(f, p) {
			st.spans = append(st.spans, redaction{start: sp.Start, end: sp.End, name: sp.Name})
		}
	}
	st.spans = slices.DeleteFunc(st.spans, func(sp redaction) bool { return sp.end <= from || sp.start >= to })
	p = p[from:to]
	if len(st.spans) == 0 {
		return p
	}
	for i, sp := range st.spans {
		st.spans[i].start, st.spans[i].end = max(sp.start-from, 0), min(sp.end-from, len(p))
	}
	slices.SortStableFunc(st.spans, func(a, b redaction) int { return a.start - b.start })
	return st.emit(make([]byte, 0, len(p)), p, len(p))
}

// atOnce is the block size in which both searches alternate, so that the text stays in the
// CPU cache.
const atOnce = 16 << 10

// searchWhole finds the values in a complete text, including those that continue on another
// line, and those with escaped characters.
func (st *stream) searchWhole(p []byte) {
	f := foldedSearch{s: st.s, p: p}
	for from := 0; from < len(p); from += atOnce {
		end := min(from+atOnce, len(p))
		st.state = st.s.find.scan(p[:end], from, st.state, st.addSpan)
		f.searchUpTo(end)
	}
	f.searchShort()
	st.spans = slices.Concat(st.spans, f.spans, st.searchEscaped(p))
}

// minLearned is the length of the shortest text that Learn returns: a shorter one may be in other
// places by chance.
const minLearned = 8

// Learn returns the secrets that the finders find in p, so that they are also found where what is
// around them differs. Each line of a secret is a value.
func (s *Scrubber) Learn(p []byte) []Value {
	if s == nil {
		return nil
	}
	var out []Value
	for _, f := range s.finders {
		for _, sp := range findDecoded(f, p) {
			for line := range bytes.Lines(p[sp.Start:sp.End]) {
				if line = bytes.TrimSpace(line); len(line) >= minLearned {
					out = append(out, NewValue(sp.Name, string(line)))
				}
			}
		}
	}
	return out
}

// Undecided returns how many bytes at the end of p may be the beginning of a secret whose rest
// comes later; 0 if they are fewer than MinLength.
func (s *Scrubber) Undecided(p []byte) int {
	if s == nil {
		return 0
	}
	at := s.find.scan(p, 0, 0, func(int, int, int32) {})
	if at == 0 || int(s.find.nodes[at].depth) < MinLength || s.find.nodes[at].child == 0 {
		return 0
	}
	return int(s.find.nodes[at].depth)
}

// Clean reports whether p has nothing to redact.
func (s *Scrubber) Clean(p []byte) bool {
	out := s.Bytes(p)
	return len(out) == len(p) && (len(p) == 0 || &out[0] == &p[0])
}

// String is Bytes for a string.
func (s *Scrubber) String(text string) string {
	if s == nil {
		return text
	}
	return string(s.Bytes([]byte(text)))
}

// Writer returns a writer that passes scrubbed text on to w. It does not find secrets that
// continue on another line, or have control sequences inside; Bytes and String do. It holds back only a possible beginning of
// a secret; Close flushes it, and does not close w.
func (s *Scrubber) Writer(w io.Writer) *Writer { return &Writer{w: w, st: stream{s: s}} }

// A Writer scrubs a stream. It is not safe for concurrent use.
type Writer struct {
	w   io.Writer
	st  stream
	out []byte
	err error
}

// Write scrubs p and passes on the decided part.
func (w *Writer) Write(p []byte) (int, error) {
	if w.st.s == nil {
		return w.w.Write(p)
	}
	if w.err != nil {
		return 0, w.err
	}
	w.out = w.st.push(w.out[:0], p)
	if len(w.out) > 0 {
		if _, w.err = w.w.Write(w.out); w.err != nil {
			return 0, w.err
		}
	}
	return len(p), nil
}

// Close flushes what was held back.
func (w *Writer) Close() error {
	if w.st.s == nil || w.err != nil {
		return w.err
	}
	if w.out = w.st.flush(w.out[:0]); len(w.out) > 0 {
		_, w.err = w.w.Write(w.out)
	}
	return w.err
}

// Reader returns a reader of r's scrubbed text. A read returns as soon as some text is
// decided, so a slow stream is not delayed.
func (s *Scrubber) Reader(r io.Reader) io.Reader {
	if s == nil {
		return r
	}
	return &scrubReader{r: r, st: stream{s: s}, in: make([]byte, 32<<10)}
}

type scrubReader struct {
	r    io.Reader
	st   stream
	in   []byte
	out  []byte // scrubbed text
	rest []byte // unread part of out
	err  error
}

func (r *scrubReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var n int
		n, r.err = r.r.Read(r.in)
		r.out = r.st.push(r.out[:0], r.in[:n])
		if r.err != nil {
			r.out = r.st.flush(r.out)
		}
		r.rest = r.out
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// A stream is the scrubbing state between two chunks.
type stream struct {
	s        *Scrubber
	state    int32
	pending  []byte      // held-back text, a possible beginning of a secret
	buf      []byte      // pending and the chunk; reused
	spans    []redaction // in pending and the chunk, ordered, disjoint
	redacted int         // bytes of pending that belong to an already redacted secret
	lastMark string      // name of the last mark, if no text followed
}

type redaction struct {
	start, end int
	name       string
}

// push appends the decided text after chunk p to dst.
func (st *stream) push(dst, p []byte) []byte {
	buf := p
	if len(st.pending) > 0 {
		st.buf = append(append(st.buf[:0], st.pending...), p...)
		buf = st.buf
	}
	st.state = st.s.find.scan(buf, len(st.pending), st.state, st.addSpan)
	depth := 0
	if st.state != 0 {
		depth = int(st.s.find.nodes[st.state].depth)
	}
	dst = st.emit(dst, buf, len(buf)-depth)
	st.pending = append(st.pending[:0], buf[len(buf)-depth:]...)
	return dst
}

// flush appends the held-back text to dst.
func (st *stream) flush(dst []byte) []byte {
	dst = st.emit(dst, st.pending, len(st.pending))
	st.pending, st.state = st.pending[:0], 0
	return dst
}

// addSpan records a found text. Texts come in the order of their ends; overlapping ones are
// merged.
func (st *stream) addSpan(start, end int, owner int32) {
	n := len(st.spans)
	for n > 0 && st.spans[n-1].start >= start {
		n--
	}
	st.spans = st.spans[:n]
	if n > 0 && st.spans[n-1].end > start {
		st.spans[n-1].end = end
		return
	}
	st.spans = append(st.spans, redaction{start, end, st.s.names[owner]})
}

// emit appends the first limit bytes of buf, redacted, to dst. A secret that begins there
// and ends later gets its mark now, and its rest is dropped later.
func (st *stream) emit(dst, buf []byte, limit int) []byte {
	pos := st.redacted
	rest := st.spans[:0]
	for _, sp := range st.spans {
		if sp.start >= limit {
			rest = append(rest, sp)
			continue
		}
		if sp.start > pos {
			dst = append(dst, buf[pos:sp.start]...)
			st.lastMark = ""
		}
		if sp.start > pos || sp.start == pos && st.lastMark != sp.name {
			dst = append(dst, redactionMark(sp.name)...)
			st.lastMark = sp.name
		}
		pos = max(pos, sp.end)
	}
	if pos < limit {
		dst = append(dst, buf[pos:limit]...)
		pos, st.lastMark = limit, ""
	}
	for i := range rest {
		rest[i].start -= limit
		rest[i].end -= limit
	}
	st.spans, st.redacted = rest, pos-limit
	return dst
}
