package workspace

import (
	"context"
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
	reason  error // why it is shut
	idle    chan struct{}
	emptied bool               // idle is closed
	long    map[*longCall]bool // what has to be told to end

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

func (g *gate) why() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

// shut refuses further calls, ends those that are long, and waits for the rest
// as long as ctx lasts.
func (g *gate) shut(ctx context.Context, why error) error {
	g.mu.Lock()
	if g.idle == nil {
		g.idle, g.reason = make(chan struct{}), why
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
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Busy reports whether a call is under way on the handle, such as a command
// that runs. The registry asks before it takes a workspace for idle.
func (w *Workspace) Busy() bool { return w.gate.calls.Load()&^shutBit > 0 }

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
