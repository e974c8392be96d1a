package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/croft-run/croft/fault"
)

const (
	// lockTime bounds the wait for another change of the same workspace.
	lockTime = 15 * time.Second
	// destroyTime is how long Destroy waits for a change that it has cancelled. A provider that
	// ignores its context does not keep a workspace from being destroyed.
	destroyTime = 5 * time.Second
)

const destroyVerb = "destroy"

// A change is one that holds the lock of a workspace.
type change struct {
	verb   string
	since  time.Time
	cancel context.CancelCauseFunc
}

// lockWorkspace takes the keyed mutex of a workspace, which serialises its changes
// in this process, and claims the workspace for this node. Using a workspace needs no lock.
// The change uses the returned context, which Destroy cancels.
func (r *Registry) lockWorkspace(ctx context.Context, verb, id string) (_ context.Context, unlock func(), err error) {
	wait, cancel := context.WithTimeout(ctx, lockTime)
	release, err := r.changes.Lock(wait, id)
	cancel()
	if err != nil {
		return nil, nil, r.lockError(ctx, verb, id, err)
	}
	if err := r.claimID(ctx, id); err != nil {
		release()
		return nil, nil, err
	}
	ctx, unlock = r.startChange(ctx, verb, id, release)
	return ctx, unlock, nil
}

func (r *Registry) startChange(ctx context.Context, verb, id string, release func()) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &change{verb: verb, since: time.Now(), cancel: cancel}
	r.mu.Lock()
	r.changing[id] = c
	r.mu.Unlock()
	return ctx, func() {
		r.mu.Lock()
		if r.changing[id] == c {
			delete(r.changing, id)
		}
		r.mu.Unlock()
		cancel(nil)
		release()
	}
}

func (r *Registry) changeOf(id string) (change, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.changing[id]; c != nil {
		return *c, true
	}
	return change{}, false
}

// lockError says which change the caller waited for.
func (r *Registry) lockError(ctx context.Context, verb, id string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("registry: %s: wait for another change of workspace %s: %w: %w", verb, id, ctx.Err(), err)
	}
	other := "another change"
	if c, ok := r.changeOf(id); ok {
		other = fmt.Sprintf("%s, begun %v ago,", c.verb, time.Since(c.since).Round(time.Second))
	}
	return fmt.Errorf("registry: %s workspace %s: %w: %s has not ended after %v; try again later, or destroy the workspace",
		verb, id, fault.Unavailable, other, lockTime)
}

// lockToDestroy is lockWorkspace for the end of a workspace: it cancels the change that holds the
// lock. If that does not end in time, the workspace is destroyed beside it, as another process
// could; then the context ends soon, because the provider may hang again.
func (r *Registry) lockToDestroy(ctx context.Context, id string) (_ context.Context, unlock func(), err error) {
	c, ok := r.changeOf(id)
	if ok && c.verb == destroyVerb {
		return r.lockWorkspace(ctx, destroyVerb, id)
	}
	if ok {
		c.cancel(destroyedError(id))
	}
	wait, cancel := context.WithTimeout(ctx, destroyTime)
	release, err := r.changes.Lock(wait, id)
	cancel()
	switch {
	case err == nil:
	case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
		return nil, nil, r.lockError(ctx, destroyVerb, id, err)
	default:
		if c, ok := r.changeOf(id); ok {
			r.opts.Log.Error("a change of a workspace hangs and does not heed its context; the workspace is destroyed meanwhile",
				"workspace", id, "change", c.verb, "since", c.since)
		}
		ctx, cancel = context.WithTimeout(ctx, destroyTime)
		if err := r.claimID(ctx, id); err != nil {
			cancel()
			return nil, nil, err
		}
		return ctx, cancel, nil
	}
	if err := r.claimID(ctx, id); err != nil {
		release()
		return nil, nil, err
	}
	ctx, unlock = r.startChange(ctx, destroyVerb, id, release)
	return ctx, unlock, nil
}

// A Stall is background work of a registry that exceeded its time limit, and did not succeed since.
type Stall struct {
	Task      string    // one of Tasks
	Workspace string    // the one that is worked on; "" if the whole task stalls
	Since     time.Time // when the first attempt began
}

// Tasks lists the tasks of a registry: ending workspaces whose time is over, expiring idle ones,
// sweeping, looking for vanished ones, adopting those without a node, and renewing the lease.
func Tasks() []string { return []string{"end", "expire", "sweep", "look", "adopt", "lease"} }

// Stalls lists the background work that stalls. A stall on a workspace does not delay the work on
// other ones; a task that stalls as a whole does nothing.
func (r *Registry) Stalls() []Stall {
	var out []Stall
	for _, s := range r.background.Stalls() {
		out = append(out, Stall(s))
	}
	return out
}
