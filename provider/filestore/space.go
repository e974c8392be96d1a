package filestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A space is an open workspace. It caches no state: every call reads the policy in
// its own transaction, so all handles in any process enforce the latest policy.
type space struct {
	p  *Provider
	s  *store
	id string

	// durable is the last known policy, to choose a connection before the policy is
	// read.
	durable atomic.Bool
}

// readRecord reads the row of a workspace, or nil.
func (t *tx) readRecord(id string) (*record, error) {
	r := &record{id: id}
	var policy string
	err := t.QueryRowContext(t.ctx, "SELECT namespace, revision, policy, boot, damaged, root, session, origin FROM workspace WHERE id = ?", id).
		Scan(&r.namespace, &r.revision, &policy, &r.boot, &r.damaged, &r.root, &r.session, &r.origin)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(policy), &r.policy); err != nil {
		return nil, fmt.Errorf("the policy of the workspace can't be read: %w", fault.Failed)
	}
	return r, nil
}

// createRecord inserts the row of a workspace and its root.
func (t *tx) createRecord(r *record) error {
	policy, err := encodePolicy(r.policy)
	if err != nil {
		return err
	}
	root := &node{typ: driver.TypeDir, mode: 0o755, mtime: time.Now().UnixNano()}
	if err := t.insertNode(r.id, 0, root); err != nil {
		return err
	}
	// The parent of a root is minus its id, so that names are unique per parent.
	if err := t.exec("UPDATE node SET parent = -id WHERE id = ?", root.id); err != nil {
		return err
	}
	r.root = root.id
	return t.exec("INSERT INTO workspace VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", r.id, r.namespace, r.revision, policy, r.boot, r.damaged, r.root, r.session, r.origin)
}

// applyPolicy brings the workspace to a policy, under a higher revision if the policy
// differs.
func (t *tx) applyPolicy(r *record, policy driver.Policy, boot string) error {
	was, err := encodePolicy(r.policy)
	if err != nil {
		return err
	}
	want, err := encodePolicy(policy)
	if err != nil || was == want {
		return err
	}
	return t.setPolicy(r, policy, boot)
}

// setPolicy stores a policy under the next revision, and clears the state of the old
// one.
func (t *tx) setPolicy(r *record, policy driver.Policy, boot string) error {
	text, err := encodePolicy(policy)
	if err != nil {
		return err
	}
	r.damaged, r.boot = r.mayBeDamaged(boot), boot
	r.revision++
	r.policy = policy
	return t.exec("UPDATE workspace SET revision = ?, policy = ?, boot = ?, damaged = ? WHERE id = ?", r.revision, text, r.boot, r.damaged, r.id)
}

// syncIfDurable fsyncs earlier writes when the policy becomes durable.
func (p *Provider) syncIfDurable(ctx context.Context, s *store, rec *record, was driver.Policy) error {
	if was.Durable || !rec.policy.Durable {
		return nil
	}
	return s.syncObjects(ctx, rec.id)
}

// updatePolicy changes the policy.
func (w *space) updatePolicy(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	if err := policy.Check(fixedTraits()); err != nil {
		return driver.Ref{}, fmt.Errorf("filestore: update: %w", err)
	}
	var rec *record
	var was driver.Policy
	// Always durable: a revoked permission must not return after power loss.
	err := w.s.change(ctx, true, func(t *tx) (err error) {
		if rec, err = t.readRecord(w.id); err != nil {
			return err
		}
		if rec == nil {
			return errEvicted
		}
		was = rec.policy
		return t.setPolicy(rec, policy, w.p.cfg.BootID)
	})
	if err != nil {
		return driver.Ref{}, opError("update", w.id, err)
	}
	driver.Step(ctx, "policy written")
	w.durable.Store(policy.Durable)
	if err := w.p.syncIfDurable(ctx, w.s, rec, was); err != nil {
		return driver.Ref{}, opError("update", w.id, err)
	}
	return w.newRef(rec)
}

// destroy removes the workspace.
func (w *space) destroy(ctx context.Context) error {
	if err := w.s.removeWorkspace(ctx, w.id); err != nil {
		return opError("destroy", w.id, err)
	}
	err := w.s.collectGarbage(ctx)
	w.s.tryVacuum(ctx)
	return opError("destroy", w.id, err)
}

// view runs f in a read transaction of the workspace's tree.
func (w *space) view(ctx context.Context, f func(t *tx, rec *record, root *node) error) error {
	return w.s.view(ctx, func(t *tx) error { return w.checkAndRun(t, f) })
}

// change runs f in a write transaction of the workspace's tree.
func (w *space) change(ctx context.Context, sync bool, f func(t *tx, rec *record, root *node) error) error {
	return w.changeBy(ctx, w.s.change, sync, f)
}

// changeBy is change through the given function of the store.
func (w *space) changeBy(ctx context.Context, by func(context.Context, bool, func(*tx) error) error, sync bool, f func(t *tx, rec *record, root *node) error) error {
	durable := sync || w.durable.Load()
	again := false
	err := by(ctx, durable, func(t *tx) error {
		return w.checkAndRun(t, func(t *tx, rec *record, root *node) error {
			if rec.policy.ReadOnly {
				return errReadOnly
			}
			if again = rec.policy.Durable && !durable; again {
				return errAgain
			}
			if err := f(t, rec, root); err != nil {
				return err
			}
			return t.checkDisk(rec)
		})
	})
	if again {
		w.durable.Store(true)
		return w.changeBy(ctx, by, true, f)
	}
	return err
}

// errAgain rolls back a transaction that began on the wrong connection.
var errAgain = errors.New("the policy became durable")

func (w *space) checkAndRun(t *tx, f func(t *tx, rec *record, root *node) error) error {
	rec, err := t.readRecord(w.id)
	if err != nil {
		return err
	}
	if rec == nil {
		return errEvicted
	}
	root := new(node)
	if err := root.scan(t.QueryRowContext(t.ctx, "SELECT "+nodeColumns+" FROM node WHERE id = ?", rec.root).Scan); err != nil {
		return err
	}
	return f(t, rec, root)
}

// checkDisk checks the size of the tree against the disk limit.
func (t *tx) checkDisk(rec *record) error {
	limit := rec.policy.Limits[driver.ResourceDisk].Max
	if limit == 0 {
		return nil
	}
	var used int64
	if err := t.QueryRowContext(t.ctx, "SELECT coalesce(sum(size), 0) FROM node WHERE ws = ?", rec.id).Scan(&used); err != nil {
		return err
	}
	if used > limit {
		return fmt.Errorf("%w: the workspace would hold %d bytes; its limit is %d", fault.ResourceExhausted, used, limit)
	}
	return nil
}
