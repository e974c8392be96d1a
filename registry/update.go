package registry

import (
	"context"
	"fmt"
	"maps"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// Update changes the policy of a workspace, and returns when the change is in force
// and durable. Idle and Persist are the registry's own; the provider changes
// anything else in place. The new policy is stored as pending first, so that a
// crash leaves one policy or the other, and never an old ref that still opens what
// was revoked.
func (r *Registry) Update(ctx context.Context, id string, policy workspace.Policy) (Record, error) {
	if err := checkPolicy(policy); err != nil {
		return Record{}, fmt.Errorf("registry: update %s: %w", id, err)
	}
	ctx, done, err := r.lockWorkspace(ctx, "update", id)
	if err != nil {
		return Record{}, err
	}
	defer done()
	rec, err := r.getRecord(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if err := rec.State.requireState("update", Intended, Opening, Ready, Evicted, Closed); err != nil {
		return Record{}, fmt.Errorf("registry: workspace %s: %w", id, err)
	}
	if !maps.Equal(rec.Spec.Policy.Limits, policy.Limits) {
		unlock, err := r.lockQuota(ctx, rec.Tenant, rec.ID, policy)
		if err != nil {
			return Record{}, err
		}
		defer unlock()
	}
	if sameForProvider(rec.Spec.Policy, policy) || rec.State == Intended && rec.Attempts == 0 {
		return r.storePolicy(ctx, rec, policy)
	}
	return r.updatePolicy(ctx, id, policy)
}

// sameForProvider reports whether two policies differ at most in the registry's own
// fields.
func sameForProvider(a, b workspace.Policy) bool {
	a.Idle, a.Persist = b.Idle, b.Persist
	return a.Equal(b)
}

// storePolicy stores a policy that needs no change by the provider now.
func (r *Registry) storePolicy(ctx context.Context, seen Record, policy workspace.Policy) (Record, error) {
	return r.changeRecord(ctx, seen.ID, func(rec *Record) error {
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

func (r *Registry) updatePolicy(ctx context.Context, id string, policy workspace.Policy) (Record, error) {
	e, err := r.acquireEntry(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if err := r.storePending(ctx, id, policy); err != nil {
		return Record{}, err
	}
	before := e.ws.Ref()
	ref, err := e.ws.Update(ctx, policy)
	if err == nil {
		err = r.checkRef(before.Provider, ref)
	}
	if err == nil && ref.Revision <= before.Revision {
		err = fmt.Errorf("%w: the provider returned revision %d after %d", fault.Failed, ref.Revision, before.Revision)
	}
	if err != nil {
		return Record{}, r.abortUpdate(ctx, e, fmt.Errorf("registry: update %s: %w", id, err))
	}
	e.revision.Store(ref.Revision)
	// The provider's change must be stored even if the caller's context has ended.
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	return r.changeRecord(ctx, id, func(rec *Record) error {
		if rec.Ref != nil && rec.Ref.Revision > ref.Revision {
			return fmt.Errorf("registry: update %s: a newer policy is in force: %w", id, fault.Conflict)
		}
		rec.Spec.Policy, rec.Ref, rec.Pending, rec.Worker = policy, &ref, nil, ""
		return nil
	})
}

// storePending stores the policy as pending before the provider changes it.
func (r *Registry) storePending(ctx context.Context, id string, policy workspace.Policy) error {
	_, err := r.changeRecord(ctx, id, func(rec *Record) error {
		if err := rec.checkUsable(); err != nil {
			return err
		}
		if busy, err := r.busyElsewhere(ctx, *rec); err != nil {
			return err
		} else if busy {
			return fmt.Errorf("registry: update %s: another change is under way: %w", id, fault.Conflict)
		}
		rec.Pending, rec.Worker = &policy, r.self.ID
		return nil
	})
	return err
}

// abortUpdate ends a failed change of policy. A refusal changed nothing. After any
// other error it is unknown which policy is in force: the handle ends, and the
// pending policy stays for the next Acquire, which finds out.
func (r *Registry) abortUpdate(ctx context.Context, e *entry, cause error) error {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	refused := false
	switch fault.Of(cause) {
	case fault.Unsupported, fault.InvalidArgument, fault.PermissionDenied:
		refused = true
	}
	_, err := r.changeRecord(ctx, e.id, func(rec *Record) error {
		if rec.Worker != r.self.ID {
			return errUnchanged
		}
		rec.Worker = ""
		if refused {
			rec.Pending = nil
		}
		return nil
	})
	if err == nil && !refused {
		err = r.retireEntry(ctx, e, false)
	}
	if err != nil {
		r.opts.Log.Warn("abort a change of policy", "workspace", e.id, "error", err)
	}
	return cause
}
