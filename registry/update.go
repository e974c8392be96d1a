package registry

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// Update changes the policy of a workspace, and returns when the change is in
// force and durable. Idle and Persist are the registry's own; anything else is
// the provider's to change in place. The wish is stored first, so that a crash
// in the middle leaves one policy or the other, and never an old ref that still
// opens what was revoked.
func (r *Registry) Update(ctx context.Context, id string, policy workspace.Policy) (Record, error) {
	if err := checkPolicy(policy); err != nil {
		return Record{}, fmt.Errorf("registry: update %s: %w", id, err)
	}
	done, err := r.lockWorkspace(ctx, id)
	if err != nil {
		return Record{}, err
	}
	defer done()
	rec, err := r.get(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if err := rec.State.need("update", Intended, Opening, Ready, Evicted, Closed); err != nil {
		return Record{}, fmt.Errorf("registry: workspace %s: %w", id, err)
	}
	if sameForProvider(rec.Spec.Policy, policy) || rec.State == Intended && rec.Attempts == 0 {
		return r.adopt(ctx, rec, policy)
	}
	return r.update(ctx, id, policy)
}

// sameForProvider reports whether two policies differ at most in what the
// registry itself does.
func sameForProvider(a, b workspace.Policy) bool {
	a.Idle, a.Persist = b.Idle, b.Persist
	return a.Equal(b)
}

// adopt stores a policy that no provider needs to hear of now.
func (r *Registry) adopt(ctx context.Context, seen Record, policy workspace.Policy) (Record, error) {
	return r.change(ctx, seen.ID, func(rec *Record) error {
		if !sameForProvider(rec.Spec.Policy, policy) && (rec.State != Intended || rec.Attempts > 0) {
			return fmt.Errorf("registry: update %s: it was opened meanwhile: %w", seen.ID, fault.Conflict)
		}
		if rec.Pending != nil {
			return fmt.Errorf("registry: update %s: another change of policy is under way: %w", seen.ID, fault.Conflict)
		}
		rec.Spec.Policy = policy
		return nil
	})
}

func (r *Registry) update(ctx context.Context, id string, policy workspace.Policy) (Record, error) {
	e, err := r.acquire(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if err := r.wish(ctx, id, policy); err != nil {
		return Record{}, err
	}
	before := e.ws.Ref().Revision
	ref, err := e.ws.Update(ctx, policy)
	if err == nil && ref.Revision <= before {
		err = fmt.Errorf("%w: the provider returned revision %d after %d", fault.Failed, ref.Revision, before)
	}
	if err != nil {
		return Record{}, r.unwish(ctx, e, fmt.Errorf("registry: update %s: %w", id, err))
	}
	e.revision.Store(ref.Revision)
	// What the provider has done must be remembered, whether or not the caller
	// still waits.
	ctx, cancel := cleanup(ctx)
	defer cancel()
	return r.change(ctx, id, func(rec *Record) error {
		if rec.Ref != nil && rec.Ref.Revision > ref.Revision {
			return fmt.Errorf("registry: update %s: a newer policy is in force: %w", id, fault.Conflict)
		}
		rec.Spec.Policy, rec.Ref, rec.Pending, rec.Worker = policy, &ref, nil, ""
		return nil
	})
}

// wish stores the policy that is about to be made.
func (r *Registry) wish(ctx context.Context, id string, policy workspace.Policy) error {
	_, err := r.change(ctx, id, func(rec *Record) error {
		if err := rec.usable(); err != nil {
			return err
		}
		if busy, err := r.busyElsewhere(ctx, *rec); err != nil {
			return err
		} else if busy {
			return fmt.Errorf("registry: update %s: another change is under way: %w", id, fault.Conflict)
		}
		rec.Pending, rec.Worker = &policy, r.me.ID
		return nil
	})
	return err
}

// unwish ends a change of policy that went wrong. A refusal changed nothing.
// After any other error nobody knows which policy is in force, so the handle
// ends, and the wish stays for the next Acquire, which finds out.
func (r *Registry) unwish(ctx context.Context, e *entry, cause error) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	refused := false
	switch fault.Of(cause) {
	case fault.Unsupported, fault.InvalidArgument, fault.PermissionDenied:
		refused = true
	}
	_, err := r.change(ctx, e.id, func(rec *Record) error {
		if rec.Worker != r.me.ID {
			return errUnchanged
		}
		rec.Worker = ""
		if refused {
			rec.Pending = nil
		}
		return nil
	})
	if err == nil && !refused {
		err = r.retire(ctx, e, false)
	}
	if err != nil {
		r.opts.Log.Warn("take back a change of policy", "workspace", e.id, "error", err)
	}
	return cause
}
