package registry

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/workspace/driver"
)

// pollOpening is the interval of polling a workspace that another process is
// opening.
const pollOpening = 50 * time.Millisecond

// claimAndOpen gets the provider's workspace for a record and stores the result:
// the ref, or the failure. The returned workspace is ready and durable.
func (r *Registry) claimAndOpen(ctx context.Context, rec Record) (*driver.Workspace, Record, error) {
	for {
		rec, err := r.claimOpening(ctx, rec)
		if err != nil {
			return nil, Record{}, err
		}
		d, settled, err := r.openAndStore(ctx, rec)
		if fault.Of(err) != fault.Conflict {
			return d, settled, err
		}
		if rec, err = r.getRecord(ctx, rec.ID); err != nil {
			return nil, Record{}, err
		}
	}
}

// claimOpening makes this registry the worker that opens the workspace. A ready or
// evicted workspace needs no claim: any number of registries may attach to it.
func (r *Registry) claimOpening(ctx context.Context, rec Record) (Record, error) {
	for {
		if err := rec.checkUsable(); err != nil {
			return Record{}, err
		}
		if rec.State == Ready || rec.State == Evicted {
			return rec, nil
		}
		if busy, err := r.busyElsewhere(ctx, rec); err != nil {
			return Record{}, err
		} else if busy {
			if err := sleep.For(ctx, pollOpening); err != nil {
				return Record{}, fmt.Errorf("registry: acquire %s: another process is opening it: %w", rec.ID, err)
			}
		} else {
			next := rec.clone()
			if next.State != Opening {
				next.moveTo(Opening)
			}
			next.Worker = r.self.ID
			next.Attempts++
			if stored, err := r.putRecord(ctx, rec.State, next, r.store.Put); fault.Of(err) != fault.Conflict {
				return stored, err
			}
		}
		var err error
		if rec, err = r.getRecord(ctx, rec.ID); err != nil {
			return Record{}, err
		}
	}
}

// busyElsewhere reports whether another living registry works on the record.
func (r *Registry) busyElsewhere(ctx context.Context, rec Record) (bool, error) {
	if rec.Worker == "" || rec.Worker == r.self.ID {
		return false, nil
	}
	return r.store.Alive(ctx, rec.Worker)
}

// openAndStore opens or resolves, and stores the outcome. Sweep is excluded from
// before the provider is called until the record is stored.
func (r *Registry) openAndStore(ctx context.Context, rec Record) (*driver.Workspace, Record, error) {
	d, opened, unlock, err := r.openOrResolve(ctx, rec)
	defer unlock()
	if err != nil {
		return nil, Record{}, r.storeFailure(ctx, rec, opened, err)
	}
	settled, err := r.storeReady(ctx, rec, d, opened)
	if err == nil {
		return d, settled, nil
	}
	// The process that destroyed the record may have found nothing to remove yet.
	end := d.Life.Close
	if fault.Of(err) == fault.NotFound {
		end = d.Life.Destroy
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if failure := end(ctx); failure != nil {
		r.opts.Log.Warn("close a workspace handle", "workspace", rec.ID, "error", failure)
	}
	return nil, Record{}, err
}

// openOrResolve calls the provider: Resolve if there is a ref, otherwise Open. A
// stale ref means that a change of policy was made and its new ref never stored;
// opening with the pending policy recovers it.
func (r *Registry) openOrResolve(ctx context.Context, rec Record) (d *driver.Workspace, opened bool, unlock func(), err error) {
	unlock = func() {}
	p, err := r.mux.Provider(rec.Kind)
	if err != nil {
		return nil, false, unlock, notFailed{err}
	}
	spec := rec.Spec
	if rec.Ref != nil {
		d, err = r.retryTransient(ctx, rec, "resolve", func(ctx context.Context) (*driver.Workspace, error) { return p.Resolve(ctx, *rec.Ref) })
		if fault.CauseOf(err) != fault.CauseStale {
			return d, false, unlock, err
		}
		if rec.Pending != nil {
			spec.Policy = *rec.Pending
		}
	}
	if unlock, err = r.lockShared(ctx); err != nil {
		return nil, true, func() {}, notFailed{err}
	}
	d, err = r.retryTransient(ctx, rec, "open", func(ctx context.Context) (*driver.Workspace, error) { return p.Open(ctx, spec) })
	return d, true, unlock, err
}

// notFailed is an error that is not a failure of the workspace.
type notFailed struct{ error }

func (e notFailed) Unwrap() error { return e.error }

// retryTransient repeats a call that fails transiently, with exponential backoff.
func (r *Registry) retryTransient(ctx context.Context, rec Record, verb string, call func(context.Context) (*driver.Workspace, error)) (*driver.Workspace, error) {
	for n := 0; ; n++ {
		d, err := r.callProvider(ctx, rec, verb, call)
		if err == nil || !fault.IsTransient(err) || n >= r.opts.Retries {
			return d, err
		}
		r.opts.Log.Info("retry", "workspace", rec.ID, "provider", rec.Kind, "verb", verb, "code", fault.Of(err), "attempt", n+1)
		if cut := sleep.For(ctx, sleep.Backoff(r.opts.RetryFor, r.opts.Retries, n)); cut != nil {
			return nil, fmt.Errorf("%w (while waiting to try again): %w", cut, err)
		}
	}
}

// callProvider calls a provider and checks the contract. A panic, an invalid
// workspace, and Evicted, which only modules may return, are permanent failures.
func (r *Registry) callProvider(ctx context.Context, rec Record, verb string, call func(context.Context) (*driver.Workspace, error)) (d *driver.Workspace, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.opts.Log.Error("provider panicked", "provider", rec.Kind, "workspace", rec.ID, "verb", verb, "panic", p, "stack", string(debug.Stack()))
			d, err = nil, fmt.Errorf("registry: %s %s: %w: provider %s panicked", verb, rec.label(), fault.Failed, rec.Kind)
		}
	}()
	d, err = call(ctx)
	switch {
	case errors.Is(err, fault.Evicted):
		return nil, fmt.Errorf("registry: %s %s: %w: provider %s broke the contract: only modules may return Evicted", verb, rec.label(), fault.Failed, rec.Kind)
	case err != nil && fault.Of(fault.Default(err, fault.Failed)) != fault.Of(err): // an error without a code
		plain := fault.Default(errors.New(r.opts.Scrub(err.Error())), fault.Failed)
		return nil, fmt.Errorf("registry: %s %s: %w: provider %s: %w", verb, rec.label(), fault.Failed, rec.Kind, plain)
	case err != nil && fault.Of(err) == fault.Internal:
		r.opts.Log.Error("provider returned an internal error", "provider", rec.Kind, "workspace", rec.ID, "verb", verb, "error", err)
		return nil, fmt.Errorf("registry: %s %s: %w: provider %s returned an internal error", verb, rec.label(), fault.Failed, rec.Kind)
	case err != nil:
		return nil, fmt.Errorf("registry: %s %s: %w", verb, rec.label(), err)
	}
	err = d.Validate(rec.Spec.Want)
	if err == nil {
		err = r.checkRef(rec.Kind, d.Ref)
	}
	if err != nil {
		r.closeInvalid(ctx, d)
		return nil, fmt.Errorf("registry: %s %s: %w", verb, rec.label(), err)
	}
	return d.Only(rec.Spec.Want), nil
}

// checkRef refuses a ref that must not be stored.
func (r *Registry) checkRef(kind string, ref driver.Ref) error {
	if ref.Provider != kind {
		return fmt.Errorf("%w: provider %s returned a ref of another provider", fault.Failed, kind)
	}
	if r.opts.HasSecretValue(string(ref.Payload)) {
		return fmt.Errorf("%w: provider %s returned a ref with the value of a secret, which would be stored", fault.Failed, kind)
	}
	return nil
}

func (r *Registry) closeInvalid(ctx context.Context, d *driver.Workspace) {
	if d == nil || d.Life.Close == nil {
		return
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if err := d.Life.Close(ctx); err != nil {
		r.opts.Log.Debug("close a workspace that broke the contract", "error", err)
	}
}

// storeReady stores that the workspace is ready, with its ref. NotFound means that
// it was destroyed meanwhile, Conflict that a newer ref is known.
func (r *Registry) storeReady(ctx context.Context, rec Record, d *driver.Workspace, opened bool) (Record, error) {
	busy, err := r.isUpdating(ctx, rec)
	if err != nil {
		return Record{}, err
	}
	return r.changeRecord(ctx, rec.ID, func(now *Record) error {
		if err := now.checkUsable(); err != nil {
			return err
		}
		if now.Ref != nil && now.Ref.Revision > d.Ref.Revision {
			return fmt.Errorf("registry: workspace %s: a newer revision is known: %w", rec.ID, fault.Conflict)
		}
		same := now.Ref != nil && now.Ref.Revision == d.Ref.Revision
		if now.State == Ready && same && (now.Pending == nil || busy) {
			return errUnchanged
		}
		now.becomeReady()
		now.Ref = &d.Ref
		if now.Pending != nil && !busy {
			if opened && rec.Pending != nil {
				now.Spec.Policy = *rec.Pending
			}
			now.Pending, now.Worker = nil, ""
		}
		return nil
	})
}

// isUpdating reports whether a living registry is changing the policy now; its
// pending policy must be left alone.
func (r *Registry) isUpdating(ctx context.Context, rec Record) (bool, error) {
	if rec.Pending == nil || rec.Worker == "" {
		return false, nil
	}
	if rec.Worker == r.self.ID {
		return rec.State != Opening, nil
	}
	return r.store.Alive(ctx, rec.Worker)
}

// becomeReady moves a record to ready, from any state.
func (r *Record) becomeReady() {
	switch r.State {
	case Intended, Closed:
		r.moveTo(Opening, Ready)
		r.Worker = ""
	case Opening:
		r.moveTo(Ready)
		r.Worker = ""
	case Evicted, Paused:
		r.moveTo(Ready)
	}
	r.Error, r.Attempts = nil, 0
}

// storeFailure stores a permanent failure and returns the error that every Acquire
// returns from now on. It stores nothing if the caller's context ended, if the
// store itself failed, if the state of the workspace is corrupt, which may be restored, or
// if another process holds the workspace, which then works there.
func (r *Registry) storeFailure(ctx context.Context, rec Record, opened bool, err error) error {
	cut := ctx.Err() != nil || errors.As(err, new(notFailed)) || !opened && fault.CauseOf(err) == fault.CauseCorrupt
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if cut {
		return r.releaseClaim(ctx, rec, err)
	}
	if !opened && r.heldElsewhere(ctx, rec.ID) {
		return fmt.Errorf("%w (another process holds it)", err)
	}
	wire := fault.Encode(err)
	if !opened && wire.Transient && wire.Cause == "" {
		wire.Cause = fault.CauseOutage
	}
	wire.Transient = false // all retries are used up
	stored, failure := r.changeRecord(ctx, rec.ID, func(now *Record) error {
		switch now.State {
		case Opening, Evicted:
			now.moveTo(Failed)
		case Ready:
			now.moveTo(Evicted, Failed)
		default: // moved to another state meanwhile; the failure is only this caller's
			return errUnchanged
		}
		now.Error, now.Worker = &wire, ""
		return nil
	})
	if failure != nil {
		r.opts.Log.Warn("store a failure", "workspace", rec.ID, "error", failure)
		return err
	}
	r.opts.Log.Warn("workspace failed", "workspace", rec.ID, "provider", rec.Kind, "code", wire.Code, "error", err)
	if stored.State == Failed {
		return stored.failure()
	}
	return err
}

// releaseClaim leaves an interrupted opening to the next Acquire.
func (r *Registry) releaseClaim(ctx context.Context, rec Record, err error) error {
	_, failure := r.changeRecord(ctx, rec.ID, func(now *Record) error {
		if now.State != Opening || now.Worker != r.self.ID {
			return errUnchanged
		}
		now.Worker = ""
		return nil
	})
	if fault.Of(failure) == fault.NotFound {
		return failure // destroyed, which canceled the opening
	}
	return err
}

func (r *Registry) heldElsewhere(ctx context.Context, id string) bool {
	holders, err := r.store.Holders(ctx, id)
	if err != nil {
		return true // in doubt the workspace is not failed
	}
	for _, h := range holders {
		if h.ID != r.self.ID {
			return true
		}
	}
	return false
}
