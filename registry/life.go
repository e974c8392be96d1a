package registry

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Reset lets a failed workspace be tried again, by the next Acquire. One that
// was ready once is attached to again; its files are never made anew.
func (r *Registry) Reset(ctx context.Context, id string) (Record, error) {
	done, err := r.lockWorkspace(ctx, id)
	if err != nil {
		return Record{}, err
	}
	defer done()
	rec, err := r.change(ctx, id, func(rec *Record) error {
		if err := rec.State.need("reset", Failed); err != nil {
			return fmt.Errorf("registry: workspace %s: %w", id, err)
		}
		if rec.Ref == nil {
			rec.to(Intended) // Attempts stay: they tell that there may be something to remove
		} else {
			rec.to(Evicted)
		}
		rec.Error = nil
		return nil
	})
	if err != nil {
		return Record{}, err
	}
	return rec, r.retireID(ctx, id)
}

// Close lets go of a workspace in every process; it lives on, and Acquire opens
// it again. Handles in other processes end with their next heartbeat. A
// workspace that is failed stays so.
func (r *Registry) Close(ctx context.Context, id string) error {
	done, err := r.lockWorkspace(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	_, err = r.change(ctx, id, func(rec *Record) error {
		if rec.State == Closed || rec.State == Failed {
			return errUnchanged
		}
		rec.to(Closed)
		rec.Worker = ""
		return nil
	})
	if err != nil {
		return err
	}
	return r.retireID(ctx, id)
}

// Destroy ends a workspace and removes all that belongs to it; a directory that
// was given in place stays. The workspace is gone for everyone when Destroy has
// stored that, before it removes anything: an error then means that something
// is left, which a repeated Destroy or the next sweep removes.
func (r *Registry) Destroy(ctx context.Context, id string) error {
	done, err := r.lockWorkspace(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	rec, err := r.entomb(ctx, id)
	if err != nil {
		return err
	}
	return r.remove(ctx, rec)
}

// entomb records that a workspace is destroyed. One that is entombed already is
// returned as it is, so that its removal can go on.
func (r *Registry) entomb(ctx context.Context, id string) (Record, error) {
	rec, err := r.change(ctx, id, func(rec *Record) error {
		if _, err := r.mux.Provider(rec.Kind); err != nil {
			return fmt.Errorf("registry: destroy %s: %w", id, err)
		}
		rec.bury()
		return nil
	})
	if fault.Of(err) != fault.NotFound {
		return rec, err
	}
	if tomb, again := r.store.Get(ctx, id); again == nil {
		return tomb, nil
	}
	return Record{}, err
}

// bury moves a record to destroyed, wherever it is.
func (r *Record) bury() {
	if r.State != Closed {
		r.to(Closed)
	}
	r.to(Destroyed)
	r.Worker = ""
}

// remove removes what belongs to an entombed workspace, and then its record.
func (r *Registry) remove(ctx context.Context, rec Record) error {
	if err := r.ground(ctx, rec.ID); err != nil {
		return err
	}
	if err := r.unmake(ctx, rec); err != nil {
		return fmt.Errorf("registry: destroy %s: the next sweep removes what is left: %w", rec.ID, err)
	}
	err := r.store.Delete(ctx, rec.ID, rec.Version)
	if fault.Of(err) == fault.NotFound {
		return nil // a sweep was faster
	}
	return err
}

// unmake has the provider remove what it made: through a handle, through the
// ref, or, where there is none that works, by sweeping.
func (r *Registry) unmake(ctx context.Context, rec Record) error {
	if e, ok := r.entry(rec.ID); ok {
		return r.retire(ctx, e, true)
	}
	if rec.Ref == nil && rec.Attempts == 0 {
		return nil // nothing was ever made
	}
	p, err := r.mux.Provider(rec.Kind)
	if err != nil {
		return err
	}
	if rec.Ref != nil {
		d, err := r.guard(ctx, rec, "resolve", func(ctx context.Context) (*driver.Workspace, error) { return p.Resolve(ctx, *rec.Ref) })
		if err == nil {
			return d.Life.Destroy(ctx)
		}
	}
	return r.sweep(ctx, []driver.Provider{p})
}

// Pause stops the processes of a workspace and frees what they hold, until
// Resume. Handles on it end.
func (r *Registry) Pause(ctx context.Context, id string) error {
	done, err := r.lockWorkspace(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	rec, err := r.get(ctx, id)
	if err != nil {
		return err
	}
	if err := rec.State.need("pause", Ready, Evicted); err != nil {
		return fmt.Errorf("registry: workspace %s: %w", id, err)
	}
	e, err := r.acquire(ctx, id)
	if err != nil {
		return err
	}
	if err := e.ws.Pause(ctx); err != nil {
		return fmt.Errorf("registry: pause %s: %w", id, err)
	}
	_, err = r.change(ctx, id, func(rec *Record) error {
		if err := rec.State.need("pause", Ready); err != nil {
			return fmt.Errorf("registry: workspace %s: %w", id, err)
		}
		rec.to(Paused)
		return nil
	})
	if err != nil {
		return err
	}
	return r.retire(ctx, e, false)
}

// Resume lets a paused workspace go on.
func (r *Registry) Resume(ctx context.Context, id string) error {
	done, err := r.lockWorkspace(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	rec, err := r.get(ctx, id)
	if err != nil {
		return err
	}
	if err := rec.State.need("resume", Paused); err != nil {
		return fmt.Errorf("registry: workspace %s: %w", id, err)
	}
	if err := r.resume(ctx, rec); err != nil {
		return fmt.Errorf("registry: resume %s: %w", id, err)
	}
	_, err = r.change(ctx, id, func(rec *Record) error {
		if rec.State != Paused {
			return errUnchanged
		}
		rec.becomeReady()
		return nil
	})
	return err
}

// resume has the provider resume, through a handle that lasts no longer.
func (r *Registry) resume(ctx context.Context, rec Record) error {
	d, _, unlock, err := r.reach(ctx, rec)
	defer unlock()
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		if err := d.Life.Close(ctx); err != nil {
			r.opts.Log.Warn("let go of a workspace", "workspace", rec.ID, "error", err)
		}
	}()
	if d.Life.Resume == nil {
		return fmt.Errorf("%w: provider %s has no resume", fault.Unsupported, rec.Kind)
	}
	return d.Life.Resume(ctx)
}
