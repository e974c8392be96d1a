package workspace

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// A gate counts the calls under way on a handle and, once shut, lets no more
// in: so the last call to a driver, Close or Destroy, has no other beside or
// after it. A call that is made within another, by a callback or by the body of
// a write, is refused while the gate is being shut; it never waits for it.
type gate struct {
	calls atomic.Int64 // under way, plus shutBit

	mu      sync.Mutex
	reason  error         // why it is shut
	begun   chan struct{} // closed when the gate is being shut; nil where nobody asked
	idle    chan struct{}
	emptied bool               // idle is closed
	long    map[*longCall]bool // what has to be told to end
	open    map[*opened]bool   // what has to be closed before the last call

	readers atomic.Int64 // that are open

	lastMu sync.Mutex // held while the last call is made
	left   *verb      // the last call that succeeded
}

const shutBit = 1 << 62

// enter lets a call in, or says why not.
func (g *gate) enter() error {
	if g.calls.Add(1)&shutBit == 0 {
		return nil
	}
	g.exit()
	return g.why()
}

// exit lets a call out.
func (g *gate) exit() {
	if g.calls.Add(-1) == shutBit {
		g.empty()
	}
}

func (g *gate) empty() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle != nil && !g.emptied {
		g.emptied = true
		close(g.idle)
	}
}

func (g *gate) begunLocked() chan struct{} {
	if g.begun == nil {
		g.begun = make(chan struct{})
	}
	return g.begun
}

// exiting is when the gate is being shut.
func (g *gate) exiting() exit {
	g.mu.Lock()
	defer g.mu.Unlock()
	return exit{g.begunLocked(), g.why}
}

func (g *gate) why() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

// shut refuses further calls, ends those that are long, waits for the rest as
// long as ctx lasts, and closes what calls left open.
func (g *gate) shut(ctx context.Context, why error) error {
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
		g.empty()
	}
	select {
	case <-idle:
		g.closeAll()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Busy reports whether a call is under way on the handle, such as a command
// that runs, or a reader that Read returned is open. The registry asks before it
// takes a workspace for idle.
func (w *Workspace) Busy() bool { return w.gate.calls.Load()&^shutBit > 0 || w.gate.readers.Load() > 0 }

// An opened is what a call left open, such as a watcher. It is closed once: by
// its owner, or with the handle.
type opened struct {
	once  sync.Once
	close func() error
}

// keep remembers to close something with the handle. It is called within the call
// that opened it, so the gate is not shut before.
func (g *gate) keep(closing func() error) *opened {
	o := &opened{close: closing}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[*opened]bool{}
	}
	g.open[o] = true
	return o
}

// drop closes what keep remembers; whoever comes second waits for the first. It
// is forgotten only then, so that no last call is made beside it.
func (g *gate) drop(o *opened) (err error) {
	o.once.Do(func() { err = o.close() })
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, o)
	return err
}

func (g *gate) closeAll() {
	g.mu.Lock()
	open := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, o := range open {
		g.drop(o) //nolint:errcheck // its owner is told that the handle is closed
	}
}

// cut returns why the handle was closed, where that ended the context of a call
// that failed; hold made it. Whoever made the call did not cancel it.
func (g *gate) cut(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if why := g.why(); why != nil && context.Cause(ctx) == why { //nolint:errorlint // this very one
		return why
	}
	return err
}

// A longCall is one that lasts until something happens, such as a command or a
// watch, and that the shutting of the gate ends.
type longCall struct{ cancel func(error) }

// hold makes a context that also ends when the gate is shut, with the reason as
// its cause. The caller calls release in the end, after which nothing ends it.
func (g *gate) hold(ctx context.Context) (_ context.Context, release func()) {
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
