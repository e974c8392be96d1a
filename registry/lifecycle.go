package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Reset makes a failed workspace eligible for another attempt by the next Acquire.
// A workspace that was ready once is attached to again; its files are never
// recreated.
func (r *Registry) Reset(ctx context.Context, id string) (Record, error) {
	ctx, done, err := r.lockWorkspace(ctx, "reset", id)
	if err != nil {
		return Record{}, err
	}
	defer done()
	rec, err := r.changeRecord(ctx, id, func(rec *Record) error {
		if err := rec.State.requireState("reset", Failed); err != nil {
			return fmt.Errorf("registry: workspace %s: %w", rec.label(), err)
		}
		if rec.Ref == nil {
			rec.moveTo(Intended) // Attempts stay: they say that there may be something to remove
		} else {
			rec.moveTo(Evicted)
		}
		rec.Error = nil
		return nil
	})
	if err != nil {
		return Record{}, err
	}
	return rec, r.retireID(ctx, id)
}

// Close closes a workspace in every process; it continues to exist, and Acquire
// opens it again. Handles in other processes end with their next heartbeat. A
// failed workspace stays failed.
func (r *Registry) Close(ctx context.Context, id string) error {
	ctx, done, err := r.lockWorkspace(ctx, "close", id)
	if err != nil {
		return err
	}
	defer done()
	_, err = r.changeRecord(ctx, id, func(rec *Record) error {
		if rec.State == Closed || rec.State == Failed {
			return errUnchanged
		}
		rec.moveTo(Closed)
		rec.Worker = ""
		return nil
	})
	if err != nil {
		return err
	}
	return r.retireID(ctx, id)
}

// Destroy ends a workspace and removes all that belongs to it, except a host
// directory used in place. The record is destroyed for all processes before
// anything is removed: an error after that means that something is left, which a
// repeated Destroy or the next sweep removes.
func (r *Registry) Destroy(ctx context.Context, id string) error {
	ctx, done, err := r.lockToDestroy(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	rec, err := r.markDestroyed(ctx, id)
	if err != nil {
		return err
	}
	return r.removeDestroyed(ctx, rec)
}

// markDestroyed records that a workspace is destroyed. A destroyed record is
// returned as it is, so that its removal continues.
func (r *Registry) markDestroyed(ctx context.Context, id string) (Record, error) {
	rec, err := r.changeRecord(ctx, id, func(rec *Record) error {
		if _, err := r.mux.Provider(rec.Kind); err != nil {
			return fmt.Errorf("registry: destroy %s: %w", id, err)
		}
		rec.moveToDestroyed()
		return nil
	})
	if fault.Of(err) != fault.NotFound {
		return rec, err
	}
	if tomb, again := r.store.Get(ctx, id); again == nil && auth.SeesWorkspace(ctx, tomb.Tenant, id) {
		return tomb, nil
	}
	return Record{}, err
}

// moveToDestroyed moves a record to destroyed, from any state.
func (r *Record) moveToDestroyed() {
	if r.State != Closed {
		r.moveTo(Closed)
	}
	r.moveTo(Destroyed)
	r.Worker = ""
}

// removeDestroyed removes what belongs to a destroyed workspace, and then its
// record.
func (r *Registry) removeDestroyed(ctx context.Context, rec Record) error {
	if err := r.cancelOpen(ctx, rec.ID); err != nil {
		return err
	}
	later := false
	if err := r.removeFromProvider(ctx, rec); errors.Is(err, errLeaderSweeps) {
		later = true
	} else if err != nil {
		return fmt.Errorf("registry: destroy %s: the next sweep removes what is left: %w", rec.ID, err)
	}
	if r.opts.Removed != nil {
		if err := r.opts.Removed(ctx, rec.ID); err != nil {
			return fmt.Errorf("registry: destroy %s: the next sweep removes what is left: %w", rec.ID, err)
		}
	}
	if later {
		return nil // the leader deletes the record
	}
	err := r.store.Delete(ctx, rec.ID, rec.Version)
	if fault.Of(err) == fault.NotFound {
		return nil // a sweep was faster
	}
	return err
}

// removeFromProvider makes the provider remove the workspace: through a handle,
// through the ref or, if neither works, by sweeping.
func (r *Registry) removeFromProvider(ctx context.Context, rec Record) error {
	if e, ok := r.liveEntry(rec.ID); ok {
		_, err := r.endHandle(ctx, e, true) // its hold is deleted with the record
		return err
	}
	if rec.Ref == nil && rec.Attempts == 0 {
		return nil // nothing was ever made
	}
	p, err := r.mux.Provider(rec.Kind)
	if err != nil {
		return err
	}
	if rec.Ref != nil {
		d, err := r.callProvider(ctx, rec, "resolve", func(ctx context.Context) (*driver.Workspace, error) { return p.Resolve(ctx, *rec.Ref) })
		if err == nil {
			return d.Life.Destroy(ctx)
		}
	}
	mine, err := r.share(ctx)
	if err != nil {
		return err
	}
	if !mine.sweeps(rec.Kind) {
		return errLeaderSweeps
	}
	return r.sweepProviders(ctx, []driver.Provider{p})
}

// errLeaderSweeps means that the replica which sweeps for the cluster removes what is left of a
// workspace, and then its record: it alone knows all that exists, such as the pool's workspaces.
var errLeaderSweeps = errors.New("the leader of the cluster sweeps")

// Pause freezes the processes of a workspace until Resume. Frozen processes use no
// CPU and keep their memory. Handles on the workspace end, and with them the commands
// that are not detached.
func (r *Registry) Pause(ctx context.Context, id string) error {
	ctx, done, err := r.lockWorkspace(ctx, "pause", id)
	if err != nil {
		return err
	}
	defer done()
	rec, err := r.getRecord(ctx, id)
	if err != nil {
		return err
	}
	if err := rec.State.requireState("pause", Ready, Evicted); err != nil {
		return fmt.Errorf("registry: workspace %s: %w", rec.label(), err)
	}
	e, err := r.acquireEntry(ctx, id)
	if err != nil {
		return err
	}
	if err := e.ws.CanPause(); err != nil {
		return fmt.Errorf("registry: pause %s: %w", rec.label(), err)
	}
	// The handle is closed first: what ends with it can't be ended once it is frozen.
	e.pausing.Store(true)
	err = e.ws.DetachWith(ctx, pausedError(rec.label()))
	if err == nil {
		err = r.freeze(ctx, id)
	}
	if err != nil {
		err = fmt.Errorf("registry: pause %s: %w", rec.label(), err)
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	return errors.Join(err, r.retireEntry(ctx, e, false))
}

// freeze makes the provider freeze a workspace that has no handle, and stores that it is paused.
// After an error its processes run.
func (r *Registry) freeze(ctx context.Context, id string) error {
	rec, err := r.getRecord(ctx, id)
	if err != nil {
		return err
	}
	return r.withProvider(ctx, rec, func(d *driver.Workspace) error {
		err := d.Life.Pause(ctx)
		if err == nil {
			_, err = r.changeRecord(ctx, id, func(rec *Record) error {
				if err := rec.State.requireState("pause", Ready, Evicted); err != nil {
					return fmt.Errorf("registry: workspace %s: %w", rec.label(), err)
				}
				if rec.State == Evicted {
					rec.becomeReady()
				}
				rec.moveTo(Paused)
				return nil
			})
		}
		if err != nil && fault.Of(err) != fault.Unsupported {
			ctx, cancel := cleanupContext(ctx)
			defer cancel()
			if failure := d.Life.Resume(ctx); failure != nil {
				r.opts.Log.Warn("resume a workspace that could not be paused", "workspace", id, "error", failure)
			}
		}
		return err
	})
}

// Resume resumes a paused workspace.
func (r *Registry) Resume(ctx context.Context, id string) error {
	ctx, done, err := r.lockWorkspace(ctx, "resume", id)
	if err != nil {
		return err
	}
	defer done()
	rec, err := r.getRecord(ctx, id)
	if err != nil {
		return err
	}
	if err := rec.State.requireState("resume", Paused); err != nil {
		return fmt.Errorf("registry: workspace %s: %w", rec.label(), err)
	}
	if err := r.resumeProvider(ctx, rec); err != nil {
		return fmt.Errorf("registry: resume %s: %w", rec.label(), err)
	}
	_, err = r.changeRecord(ctx, id, func(rec *Record) error {
		if rec.State != Paused {
			return errUnchanged
		}
		rec.becomeReady()
		return nil
	})
	return err
}

// resumeProvider calls the provider's Resume.
func (r *Registry) resumeProvider(ctx context.Context, rec Record) error {
	return r.withProvider(ctx, rec, func(d *driver.Workspace) error { return d.Life.Resume(ctx) })
}

// withProvider calls f with a temporary handle on a workspace that can be paused.
func (r *Registry) withProvider(ctx context.Context, rec Record, f func(*driver.Workspace) error) error {
	d, _, unlock, err := r.openOrResolve(ctx, rec)
	defer unlock()
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := cleanupContext(ctx)
		defer cancel()
		if err := d.Life.Close(ctx); err != nil {
			r.opts.Log.Warn("close a workspace handle", "workspace", rec.ID, "error", err)
		}
	}()
	if d.Life.Pause == nil || d.Life.Resume == nil {
		return fmt.Errorf("%w: provider %s can't pause workspaces", fault.Unsupported, rec.Kind)
	}
	return f(d)
}
