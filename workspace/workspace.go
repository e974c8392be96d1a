package workspace

import (
	"cmp"
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
	want driver.Capabilities
	opts Options

	// current is what calls go to. Renewing replaces it, and so does a change
	// of policy; both hold renewMu.
	current atomic.Pointer[live]
	renewMu sync.Mutex

	editMu sync.Mutex // held by edits that the provider can't do itself
	gate   gate
}

// live is a driver's workspace in use. One that was renewed has the next
// generation; one whose policy changed stays in its own.
type live struct {
	*driver.Workspace
	generation int
	built      Capabilities // of it, which stay
}

func newLive(d *driver.Workspace, generation int) *live { return &live{d, generation, d.Built()} }

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

	// Relay says that the driver speaks to a Workspace of another process, which
	// judges every path and keeps the audit: a path that leaves is handed to it as
	// it was written, so that the attempt is told where the workspace is.
	Relay bool

	// Kind is how errors name the provider; "" is as the ref does, which of a
	// relayed workspace names the relay.
	Kind string

	// MaxFileSize bounds every write; 0 is no limit but the provider's own.
	MaxFileSize int64
}

// New returns a handle on what a provider returned, after holding it against
// the contract and against the capabilities that are wanted.
func New(id string, d *driver.Workspace, want driver.Capabilities, opts *Options) (*Workspace, error) {
	if err := d.Validate(want); err != nil {
		return nil, err
	}
	w := &Workspace{id: id, want: want.Clone()}
	if opts != nil {
		w.opts = *opts
	}
	w.opts.Log = logger(opts)
	if w.opts.Events == nil {
		w.opts.Events = event.Discard
	}
	w.current.Store(newLive(d, 0))
	return w, nil
}

func logger(opts *Options) *slog.Logger {
	if opts == nil || opts.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return opts.Log
}

// ID returns the workspace's id.
func (w *Workspace) ID() string { return w.id }

// Ref returns what Resolve needs to attach to this workspace again.
func (w *Workspace) Ref() Ref { return w.current.Load().Ref }

// Traits returns what is enforced here and by what.
func (w *Workspace) Traits() Traits { return w.current.Load().Traits }

// Capabilities returns the modules that this workspace has. The set is for all who
// ask, and must not be changed.
func (w *Workspace) Capabilities() Capabilities { return w.current.Load().built }

// Extra returns the extra capability of the given name, nil if there is none.
func (w *Workspace) Extra(name string) any { return w.current.Load().Extra[name] }

// Extras returns the extra capabilities by name.
func (w *Workspace) Extras() map[string]any { return w.current.Load().Extra }

// Close lets go of the workspace, which lives on. Commands, watches, open readers
// and writes that wait for their body are ended, other calls are waited for, and
// later ones answer WrongState.
// Closing twice is closing once. Where ctx ends first, closing can be repeated.
func (w *Workspace) Close(ctx context.Context) error {
	if w.opts.OnClose != nil {
		return w.opts.OnClose(ctx)
	}
	return w.Detach(ctx)
}

// Detach is Close without OnClose: it ends this very handle, for everyone who
// holds it.
func (w *Workspace) Detach(ctx context.Context) error {
	return w.leave(ctx, verbClose, fmt.Errorf("workspace %s: the handle is closed: %w", w.id, fault.WrongState),
		func(ctx context.Context, d *driver.Workspace) error { return d.Life.Close(ctx) })
}

// Destroy ends the workspace and removes all that belongs to it. A directory
// that was given in place stays. One that was cut short can be repeated; it is
// not for a handle that was closed. Programs with a registry destroy through it.
func (w *Workspace) Destroy(ctx context.Context) error {
	return w.leave(ctx, verbDestroy, fmt.Errorf("workspace %s: it was destroyed: %w", w.id, fault.NotFound),
		func(ctx context.Context, d *driver.Workspace) error { return d.Life.Destroy(ctx) })
}

// leave shuts the gate and then makes the last call.
func (w *Workspace) leave(ctx context.Context, v *verb, why error, last func(context.Context, *driver.Workspace) error) (err error) {
	ctx, op := w.begin(ctx, v, subject{})
	defer func() { op.end(ctx, err) }()
	if err := w.gate.shut(ctx, why); err != nil {
		return fmt.Errorf("workspace %s: %s: %w: calls are still under way", w.id, v.name, err)
	}
	w.gate.lastMu.Lock()
	defer w.gate.lastMu.Unlock()
	if w.gate.left != nil && v == verbDestroy && w.gate.left == verbClose {
		return w.gate.why()
	}
	if w.gate.left != nil && v == verbClose {
		return nil
	}
	if err := w.guard(ctx, w.current.Load(), func(ctx context.Context, d *live) error { return last(ctx, d.Workspace) }); err != nil {
		return err
	}
	w.gate.left = v
	return nil
}

// Pause stops the processes of the workspace and frees what they hold.
func (w *Workspace) Pause(ctx context.Context) error {
	return w.do(ctx, verbPause, subject{}, func(ctx context.Context, d *live) error {
		if d.Life.Pause == nil && d.Life.NoPause != "" {
			return fmt.Errorf("workspace %s: pausing: %w: %s", w.id, fault.Unsupported, d.Life.NoPause)
		}
		if d.Life.Pause == nil {
			return w.lacks("pausing", d)
		}
		return d.Life.Pause(ctx)
	})
}

// Resume goes on where Pause stopped.
func (w *Workspace) Resume(ctx context.Context) error {
	return w.do(ctx, verbResume, subject{}, func(ctx context.Context, d *live) error {
		if d.Life.Resume == nil {
			return w.lacks("resuming", d)
		}
		return d.Life.Resume(ctx)
	})
}

// Update changes the policy in place and returns the new ref. Programs with a
// registry update through it, so that the ref is kept.
func (w *Workspace) Update(ctx context.Context, policy Policy) (ref Ref, err error) {
	err = w.do(ctx, verbUpdate, subject{}, func(ctx context.Context, d *live) error {
		if d.Life.Update == nil {
			return w.lacks("a change of policy in place", d)
		}
		w.renewMu.Lock()
		defer w.renewMu.Unlock()
		now := w.current.Load() // another update may have come first
		if ref, err = now.Life.Update(ctx, policy); err != nil {
			return err
		}
		next := *now.Workspace
		next.Ref = ref
		w.current.Store(newLive(&next, now.generation))
		return nil
	})
	return ref, err
}

// do runs one operation: it keeps the handle open meanwhile, repeats the call
// once if the workspace turns out to be evicted, turns a panic of a provider
// into that call's error, says of one that the closing of the handle cut short
// why, and tells of it.
func (w *Workspace) do(ctx context.Context, v *verb, about subject, call func(context.Context, *live) error) (err error) {
	ctx, op := w.begin(ctx, v, about)
	defer func() {
		err = w.gate.cut(ctx, err)
		op.end(ctx, err)
	}()
	if err := w.gate.enter(); err != nil {
		return err
	}
	defer w.gate.exit()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("workspace %s: %s: %w", w.id, v.name, err)
	}
	return w.attempt(ctx, call)
}

// attempt makes a call, and once more where the first found the workspace
// evicted and it could be renewed.
func (w *Workspace) attempt(ctx context.Context, call func(context.Context, *live) error) error {
	d := w.current.Load()
	err := w.guard(ctx, d, call)
	if err == nil || w.opts.Renew == nil || !errors.Is(err, fault.Evicted) {
		return err
	}
	if d, err = w.renew(ctx, d); err != nil {
		return err
	}
	return w.guard(ctx, d, call)
}

// guard makes a panic in a provider the error of the call that met it.
func (w *Workspace) guard(ctx context.Context, d *live, call func(context.Context, *live) error) (err error) {
	defer rescue(w.opts.Log, w.id, d.Ref.Provider, &err)
	return call(ctx, d)
}

// rescue is deferred around calls to a provider.
func rescue(log *slog.Logger, id, provider string, err *error) {
	if p := recover(); p != nil {
		log.Error("provider panicked", "provider", provider, "workspace", id, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("workspace %s: provider %s panicked: %w", id, provider, fault.Internal)
	}
}

// renew replaces what was found evicted, once for all calls that met it.
func (w *Workspace) renew(ctx context.Context, stale *live) (*live, error) {
	w.renewMu.Lock()
	defer w.renewMu.Unlock()
	now := w.current.Load()
	if now.generation != stale.generation {
		return now, nil
	}
	d, err := w.opts.Renew(ctx, now.Workspace)
	if err != nil {
		return nil, err
	}
	if err := d.Validate(w.want); err != nil {
		return nil, err
	}
	next := newLive(d, now.generation+1)
	w.current.Store(next)
	return next, nil
}

// lacks is the error for something that this provider has no module or
// function for.
func (w *Workspace) lacks(what string, d *live) error {
	return fmt.Errorf("workspace %s: %s: %w: provider %s has %v", w.id, what, fault.Unsupported, cmp.Or(w.opts.Kind, d.Ref.Provider), d.Built().Names())
}
