package workspace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Workspace is a live handle on a workspace. It is safe for concurrent use.
type Workspace struct {
	id   string
	opts Options

	// current is what calls go to; renewing replaces it.
	current atomic.Pointer[driver.Workspace]
	renewMu sync.Mutex

	closeMu sync.RWMutex // held for reading by every call under way
	closed  error        // what calls answer once the handle is closed
	closing sync.Once
	done    chan struct{} // closed to end what waits for long: commands, watches
}

// Options say how a handle behaves. The zero value is a plain handle.
type Options struct {
	Session driver.SessionRef // on whose behalf; goes into events
	Log     *slog.Logger      // nil is silent
	Events  event.Sink        // nil is event.Discard

	// Renew attaches anew after a call answered Evicted, and is told which
	// handle did; nil means that Evicted reaches the caller. The registry sets it.
	Renew func(ctx context.Context, stale *driver.Workspace) (*driver.Workspace, error)

	// OnClose is called instead of closing the driver's workspace. The registry
	// sets it, since others may hold the same handle.
	OnClose func(ctx context.Context) error

	// MaxFileSize bounds every write; 0 is no limit but the provider's own.
	MaxFileSize int64
}

// New returns a handle on what a provider returned, after holding it against
// the contract and against the capabilities that are wanted.
func New(id string, d *driver.Workspace, want driver.Capabilities, opts *Options) (*Workspace, error) {
	if err := d.Validate(want); err != nil {
		return nil, err
	}
	w := &Workspace{id: id, done: make(chan struct{})}
	if opts != nil {
		w.opts = *opts
	}
	if w.opts.Log == nil {
		w.opts.Log = slog.New(slog.DiscardHandler)
	}
	if w.opts.Events == nil {
		w.opts.Events = event.Discard
	}
	w.current.Store(d)
	return w, nil
}

// ID returns the workspace's id.
func (w *Workspace) ID() string { return w.id }

// Ref returns what Resolve needs to attach to this workspace again.
func (w *Workspace) Ref() Ref { return w.current.Load().Ref }

// Traits returns what is enforced here and by what.
func (w *Workspace) Traits() Traits { return w.current.Load().Traits }

// Capabilities returns the modules that this workspace has.
func (w *Workspace) Capabilities() Capabilities { return w.current.Load().Built() }

// Extra returns the extra capability of the given name, nil if there is none.
func (w *Workspace) Extra(name string) any { return w.current.Load().Extra[name] }

// Extras returns the extra capabilities by name.
func (w *Workspace) Extras() map[string]any { return w.current.Load().Extra }

// Close lets go of the workspace, which lives on. Calls under way end first;
// later ones answer WrongState.
func (w *Workspace) Close(ctx context.Context) error {
	if w.opts.OnClose != nil {
		return w.opts.OnClose(ctx)
	}
	return w.Detach(ctx)
}

// Detach is Close without OnClose: it ends this very handle, for everyone who
// holds it.
func (w *Workspace) Detach(ctx context.Context) error {
	if !w.shut(fmt.Errorf("workspace %s: the handle is closed: %w", w.id, fault.WrongState)) {
		return nil
	}
	return w.current.Load().Life.Close(ctx)
}

// Destroy ends the workspace and removes all that belongs to it. A directory
// that was given in place stays. Programs with a registry destroy through it.
func (w *Workspace) Destroy(ctx context.Context) error {
	w.shut(fmt.Errorf("workspace %s: it was destroyed: %w", w.id, fault.NotFound))
	return w.current.Load().Life.Destroy(ctx)
}

// shut ends the calls that wait for long, waits for the rest, and makes later
// ones answer why. It reports whether it was this call that closed the handle.
func (w *Workspace) shut(why error) bool {
	w.closing.Do(func() { close(w.done) })
	w.closeMu.Lock()
	defer w.closeMu.Unlock()
	if w.closed != nil {
		return false
	}
	w.closed = why
	return true
}

// Update changes the policy in place and returns the new ref. Programs with a
// registry update through it, so that the ref is kept.
func (w *Workspace) Update(ctx context.Context, policy Policy) (Ref, error) {
	var ref Ref
	err := w.do(ctx, verbUpdate, "", func(ctx context.Context, d *driver.Workspace) error {
		if d.Life.Update == nil {
			return w.lacks("a change of policy in place", d)
		}
		var err error
		if ref, err = d.Life.Update(ctx, policy); err != nil {
			return err
		}
		next := *d
		next.Ref = ref
		w.current.CompareAndSwap(d, &next)
		return nil
	})
	return ref, err
}

// do runs one operation: it keeps the handle open meanwhile, repeats the call
// once if the workspace turns out to be evicted, turns a panic of a provider
// into that call's error, and tells of it. about is the path or command.
func (w *Workspace) do(ctx context.Context, verb verb, about string, call func(context.Context, *driver.Workspace) error) (err error) {
	ctx, end := w.begin(ctx, verb, about)
	defer func() { end(err) }()
	if err := ctx.Err(); err != nil {
		return err
	}
	w.closeMu.RLock()
	defer w.closeMu.RUnlock()
	if w.closed != nil {
		return w.closed
	}
	d := w.current.Load()
	err = w.guard(ctx, d, call)
	if !errors.Is(err, fault.Evicted) || w.opts.Renew == nil {
		return err
	}
	if d, err = w.renew(ctx, d); err != nil {
		return err
	}
	return w.guard(ctx, d, call)
}

// guard makes a panic in a provider the error of the call that met it.
func (w *Workspace) guard(ctx context.Context, d *driver.Workspace, call func(context.Context, *driver.Workspace) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.opts.Log.Error("provider panicked", "provider", d.Ref.Provider, "workspace", w.id, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("workspace %s: provider %s panicked: %w", w.id, d.Ref.Provider, fault.Internal)
		}
	}()
	return call(ctx, d)
}

// renew replaces a stale driver workspace, once for all calls that met it.
func (w *Workspace) renew(ctx context.Context, stale *driver.Workspace) (*driver.Workspace, error) {
	w.renewMu.Lock()
	defer w.renewMu.Unlock()
	if d := w.current.Load(); d != stale {
		return d, nil
	}
	d, err := w.opts.Renew(ctx, stale)
	if err != nil {
		return nil, err
	}
	w.current.Store(d)
	return d, nil
}

// lacks is the error for something that this provider has no module or
// function for.
func (w *Workspace) lacks(what string, d *driver.Workspace) error {
	return fmt.Errorf("workspace %s: %s: %w: provider %s has %v", w.id, what, fault.Unsupported, d.Ref.Provider, d.Built().Names())
}
