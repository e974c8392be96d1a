package memory

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// maxPending is how many changed paths a watcher remembers; more are an overflow.
const maxPending = 4096

const defaultDebounce = 50 * time.Millisecond

// A watcher gathers changes until somebody asks for them.
type watcher struct {
	h         *handle
	path      string // without symlinks
	recursive bool
	debounce  time.Duration
	wake      chan struct{} // has room for one

	mu      sync.Mutex
	batch   driver.Changes
	at      map[string]int // index in batch by path
	since   time.Time      // of the first change of the batch
	stopped bool
}

// Watch reports changes at and below name.
func (h *handle) Watch(ctx context.Context, name string, opts *driver.WatchOptions) (driver.Watcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil, h.evicted()
	}
	at, err := h.getLocked(name, true)
	if err != nil {
		return nil, err
	}
	w := &watcher{h: h, path: at.path, recursive: opts.Recursive, debounce: opts.Debounce, wake: make(chan struct{}, 1), at: map[string]int{}}
	if w.debounce <= 0 {
		w.debounce = defaultDebounce
	}
	h.tree.watchers[w], h.watchers[w] = true, true
	return w, nil
}

// tellLocked tells the watchers of a change.
func (t *tree) tellLocked(path string, op driver.ChangeOp) {
	for w := range t.watchers {
		if w.covers(path) {
			w.add(path, op)
		}
	}
}

func (w *watcher) covers(path string) bool {
	if path == w.path {
		return true
	}
	rest, inside := path, true
	if w.path != "." {
		rest, inside = strings.CutPrefix(path, w.path+"/")
	}
	return inside && (w.recursive || !strings.Contains(rest, "/"))
}

func (w *watcher) add(path string, op driver.ChangeOp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.batch.Changes) == 0 && !w.batch.Overflow {
		w.since = time.Now()
	}
	i, known := w.at[path]
	switch {
	case known:
		w.batch.Changes[i].Op = op
	case len(w.batch.Changes) == maxPending:
		w.batch.Overflow = true
	default:
		w.at[path] = len(w.batch.Changes)
		w.batch.Changes = append(w.batch.Changes, driver.Change{Path: path, Op: op})
	}
	w.poke()
}

func (w *watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Next waits for a batch, which is complete one debounce after its first change.
func (w *watcher) Next(ctx context.Context) (driver.Changes, error) {
	for {
		batch, wait, err := w.next()
		if err != nil || wait == 0 {
			return batch, err
		}
		if err := w.pause(ctx, wait); err != nil {
			return driver.Changes{}, err
		}
	}
}

// pause waits for a change or for wait to pass, which it never does if negative.
func (w *watcher) pause(ctx context.Context, wait time.Duration) error {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.wake:
	case <-due:
	}
	return nil
}

// next returns the batch if it is due; otherwise how long it is until then, or
// -1 where there is none.
func (w *watcher) next() (driver.Changes, time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		w.poke() // for others who wait
		return driver.Changes{}, 0, io.EOF
	}
	if len(w.batch.Changes) == 0 {
		return driver.Changes{}, -1, nil
	}
	if wait := time.Until(w.since.Add(w.debounce)); wait > 0 {
		return driver.Changes{}, wait, nil
	}
	batch := w.batch
	w.batch, w.at = driver.Changes{}, map[string]int{}
	return batch, 0, nil
}

// Close ends the watcher.
func (w *watcher) Close() error {
	w.h.mu.Lock()
	delete(w.h.tree.watchers, w)
	delete(w.h.watchers, w)
	w.h.mu.Unlock()
	w.end()
	return nil
}

func (w *watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.poke()
}
