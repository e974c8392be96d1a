package tool

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/croft-run/croft/workspace/driver"
)

// ReadScope is the set of clients for which a Read counts.
type ReadScope string

// Scopes.
const (
	ReadProcess ReadScope = "process" // all clients of this server
	ReadSession ReadScope = "session" // the client that did the Read
)

// A Tracker records which files were read, in which workspace, with which content, and
// which of their lines. A tool changes a file only if the present content was read. The
// tracker is an LRU cache bounded by files and lines; an evicted file must be read again.
// The zero value is ready to use.
type Tracker struct {
	mu    sync.Mutex
	files map[fileKey]*list.Element // guarded by mu
	order list.List                 // guarded by mu; of *tracked, the latest first
	lines int                       // guarded by mu; hashes in all entries
}

// Limits of a Tracker. A line takes four bytes.
const (
	maxTrackedFiles = 20_000
	maxTrackedLines = 8 << 20
)

type fileKey struct{ reader, workspace, path string }

type tracked struct {
	key  fileKey
	seen Seen
}

func (t *Tracker) get(key fileKey) (Seen, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.getLocked(key)
}

func (t *Tracker) getLocked(key fileKey) (Seen, bool) {
	el, ok := t.files[key]
	if !ok {
		return Seen{}, false
	}
	t.order.MoveToFront(el)
	return el.Value.(*tracked).seen, true
}

func (t *Tracker) putLocked(key fileKey, seen Seen) {
	t.dropLocked(key)
	if t.files == nil {
		t.files = map[fileKey]*list.Element{}
	}
	t.files[key] = t.order.PushFront(&tracked{key, seen})
	t.lines += len(seen.lineHashes)
	for len(t.files) > 1 && (len(t.files) > maxTrackedFiles || t.lines > maxTrackedLines) {
		t.dropLocked(t.order.Back().Value.(*tracked).key)
	}
}

func (t *Tracker) dropLocked(key fileKey) {
	if el, ok := t.files[key]; ok {
		t.lines -= len(t.order.Remove(el).(*tracked).seen.lineHashes)
		delete(t.files, key)
	}
}

// removeIf drops the entries whose key matches.
func (t *Tracker) removeIf(is func(fileKey) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.files {
		if is(key) {
			t.dropLocked(key)
		}
	}
}

// Len returns the number of tracked files.
func (t *Tracker) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.files)
}

// Seen is the part of a file that was read. Lines are counted from 1.
type Seen struct {
	Digest string
	Lines  int    // of the file
	Spans  []Span // shown lines, sorted, not adjacent

	lineHashes []uint32 // of every line, to find changed lines later; nil if there are too many
}

// A Span is the lines First to Last.
type Span struct{ First, Last int }

// Whole reports whether all of the file was shown.
func (s Seen) Whole() bool {
	return s.Lines == 0 || len(s.Spans) == 1 && s.Spans[0].First <= 1 && s.Spans[0].Last >= s.Lines
}

// Has reports whether the lines first to last were shown.
func (s Seen) Has(first, last int) bool {
	return slices.ContainsFunc(s.Spans, func(p Span) bool { return p.First <= first && last <= p.Last })
}

// Gap returns the first lines that were not shown.
func (s Seen) Gap() Span {
	next := 1
	for _, p := range s.Spans {
		if p.First > next {
			return Span{next, p.First - 1}
		}
		next = p.Last + 1
	}
	return Span{next, s.Lines}
}

// RecordRead records that the agent was shown a file with this content: all of it or, with
// spans, those lines. path is as in Info.Path. If the content differs from the recorded
// one, earlier spans are dropped.
func (c *Call) RecordRead(path string, content []byte, spans ...Span) {
	n := countLines(content)
	if len(spans) == 0 {
		spans = []Span{{1, n}}
	}
	c.recordRead(path, driver.DigestBytes(content), n, hashLines(content), spans...)
}

func (c *Call) recordRead(path, digest string, lines int, marks []uint32, spans ...Span) {
	t, key := c.Env.Reads, c.trackKey(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	s, _ := t.getLocked(key)
	if s.Digest != digest {
		s = Seen{Digest: digest}
	}
	s.Lines, s.lineHashes = lines, marks
	s.Spans = mergeSpans(append(slices.Clone(s.Spans), spans...))
	t.putLocked(key, s)
}

func (c *Call) trackKey(path string) fileKey { return fileKey{c.readerKey(), c.Workspace.ID(), path} }

// Seen returns what was read of a file, false if nothing.
func (c *Call) Seen(path string) (Seen, bool) { return c.Env.Reads.get(c.trackKey(path)) }

// Unread drops what was read at a path.
func (c *Call) Unread(path string) {
	t := c.Env.Reads
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropLocked(c.trackKey(path))
}

// moveSeen moves what was read of a file to its new path.
func (c *Call) moveSeen(from, to string) {
	t := c.Env.Reads
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.getLocked(c.trackKey(from)); ok {
		t.dropLocked(c.trackKey(from))
		t.putLocked(c.trackKey(to), s)
	}
}

// mergeSpans sorts spans and joins adjacent ones.
func mergeSpans(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return a.First - b.First })
	var out []Span
	for _, s := range spans {
		if s.Last < s.First {
			continue
		}
		if n := len(out); n > 0 && s.First <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, s.Last)
			continue
		}
		out = append(out, s)
	}
	return out
}

var seed = maphash.MakeSeed()

// maxHashedLines bounds the lines of a file whose hashes are kept.
const maxHashedLines = 1 << 20

func countLines(content []byte) int {
	n := bytes.Count(content, []byte("\n"))
	if len(content) > 0 && content[len(content)-1] != '\n' {
		n++
	}
	return n
}

// hashLines returns a hash of each line of a text; nil if there are too many.
func hashLines(content []byte) []uint32 {
	n := countLines(content)
	if n > maxHashedLines {
		return nil
	}
	out := make([]uint32, 0, n)
	for line := range bytes.Lines(content) {
		out = append(out, uint32(maphash.Bytes(seed, line)))
	}
	return out
}

// changedSpan returns the range from the first to the last line that differs from what was
// read.
func (s Seen) changedSpan(now []uint32) Span {
	first := 0
	for first < len(now) && first < len(s.lineHashes) && now[first] == s.lineHashes[first] {
		first++
	}
	last, old := len(now), len(s.lineHashes)
	for last > first && old > first && now[last-1] == s.lineHashes[old-1] {
		last, old = last-1, old-1
	}
	return Span{first + 1, last}
}
