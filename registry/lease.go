package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// startHeartbeat starts the heartbeat, once. It renews the lease until Shutdown.
func (r *Registry) startHeartbeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leased = true
	if r.heartbeatStarted || r.isDown {
		return
	}
	r.heartbeatStarted = true
	r.wg.Go(func() {
		ticker := time.NewTicker(r.opts.Lease / 3)
		defer ticker.Stop()
		for {
			select {
			case <-r.base.Done():
				return
			case <-ticker.C:
				if err := r.renewLease(r.base); err != nil && r.base.Err() == nil {
					r.opts.Log.Warn("renew the lease", "error", err)
				}
			}
		}
	})
}

// renewLease renews the lease, stores uses, and ends the handles on workspaces that
// other processes have changed.
func (r *Registry) renewLease(ctx context.Context) error {
	r.renewing.Lock()
	defer r.renewing.Unlock()
	if r.replica.serves() { // calls that need the lease wait for this one
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.opts.Lease/2)
		defer cancel()
	}
	return r.renewLeaseLocked(ctx)
}

// renewLeaseLocked requires r.renewing.
func (r *Registry) renewLeaseLocked(ctx context.Context) error {
	began := time.Now()
	if r.replica.serves() {
		if err := r.store.Renew(ctx, r.replica, r.opts.Lease); err != nil {
			return err
		}
	}
	uses := map[string]time.Time{}
	var entries []*entry
	r.live.Range(func(_, v any) bool {
		e := v.(*entry)
		uses[e.id] = e.lastUse()
		entries = append(entries, e)
		return true
	})
	r.mu.Lock()
	for id := range r.openCalls {
		if _, ok := uses[id]; !ok {
			uses[id] = time.Time{}
		}
	}
	r.mu.Unlock()
	recs, err := r.store.Beat(ctx, r.self, r.opts.Lease, uses)
	if err != nil {
		return err
	}
	for _, e := range entries {
		rec, ok := recs[e.id]
		destroyed := !ok || rec.State == Destroyed
		moved := ok && rec.Node != r.replica.Node
		if !destroyed && !moved && e.matchesRecord(rec) {
			continue
		}
		if moved {
			e.used.Store(retired) // at once: another node owns the workspace
			destroyed = false
		}
		// Running calls may take long; the heartbeat must not wait for them.
		r.wg.Go(func() {
			ctx, cancel := cleanupContext(r.base)
			defer cancel()
			if err := r.retireEntry(ctx, e, destroyed); err != nil {
				r.opts.Log.Warn("close a workspace handle", "workspace", e.id, "error", err)
			}
		})
	}
	r.setLease(began)
	return nil
}

// matchesRecord reports whether a handle still matches its record.
func (e *entry) matchesRecord(rec Record) bool {
	switch rec.State {
	case Ready, Evicted:
		return e.failed.Load() == nil && rec.Ref != nil && rec.Ref.Revision <= e.revision.Load()
	case Failed:
		return e.failed.Load() != nil && !rec.isOutage() // after an outage a new handle is made
	}
	return false
}

// Run does the background work of a registry until ctx ends: it sweeps leftovers,
// at the start and after interrupted removals, marks workspaces that ended with a
// dead process as failed, and expires idle workspaces. A long-running program calls
// it once.
func (r *Registry) Run(ctx context.Context) error {
	if err := r.adoptUnassigned(ctx); err != nil && ctx.Err() == nil {
		r.opts.Log.Warn("adopt workspaces", "error", err)
	}
	if err := r.Sweep(ctx); err != nil && ctx.Err() == nil {
		r.opts.Log.Warn("sweep", "error", err)
	}
	ticker := time.NewTicker(r.opts.ExpireEvery)
	defer ticker.Stop()
	ends := time.NewTicker(min(time.Second, r.opts.ExpireEvery))
	defer ends.Stop()
	looking, led := true, r.Leads()
	for n := 1; ; {
		if looking {
			var err error
			if looking, err = r.markVanished(ctx); err != nil && ctx.Err() == nil {
				r.opts.Log.Warn("check for vanished workspaces", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ends.C:
			if _, err := r.EndDue(ctx); err != nil && ctx.Err() == nil {
				r.opts.Log.Warn("end workspaces", "error", err)
			}
			continue
		case <-ticker.C:
		}
		if _, err := r.Expire(ctx); err != nil && ctx.Err() == nil {
			r.opts.Log.Warn("expire", "error", err)
		}
		if lead := r.Leads(); lead != led {
			if led = lead; led {
				// The leader before may have left things that no other node has swept.
				if err := r.Sweep(ctx); err != nil && ctx.Err() == nil {
					r.opts.Log.Warn("sweep", "error", err)
				}
			}
		}
		if n++; n%sweepEvery != 0 {
			continue
		}
		if err := r.sweepDestroyed(ctx); err != nil && ctx.Err() == nil {
			r.opts.Log.Warn("sweep", "error", err)
		}
	}
}

// sweepEvery is the number of ticks of Run between checks for interrupted removals.
const sweepEvery = 12

// Shutdown ends every live handle and the background work. It cancels running
// Acquire calls. The store stays open. Shutdown is idempotent.
func (r *Registry) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.isDown = true
	for _, f := range r.openCalls {
		f.cancel()
	}
	r.mu.Unlock()
	r.end()
	if err := r.waitBackground(ctx); err != nil {
		return err
	}
	uses, err := r.endAllHandles(ctx)
	r.endLease(ctx, uses)
	return err
}

// endLeaseTimeout bounds the time for ending the lease.
const endLeaseTimeout = 5 * time.Second

// endLease ends the lease in the store, best effort: otherwise it runs out. A
// registry that held nothing has no lease.
func (r *Registry) endLease(ctx context.Context, uses map[string]time.Time) {
	r.mu.Lock()
	had := r.leased
	r.leased = false
	r.mu.Unlock()
	if !had {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endLeaseTimeout)
	defer cancel()
	var err error
	if len(uses) > 0 {
		err = r.store.Release(ctx, r.self.ID, uses)
	}
	if err == nil {
		err = r.store.Leave(ctx, r.self.ID)
	}
	if err == nil && r.replica.serves() {
		err = r.store.Part(ctx, r.replica)
	}
	if err != nil {
		r.opts.Log.Warn("end the lease", "error", err)
	}
}

// endAllHandles ends all handles, many at a time, and returns their last uses.
func (r *Registry) endAllHandles(ctx context.Context) (map[string]time.Time, error) {
	var mu sync.Mutex
	var errs []error
	uses := map[string]time.Time{}
	var group errgroup.Group
	group.SetLimit(64)
	r.live.Range(func(_, v any) bool {
		group.Go(func() error {
			e := v.(*entry)
			used, err := r.endHandle(ctx, e, false)
			mu.Lock()
			defer mu.Unlock()
			uses[e.id], errs = used, append(errs, err)
			return nil
		})
		return true
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return uses, errors.Join(errs...)
}

func (r *Registry) waitBackground(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the background work
		r.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("registry: shut down: %w: background work is still running", ctx.Err())
	}
}
