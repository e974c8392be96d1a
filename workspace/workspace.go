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

// A Workspace is an open handle on a workspace. It is safe for concurrent use.
type Workspace struct {
	id   string
	want driver.Capabilities
	opts Options

	// current receives the calls. A renewal and a change of policy replace it; both
	// hold renewMu.
	current atomic.Pointer[live]
	renewMu sync.Mutex

	editMu   sync.Mutex // held by the edit fallback
	inflight inflight
}

// live is a driver's workspace in use. A renewed one has the next generation; a
// changed policy keeps the generation.
type live struct {
	*driver.Workspace
	generation int
	built      Capabilities // its capabilities, which never change
}

func newLive(d *driver.Workspace, generation int) *live { return &live{d, generation, d.Built()} }

// Options configure a handle. The zero value has no session, log, events or renewal.
type Options struct {
	Session driver.SessionRef // for events
	Log     *slog.Logger      // nil is silent
	Events  event.Sink        // nil is event.Discard

	// Used is called when a call that uses the workspace ends, see [WithoutUse]. The registry sets it.
	Used func()

	// Renew attaches again after a call returned Evicted; stale is the evicted
	// workspace. If Renew is nil, the caller gets Evicted. The registry sets it.
	Renew func(ctx context.Context, stale *driver.Workspace) (*driver.Workspace, error)

	// OnClose is called instead of closing the driver's workspace. The registry sets
	// it, because several owners may share the handle.
	OnClose func(ctx context.Context) error

	// Relay means that the driver is a client of a Workspace in another process,
	// which checks every path and keeps the audit log. A path that leaves the
	// workspace is then sent unchanged, so that the remote audit log records the
	// attempt.
	Relay bool

	// Kind is the name of the provider in errors; "" is the provider of the ref,
	// which of a relayed workspace is the relay.
	Kind string

	// MaxFileSize bounds every write; 0 leaves it to the provider.
	MaxFileSize int64
}

// New returns a handle on what a provider returned, after checking it against the
// contract. The handle has the capabilities want, or all if want is empty.
func New(id string, d *driver.Workspace, want driver.Capabilities, opts *Options) (*Workspace, error) {
	if err := d.Validate(want); err != nil {
		return nil, err
	}
	w := &Workspace{id: id, want: want.Clone()}
	if opts != nil {
		w.opts = *opts
	}
	w.opts.Log = logger(opts)
	if w.opts.Used == nil {
		w.opts.Used = func() {}
	}
	if w.opts.Events == nil {
		w.opts.Events = event.Discard
	}
	w.current.Store(newLive(d.Only(want), 0))
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

// Traits returns what is enforced, and by which mechanism.
func (w *Workspace) Traits() Traits { return w.current.Load().Traits }

// Capabilities returns the modules of this workspace. The set is shared and must not
// be changed.
func (w *Workspace) Capabilities() Capabilities { return w.current.Load().built }

// Extra returns the extra capability of the given name, nil if there is none.
func (w *Workspace) Extra(name string) any { return w.current.Load().Extra[name] }

// Extras returns the extra capabilities by name.
func (w *Workspace) Extras() map[string]any { return w.current.Load().Extra }

// Close closes the handle; the workspace continues to exist. Commands, watches, open
// readers and writes that wait for their body are ended. Close waits for other calls,
// and later calls return WrongState. Close is idempotent. If ctx ends first, Close
// can be repeated.
func (w *Workspace) Close(ctx context.Context) error {
	if w.opts.OnClose != nil {
		return w.opts.OnClose(ctx)
	}
	return w.Detach(ctx)
}

// Detach is Close without OnClose: it closes the handle for all its owners.
func (w *Workspace) Detach(ctx context.Context) error {
	return w.DetachWith(ctx, fault.WithCause(
		fmt.Errorf("workspace %s: %w: this handle on it was closed; acquire or open it again", w.id, fault.WrongState), fault.CauseClosed))
}

// DetachWith is Detach with the error of the calls that are cut off or refused.
func (w *Workspace) DetachWith(ctx context.Context, why error) error {
	return w.closeWith(ctx, verbClose, why,
		func(ctx context.Context, d *driver.Workspace) error { return d.Life.Close(ctx) })
}

// Destroy removes the workspace and everything that belongs to it. A directory in
// place stays. An interrupted Destroy can be repeated, but not on a closed handle.
// Programs with a registry destroy through the registry.
func (w *Workspace) Destroy(ctx context.Context) error {
	why := fault.WithCause(fmt.Errorf("workspace %s: the workspace was destroyed: %w", w.id, fault.NotFound), fault.CauseDestroyed)
	return w.closeWith(ctx, verbDestroy, why,
		func(ctx context.Context, d *driver.Workspace) error { return d.Life.Destroy(ctx) })
}

// closeWith refuses new calls, waits for running ones and then makes the last call.
func (w *Workspace) closeWith(ctx context.Context, v *verb, why error, last func(context.Context, *driver.Workspace) error) (err error) {
	ctx, op := w.beginOperation(ctx, v, subject{})
	defer func() { op.end(ctx, err) }()
	if err := w.inflight.closeAndWait(ctx, why); err != nil {
		return fmt.Errorf("workspace %s: %s: %w: calls are still running; repeat it", w.id, v.name, err)
	}
	w.inflight.lastMu.Lock()
	defer w.inflight.lastMu.Unlock()
	if w.inflight.left != nil && v == verbDestroy && w.inflight.left == verbClose {
		return w.inflight.closeReason()
	}
	if w.inflight.left != nil && v == verbClose {
		return nil
	}
	if err := w.callRecovering(ctx, w.current.Load(), func(ctx context.Context, d *live) error { return last(ctx, d.Workspace) }); err != nil {
		return err
	}
	w.inflight.left = v
	return nil
}

// Pause freezes the processes of the workspace. They use no CPU and keep their memory.
// Connections of Dial end.
func (w *Workspace) Pause(ctx context.Context) error {
	return w.call(ctx, verbPause, subject{}, func(ctx context.Context, d *live) error {
		if err := w.canPause(d); err != nil {
			return err
		}
		if err := d.Life.Pause(ctx); err != nil {
			return err
		}
		w.inflight.closeEach(func(o *openResource) bool { return o.endsWithPause })
		return nil
	})
}

// CanPause returns why the workspace can't be paused.
func (w *Workspace) CanPause() error { return w.canPause(w.current.Load()) }

func (w *Workspace) canPause(d *live) error {
	switch {
	case d.Life.Pause == nil && d.Life.NoPause != "":
		return fault.WithHint(fmt.Errorf("pausing: %w: %s", fault.Unsupported, d.Life.NoPause), fault.HintProvider, "pausing")
	case d.Life.Pause == nil:
		return w.unsupported("pausing", d)
	}
	return nil
}

// Resume continues the processes that Pause froze.
func (w *Workspace) Resume(ctx context.Context) error {
	return w.call(ctx, verbResume, subject{}, func(ctx context.Context, d *live) error {
		if d.Life.Resume == nil {
			return w.unsupported("resuming", d)
		}
		return d.Life.Resume(ctx)
	})
}

// Update changes the policy in place and returns the new ref. Programs with a
// registry update through the registry, which stores the ref.
func (w *Workspace) Update(ctx context.Context, policy Policy) (ref Ref, err error) {
	err = w.call(ctx, verbUpdate, subject{}, func(ctx context.Context, d *live) error {
		if d.Life.Update == nil {
			return w.unsupported("a change of policy in place", d)
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

// Metrics measures what the workspace uses now, where the provider can. It is no use of the
// workspace, which may expire, and no event.
func (w *Workspace) Metrics(ctx context.Context) (m driver.Metrics, err error) {
	if err := w.inflight.enter(); err != nil {
		return m, err
	}
	defer w.inflight.exit()
	w.inflight.onlookers.Add(1)
	defer w.inflight.onlookers.Add(-1)
	d := w.current.Load()
	if d.Life.Metrics == nil {
		return m, w.unsupported("metrics", d)
	}
	err = w.callRecovering(ctx, d, func(ctx context.Context, d *live) error {
		m, err = d.Life.Metrics(ctx)
		return err
	})
	return m, err
}

// call runs one operation. It keeps the handle open meanwhile, repeats the call once if
// the workspace was evicted, turns a panic of a provider into an error of the call,
// replaces the error of a call that the closing of the handle canceled by the reason,
// and reports the operation.
func (w *Workspace) call(ctx context.Context, v *verb, about subject, call func(context.Context, *live) error) (err error) {
	ctx, op := w.beginOperation(ctx, v, about)
	defer func() {
		err = w.inflight.closeCause(ctx, err)
		op.end(ctx, err)
	}()
	if err := w.inflight.enter(); err != nil {
		return err
	}
	defer w.inflight.exit()
	if !IsUse(ctx) {
		w.inflight.onlookers.Add(1)
		defer w.inflight.onlookers.Add(-1)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("workspace %s: %s: %w", w.id, v.name, err)
	}
	return w.callRenewing(ctx, call)
}

// callRenewing makes a call, and repeats it once if the workspace was evicted and could be
// renewed.
func (w *Workspace) callRenewing(ctx context.Context, call func(context.Context, *live) error) error {
	d := w.current.Load()
	err := w.callRecovering(ctx, d, call)
	if err == nil || w.opts.Renew == nil || !errors.Is(err, fault.Evicted) {
		return err
	}
	if d, err = w.renewOnce(ctx, d); err != nil {
		return err
	}
	return w.callRecovering(ctx, d, call)
}

// callRecovering runs call and turns a panic in a provider into its error. An error
// without a code gets Failed: its text says what went wrong.
func (w *Workspace) callRecovering(ctx context.Context, d *live, call func(context.Context, *live) error) (err error) {
	defer recoverPanic(w.opts.Log, w.id, d.Ref.Provider, &err)
	return fault.Default(call(ctx, d), fault.Failed)
}

// recoverPanic recovers from a panic in a provider; it is deferred around calls to a
// provider.
func recoverPanic(log *slog.Logger, id, provider string, err *error) {
	if p := recover(); p != nil {
		log.Error("provider panicked", "provider", provider, "workspace", id, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("workspace %s: provider %s panicked: %w", id, provider, fault.Internal)
	}
}

// renewOnce replaces an evicted workspace, once for all calls that found it evicted
// (singleflight).
func (w *Workspace) renewOnce(ctx context.Context, stale *live) (*live, error) {
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
	next := newLive(d.Only(w.want), now.generation+1)
	w.current.Store(next)
	return next, nil
}

// unsupported returns the error for a module or function that the workspace does not have.
func (w *Workspace) unsupported(what string, d *live) error {
	kind := cmp.Or(w.opts.Kind, d.Ref.Provider)
	err := fmt.Errorf("%s: %w: the workspace, of provider %s, has only %v", what, fault.Unsupported, kind, d.Built().Names())
	return fault.WithHint(err, fault.HintProvider, what)
}
