package registry

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/workspace/driver"
)

// reattach resolves the ref again after a module of the handle returned Evicted.
// Package workspace calls it once for all calls that met the same eviction, and
// repeats each of them once.
func (r *Registry) reattach(ctx context.Context, e *entry) (*driver.Workspace, error) {
	if failure := e.failed.Load(); failure != nil {
		return nil, *failure
	}
	rec, err := r.getRecord(ctx, e.id)
	if err == nil {
		_, err = r.claim(ctx, rec)
	}
	if err != nil {
		return nil, fmt.Errorf("registry: workspace %s was evicted: %w", e.id, err)
	}
	rec, err = r.changeRecord(ctx, e.id, func(rec *Record) error {
		if err := rec.checkUsable(); err != nil {
			return err
		}
		if rec.State != Ready {
			return errUnchanged
		}
		rec.moveTo(Evicted)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("registry: workspace %s was evicted: %w", e.id, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.OpenTimeout)
	defer cancel()
	d, settled, err := r.claimAndOpen(ctx, rec)
	if err != nil {
		if ctx.Err() == nil {
			r.markFailed(ctx, e)
		}
		return nil, err
	}
	e.mu.Lock()
	e.stale = append(e.stale, e.current)
	e.current = d
	e.mu.Unlock()
	e.revision.Store(settled.Ref.Revision)
	return d, nil
}

// markFailed makes a handle fail fast if its record is failed. The handle can't end
// here: the call that found the eviction still uses it.
func (r *Registry) markFailed(ctx context.Context, e *entry) {
	rec, err := r.getRecord(ctx, e.id)
	if err == nil && rec.State == Failed {
		failure := rec.failure()
		e.failed.Store(&failure)
	}
}
