package tool

import (
	"slices"
	"sync"
)

// ReadScope says who a Read counts for.
type ReadScope string

// Scopes.
const (
	ReadProcess ReadScope = "process" // everyone on this server
	ReadSession ReadScope = "session" // the client that read
)

// A Tracker knows which files were read, in which workspace, with which content,
// and which of their lines. A file may be changed only by one who has seen what
// is there now. The zero value is ready to use.
type Tracker struct {
	mu    sync.Mutex
	files map[fileKey]Seen // +checklocks:mu
}

type fileKey struct{ reader, workspace, path string }

// Seen is what was read of a file. Lines are counted from 1.
type Seen struct {
	Digest string
	Lines  int    // of the file
	Spans  []Span // that were shown, sorted, apart from each other
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

// Mark notes that lines of a file were shown, or all of it where span is zero. A
// file with another content than before starts anew.
func (c *Call) Mark(path, digest string, lines int, span Span) {
	t := c.Env.Reads
	key := fileKey{c.reader(), c.Workspace.ID(), path}
	if span == (Span{}) {
		span = Span{1, lines}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == nil {
		t.files = map[fileKey]Seen{}
	}
	s := t.files[key]
	if s.Digest != digest {
		s = Seen{Digest: digest}
	}
	s.Lines = lines
	s.Spans = merge(append(slices.Clone(s.Spans), span))
	t.files[key] = s
}

// Seen returns what was read of a file, false for nothing.
func (c *Call) Seen(path string) (Seen, bool) {
	t := c.Env.Reads
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.files[fileKey{c.reader(), c.Workspace.ID(), path}]
	return s, ok
}

// Replace notes what is known of a file after a change by the reader itself.
func (c *Call) Replace(path string, s Seen) {
	t := c.Env.Reads
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files == nil {
		t.files = map[fileKey]Seen{}
	}
	t.files[fileKey{c.reader(), c.Workspace.ID(), path}] = s
}

// Unread forgets what was read at a path.
func (c *Call) Unread(path string) {
	t := c.Env.Reads
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.files, fileKey{c.reader(), c.Workspace.ID(), path})
}

func (t *Tracker) forget(workspace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.files {
		if k.workspace == workspace {
			delete(t.files, k)
		}
	}
}

// merge sorts spans and joins those that touch.
func merge(spans []Span) []Span {
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
