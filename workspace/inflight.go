package workspace

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// An inflight counts the running calls of a handle and, once closed, refuses new ones: so
// the last call to a driver, Close or Destroy, runs after all other calls have
// returned. A call that is made within another call, by a callback or by the body of
// a write, is refused while the handle closes; it never blocks.
type inflight struct {
	calls atomic.Int64 // running calls, plus shutBit

	mu      sync.Mutex
	reason  error         // why it is closed
	begun   chan struct{} // closed when the handle starts to close; nil until closing asks for it
	idle    chan struct{}
	emptied bool                   // idle is closed
	long    map[*longCall]bool     // calls to cancel
	open    map[*openResource]bool // watchers and readers to close before the last call

	onlookers atomic.Int64 // those of the running calls that are no use; at most their number
	readers   atomic.Int64 // number of open readers and connections that are a use

	lastMu sync.Mutex // held during the last call
	left   *verb      // the last call that succeeded
}

const shutBit = 1 << 62

// enter registers a call, or returns why the handle is closed.
func (g *inflight) enter() error {
	if g.calls.Add(1)&shutBit == 0 {
		return nil
	}
	g.exit()
	return g.closeReason()
}

// exit ends a call.
func (g *inflight) exit() {
	if g.calls.Add(-1) == shutBit {
		g.signalIdle()
	}
}

func (g *inflight) signalIdle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle != nil && !g.emptied {
		g.emptied = true
		close(g.idle)
	}
}

func (g *inflight) begunLocked() chan struct{} {
	if g.begun == nil {
		g.begun = make(chan struct{})
	}
	return g.begun
}

// closing returns when the handle starts to close, and why.
func (g *inflight) closing() abandonSignal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return abandonSignal{g.begunLocked(), g.closeReason}
}

func (g *inflight) closeReason() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

// closeAndWait refuses further calls, cancels long ones, waits for the rest until ctx ends,
// and closes what calls left open.
func (g *inflight) closeAndWait(ctx context.Context, why error) error {
	g.mu.Lock()
	if g.idle == nil {
		g.idle, g.reason = make(chan struct{}), why
		close(g.begunLocked())
	}
	idle, long := g.idle, g.long
	g.long = nil
	g.mu.Unlock()
	for c := range long {
		c.cancel(why)
	}
	if g.calls.Or(shutBit)&^shutBit == 0 {
		g.signalIdle()
	}
	select {
	case <-idle:
		g.closeAll()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Busy reports whether a call that uses the workspace runs on the handle, such as a command, or
// a reader of Read or a connection of Dial is open. The registry calls Busy before it treats a
// workspace as idle.
func (w *Workspace) Busy() bool {
	onlookers := w.inflight.onlookers.Load() // first: a call that ends meanwhile counts as a use, not as one less
	return w.inflight.calls.Load()&^shutBit > onlookers || w.inflight.readers.Load() > 0
}

type withoutUseKey struct{}

// WithoutUse returns a context whose calls are no use of a workspace, which may expire meanwhile:
// those of somebody who only looks on.
func WithoutUse(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutUseKey{}, true)
}

// IsUse reports whether calls with a context are a use of a workspace, see [WithoutUse].
func IsUse(ctx context.Context) bool { return ctx.Value(withoutUseKey{}) == nil }

// An openResource is what a call left open, such as a watcher. It is closed once: by its
// owner, or with the handle.
type openResource struct {
	once  sync.Once
	close func() error

	endsWithPause bool
}

// register registers closing, to be called with the handle. It is called within the call
// that opened the resource, so the handle is not closed yet.
func (g *inflight) register(closing func() error) *openResource {
	return g.registerResource(&openResource{close: closing})
}

func (g *inflight) registerResource(o *openResource) *openResource {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[*openResource]bool{}
	}
	g.open[o] = true
	return o
}

// closeResource calls closing once; a second caller waits for the first. Only then it
// unregisters o, so that the last call of the driver does not run at the same time.
func (g *inflight) closeResource(o *openResource) (err error) {
	o.once.Do(func() { err = o.close() })
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, o)
	return err
}

func (g *inflight) closeAll() { g.closeEach(func(*openResource) bool { return true }) }

func (g *inflight) closeEach(which func(*openResource) bool) {
	g.mu.Lock()
	open := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, o := range open {
		if which(o) {
			g.closeResource(o) //nolint:errcheck // the owner gets the error that the handle is closed
		}
	}
}

// closeCause returns the reason of the closed handle, if closing ended the context of a
// failed call (see hold). The caller did not cancel that call.
func (g *inflight) closeCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if why := g.closeReason(); why != nil && context.Cause(ctx) == why { //nolint:errorlint // identity, not a wrapped one
		return why
	}
	return err
}

// A longCall runs until an event, such as a command or a watch. Closing the handle
// cancels it.
type longCall struct{ cancel func(error) }

// withCloseCancel returns a context that also ends when the handle closes, with the reason as its
// cause. The caller must call release at the end.
func (g *inflight) withCloseCancel(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &longCall{cancel}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason != nil {
		cancel(g.reason)
		return ctx, func() {}
	}
	if g.long == nil {
		g.long = map[*longCall]bool{}
	}
	g.long[c] = true
	return ctx, func() {
		g.mu.Lock()
		delete(g.long, c)
		g.mu.Unlock()
		cancel(nil)
	}
}
