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
				r.background.Do(r.base, "lease", r.opts.Lease, r.logged("renew the lease", r.renewLease)) //nolint:errcheck // it is logged
			}
		}
	})
}

// renewLease renews the lease, stores uses, and ends the handles on workspaces that
// other processes have changed.
func (r *Registry) renewLease(ctx context.Context) error {
	r.renewing.Lock()
	defer r.renewing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.opts.Lease/2) // calls that need the lease wait for this one
	defer cancel()
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
// dead process as failed, ends those whose time is over, and expires idle ones. Each of
// these tasks runs by itself and works on its workspaces independently, so that a workspace
// that hangs stops nothing else; Stalls lists it. A long-running program calls Run once.
func (r *Registry) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	every := func(interval time.Duration, task, what string, f func(context.Context) error) {
		loops.Go(func() {
			ticker := time.NewTicker(interval)
			defer ticker.Stop()
			for ctx.Err() == nil {
				r.background.Do(ctx, task, taskTime, r.logged(what, f)) //nolint:errcheck // it is logged
				select {
				case <-ctx.Done():
				case <-ticker.C:
				}
			}
		})
	}
	every(min(time.Second, r.opts.ExpireEvery), "end", "end workspaces", func(ctx context.Context) error {
		_, err := r.EndDue(ctx)
		return err
	})
	every(r.opts.ExpireEvery, "expire", "expire", func(ctx context.Context) error {
		_, err := r.Expire(ctx)
		return err
	})
	looking := true
	every(r.opts.ExpireEvery, "look", "check for vanished workspaces", func(ctx context.Context) (err error) {
		if looking {
			looking, err = r.markVanished(ctx)
		}
		return err
	})
	loops.Go(func() { r.sweepPeriodically(ctx) })
	<-ctx.Done()
	// A provider that does not heed its context keeps its goroutine, and not the program.
	return waitGroup(context.WithoutCancel(ctx), &loops)
}

const (
	// taskTime limits a round of a task, which waits for no workspace that hangs.
	taskTime = 5 * time.Minute
	// sweepTaskTime limits a round of sweeping, all providers together.
	sweepTaskTime = 10 * time.Minute
	// shutdownTime bounds the wait for background work whose context has ended.
	shutdownTime = 5 * time.Second
)

// logged returns f with its error logged.
func (r *Registry) logged(what string, f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := f(ctx)
		if err != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
			r.opts.Log.Warn(what, "error", err)
		}
		return err
	}
}

// sweepPeriodically sweeps at the start, when this replica becomes the leader, and after
// interrupted removals.
func (r *Registry) sweepPeriodically(ctx context.Context) {
	do := func(task, what string, limit time.Duration, f func(context.Context) error) error {
		return r.background.Do(ctx, task, limit, r.logged(what, f))
	}
	do("adopt", "adopt workspaces", taskTime, r.adoptUnassigned) //nolint:errcheck // it is logged
	due := do("sweep", "sweep", sweepTaskTime, r.Sweep) != nil
	ticker := time.NewTicker(r.opts.ExpireEvery)
	defer ticker.Stop()
	led := r.Leads()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := n%sweepEvery == 0
		if lead := r.Leads(); lead != led {
			if led = lead; led { // the leader before may have left things that no other node has swept
				due, now = true, true
			}
		}
		switch {
		case now && due:
			due = do("sweep", "sweep", sweepTaskTime, r.Sweep) != nil
		case now:
			do("sweep", "sweep", sweepTaskTime, r.sweepDestroyed) //nolint:errcheck // the next round sees it
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
	err := r.waitBackground(ctx)
	uses, failure := r.endAllHandles(ctx)
	r.endLease(ctx, uses)
	return errors.Join(err, failure)
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
			used, err := r.endHandleInTime(ctx, e)
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

// endHandleInTime is endHandle for a provider that may not heed its context.
func (r *Registry) endHandleInTime(ctx context.Context, e *entry) (time.Time, error) {
	type result struct {
		used time.Time
		err  error
	}
	ended := make(chan result, 1)
	go func() { // ends with the handle
		used, err := r.endHandle(ctx, e, false)
		ended <- result{used, err}
	}()
	select {
	case res := <-ended:
		return res.used, res.err
	case <-ctx.Done():
	}
	select {
	case res := <-ended:
		return res.used, res.err
	case <-time.After(shutdownTime):
		return time.Time{}, fmt.Errorf("registry: close the handle of workspace %s: %w", e.id, ctx.Err())
	}
}

// waitBackground waits for background work, but not for a provider that hangs.
func (r *Registry) waitBackground(ctx context.Context) error {
	err := waitGroup(ctx, &r.wg)
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	if failure := r.background.Wait(ctx); failure != nil {
		err = errors.Join(err, failure)
	}
	if err != nil {
		return fmt.Errorf("registry: shut down: %w: background work is still running", err)
	}
	return nil
}

// waitGroup waits for a group whose context has ended, for shutdownTime at most.
func waitGroup(ctx context.Context, wg *sync.WaitGroup) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	done := make(chan struct{})
	go func() { // ends with the group
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
