package files

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	defaultDebounce = 50 * time.Millisecond

	// maxPending bounds the paths of one batch. Beyond it the batch reports an overflow,
	// and the reader must scan the tree.
	maxPending = 50_000

	// maxWatchers bounds the watchers of a root: each costs this process memory, and a
	// descriptor or the scans of a poller.
	maxWatchers = 256
)

// Watch reports changes at and below name. It follows name if that is a symlink to a
// directory. A file is watched by its name, so that it may be replaced. The watcher must be
// closed.
func (r *Root) Watch(ctx context.Context, name string, opts *driver.WatchOptions) (driver.Watcher, error) {
	t, err := r.beginCall(ctx, reads, "watch", name)
	if err != nil {
		return nil, err
	}
	o := *orZero(opts)
	if o.Debounce < 0 {
		err = fmt.Errorf("%w: debounce %v is negative", fault.InvalidArgument, o.Debounce)
	}
	if o.Debounce == 0 {
		o.Debounce = defaultDebounce
	}
	var info driver.Info
	if err == nil {
		info, err = r.sys.stat(ctx, t, new(driver.StatOptions))
	}
	if err == nil && info.Type != driver.TypeDir && info.Type != driver.TypeFile {
		err = errNotRegular
	}
	if n := r.watchers.Add(1); err == nil && n > maxWatchers {
		err = fmt.Errorf("%w: %d watchers are open already; close some", fault.ResourceExhausted, maxWatchers)
	}
	w := &fsWatcher{r: r, batch: newBatch(o.Debounce)}
	if err == nil {
		w.changes, err = r.sys.watch(t.name, info.Type == driver.TypeDir, &o, w.batch)
	}
	if err != nil {
		r.watchers.Add(-1)
		r.endCall()
		return nil, opError("watch", name, err)
	}
	return w, nil
}

// A changeSource adds changes to a batch until it is closed.
type changeSource interface{ close() error }

// fsWatcher is a driver.Watcher. It holds a reference to the root until it is closed.
type fsWatcher struct {
	r       *Root
	changes changeSource
	*batch
	once sync.Once
	err  error
}

func (w *fsWatcher) Close() error {
	w.once.Do(func() {
		close(w.done)
		w.err = w.changes.close()
		w.r.watchers.Add(-1)
		if err := w.r.releaseRef(); w.err == nil {
			w.err = err
		}
	})
	return opError("close", "watcher", w.err)
}

// A batch collects changes until Next returns them.
type batch struct {
	debounce time.Duration
	done     chan struct{} // closed by Close
	nextSem  chan struct{} // semaphore: one call of Next at a time
	ready    chan struct{} // has a token while changes may be pending

	mu       sync.Mutex
	first    time.Time                // time of the first pending change; guarded by mu
	pending  map[string]driver.Change // by path; guarded by mu
	overflow bool                     // guarded by mu
}

func newBatch(debounce time.Duration) *batch {
	return &batch{
		debounce: debounce, done: make(chan struct{}), nextSem: make(chan struct{}, 1), ready: make(chan struct{}, 1),
		pending: map[string]driver.Change{},
	}
}

// add records a change. A write to a newly created file is part of its creation; otherwise
// the latest change counts.
func (b *batch) add(path string, op driver.ChangeOp) { b.addChange(driver.Change{Path: path, Op: op}) }

func (b *batch) addChange(c driver.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, known := b.pending[c.Path]
	switch {
	case !known && len(b.pending) >= maxPending:
		b.overflow = true
	case before.Op == driver.OpCreate && (c.Op == driver.OpWrite || c.Op == driver.OpChmod):
	default:
		b.pending[c.Path] = c
	}
	b.wakeLocked()
}

func (b *batch) wakeLocked() {
	if b.first.IsZero() {
		b.first = time.Now()
	}
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// Next waits for changes, and then for the debounce time.
func (b *batch) Next(ctx context.Context) (driver.Changes, error) {
	if err := b.waitChan(ctx, b.nextSem, nil); err != nil {
		return driver.Changes{}, err
	}
	defer func() { <-b.nextSem }()
	if err := b.waitChan(ctx, nil, b.ready); err != nil {
		return driver.Changes{}, err
	}
	b.mu.Lock()
	first := b.first
	b.mu.Unlock()
	settled := time.NewTimer(time.Until(first.Add(b.debounce)))
	defer settled.Stop()
	select {
	case <-settled.C:
	case <-b.done:
		return driver.Changes{}, io.EOF
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wakeLocked() // the next call returns the pending changes
		return driver.Changes{}, opError("watch", "changes", ctx.Err())
	}
	return b.drain(), nil
}

// waitChan waits until it can send to one channel or receive from the other.
func (b *batch) waitChan(ctx context.Context, send chan<- struct{}, receive <-chan struct{}) error {
	select {
	case <-b.done:
		return io.EOF
	default:
	}
	select {
	case send <- struct{}{}:
	case <-receive:
	case <-b.done:
		return io.EOF
	case <-ctx.Done():
		return opError("watch", "changes", ctx.Err())
	}
	return nil
}

func (b *batch) drain() driver.Changes {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := driver.Changes{Overflow: b.overflow, Changes: make([]driver.Change, 0, len(b.pending))}
	for _, change := range b.pending {
		c.Changes = append(c.Changes, change)
	}
	slices.SortFunc(c.Changes, func(x, y driver.Change) int { return strings.Compare(x.Path, y.Path) })
	clear(b.pending)
	b.overflow, b.first = false, time.Time{}
	select {
	case <-b.ready:
	default:
	}
	return c
}
