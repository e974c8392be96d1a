package search

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// Hits collects the result of a Grep. Files may be searched in any order and by any
// number of goroutines: the result is always the first matches in the order of
// paths.
type Hits struct {
	limit    int // of matches in all
	perFile  int
	maxSize  int64
	deadline time.Time // zero for none
	canceled func() error

	searched atomic.Int64
	late     atomic.Bool
	last     atomic.Pointer[string] // files with a greater path are not in the result

	mu    sync.Mutex
	files [][]driver.Match // of one path each; guarded by mu
	total int              // matches in files; guarded by mu
	bytes int              // their size; guarded by mu
	skips []driver.Skip    // guarded by mu
	nskip int              // guarded by mu
}

// NewHits returns an empty collection, and starts the time limit.
func NewHits(ctx context.Context, o *driver.GrepOptions) *Hits {
	h := &Hits{limit: o.MaxMatches, perFile: o.MaxPerFile, maxSize: o.MaxFileSize, canceled: ctx.Err}
	if h.limit == 0 {
		h.limit = driver.DefaultMaxMatches
	}
	if h.perFile == 0 || h.perFile > h.limit {
		h.perFile = h.limit + 1 // one more than the limit detects truncation
	}
	if h.maxSize == 0 {
		h.maxSize = driver.DefaultMaxFileSize
	}
	if h.maxSize < 0 || h.maxSize > driver.MaxGrepFileSize {
		h.maxSize = driver.MaxGrepFileSize
	}
	if o.MaxTime > 0 {
		h.deadline = time.Now().Add(o.MaxTime)
	}
	return h
}

// TooBig reports whether a file of that size is skipped.
func (h *Hits) TooBig(size int64) bool { return size > h.maxSize }

// Stop reports whether to end the search, because of the time limit or the context.
// It is checked within files and rules.
func (h *Hits) Stop() bool { return h.Late() || h.canceled() != nil }

// Late reports whether the time limit is reached.
func (h *Hits) Late() bool {
	if h.deadline.IsZero() {
		return false
	}
	if !h.late.Load() && time.Now().After(h.deadline) {
		h.late.Store(true)
	}
	return h.late.Load()
}

// Beyond reports whether a path sorts after all paths of the result. A directory's
// path must end in a slash.
func (h *Hits) Beyond(path string) bool {
	last := h.last.Load()
	return last != nil && path > *last
}

// Search searches the content of one file.
func (h *Hits) Search(q *Query, path string, data []byte) {
	if IsBinary(data) {
		h.Skip(path, driver.SkipBinary)
		return
	}
	h.searched.Add(1)
	if found := q.find(data, h.perFile, h.Stop); len(found) > 0 {
		h.add(path, found)
	}
}

func (h *Hits) add(path string, found []driver.Match) {
	bytes := 0
	for i := range found {
		found[i].Path = path
		bytes += matchSize(&found[i])
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files = append(h.files, found)
	h.total += len(found)
	h.bytes += bytes
	if h.total > 2*h.limit || h.bytes > 2*driver.MaxGrepBytes {
		h.trimLocked()
	}
}

// trimLocked drops the files after the one with which a limit of matches or bytes
// is exceeded.
func (h *Hits) trimLocked() {
	slices.SortFunc(h.files, func(a, b []driver.Match) int { return strings.Compare(a[0].Path, b[0].Path) })
	h.total, h.bytes = 0, 0
	for i, found := range h.files {
		h.total += len(found)
		for j := range found {
			h.bytes += matchSize(&found[j])
		}
		if h.total > h.limit || h.bytes > driver.MaxGrepBytes {
			clear(h.files[i+1:])
			h.files = h.files[:i+1]
			h.last.Store(&found[0].Path)
			return
		}
	}
}

// Skip records a file or directory that was not searched.
func (h *Hits) Skip(path string, reason driver.SkipReason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nskip++
	h.skips = append(h.skips, driver.Skip{Path: path, Reason: reason})
	if len(h.skips) > 2*driver.MaxSkipsListed {
		h.trimSkipsLocked()
	}
}

func (h *Hits) trimSkipsLocked() {
	slices.SortFunc(h.skips, func(a, b driver.Skip) int { return strings.Compare(a.Path, b.Path) })
	h.skips = h.skips[:min(len(h.skips), driver.MaxSkipsListed)]
}

// Result returns the collected result.
func (h *Hits) Result() driver.GrepResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trimLocked()
	h.trimSkipsLocked()
	res := driver.GrepResult{
		Matches: make([]driver.Match, 0, h.total), Skipped: h.skips, Skips: h.nskip, Searched: int(h.searched.Load()),
	}
	for _, found := range h.files {
		res.Matches = append(res.Matches, found...)
	}
	if len(res.Matches) > h.limit {
		res.Matches, res.Truncated = res.Matches[:h.limit], "matches"
	}
	if n := countFitting(res.Matches); n < len(res.Matches) {
		res.Matches, res.Truncated = slices.Clone(res.Matches[:n]), "size"
	}
	if h.late.Load() {
		res.Truncated = "time"
	}
	return res
}

// countFitting is the number of leading matches within the size limit of a result.
func countFitting(matches []driver.Match) int {
	bytes := 0
	for i := range matches {
		if bytes += matchSize(&matches[i]); bytes > driver.MaxGrepBytes {
			return i
		}
	}
	return len(matches)
}

// Approximate overhead of a match and of a context line.
const (
	matchCost = 128
	lineCost  = 16
)

// matchSize is the approximate size of a match in memory and in a result.
func matchSize(m *driver.Match) int {
	n := matchCost + len(m.Path) + len(m.Text)
	for _, line := range m.Before {
		n += lineCost + len(line)
	}
	for _, line := range m.After {
		n += lineCost + len(line)
	}
	return n
}
