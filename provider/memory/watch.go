package memory

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// maxPending bounds the changed paths of a batch; more are an overflow.
const maxPending = 4096

const defaultDebounce = 50 * time.Millisecond

// A watcher collects changes until Next returns them.
type watcher struct {
	h         *handle
	path      string // without symlinks
	recursive bool
	debounce  time.Duration
	wake      chan struct{} // buffered: capacity 1

	mu      sync.Mutex
	batch   driver.Changes
	at      map[string]int // index in batch by path
	since   time.Time      // time of the first change of the batch
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
		return nil, h.evictedError()
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

// notifyLocked adds a change to the watchers.
func (t *tree) notifyLocked(path string, op driver.ChangeOp) {
	for w := range t.watchers {
		if w.covers(path) {
			w.addChange(path, op)
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

func (w *watcher) addChange(path string, op driver.ChangeOp) {
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
	w.wakeNext()
}

func (w *watcher) wakeNext() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Next waits for a batch, which is complete one debounce interval after its first
// change.
func (w *watcher) Next(ctx context.Context) (driver.Changes, error) {
	for {
		batch, wait, err := w.takeBatch()
		if err != nil || wait == 0 {
			return batch, err
		}
		if err := w.waitChange(ctx, wait); err != nil {
			return driver.Changes{}, err
		}
	}
}

// waitChange waits for a change or for wait; a negative wait is forever.
func (w *watcher) waitChange(ctx context.Context, wait time.Duration) error {
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

// takeBatch returns the batch if it is due; otherwise the time until then, or -1 without a
// batch.
func (w *watcher) takeBatch() (driver.Changes, time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		w.wakeNext() // wake the next waiter
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
	w.wakeNext()
}
