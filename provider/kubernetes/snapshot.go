package kubernetes

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// SetSnapshots sets the store of snapshots. It must be called before a workspace is opened.
func (p *Provider) SetSnapshots(store *snapshot.Store) { p.cfg.Snapshots = store }

var _ snapshot.Configurable = (*Provider)(nil)

// writeOrigin writes the files that a new workspace starts with, through its guest.
func (p *Provider) writeOrigin(ctx context.Context, st *state, from snapshot.Tree, f *proof) error {
	writable := *st
	writable.Policy.ReadOnly = false
	l, err := p.newLaunch(&writable, f.Level)
	if err != nil {
		return err
	}
	c, err := p.connectGuest(ctx, l)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing is lost with it
	return snapshot.Write(ctx, from, c.Files(), nil)
}

// snapshotAdapter returns the snapshot adapter of the workspace.
func (h *handle) snapshotAdapter(st *state) *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: h.p.cfg.Snapshots, Provider: Kind, Workspace: st.ID, Session: st.Session, Origin: st.Options.From,
		Now: func(ctx context.Context) (snapshot.View, error) {
			files, err := h.files(ctx)
			if err != nil {
				return snapshot.View{}, err
			}
			return snapshot.View{Tree: snapshot.Files(files)}, nil // not frozen: a pod can't be paused
		},
		Rollback: h.rollbackTo,
	}
}

// rollback is the journal of a rollback, in the state.
type rollback struct {
	Target string `json:"target"`
	Before string `json:"before"` // used if the target was deleted
}

// rollbackTo rolls the files back one by one, with a journal in the state. The next process
// that connects to the guest completes an interrupted rollback.
func (h *handle) rollbackTo(ctx context.Context, to *snapshot.RollbackTarget) error {
	c, err := h.guest(ctx)
	if err != nil {
		return err
	}
	_, err = h.p.changeState(ctx, h.id, func(st *state) error {
		switch {
		case st.Policy.ReadOnly:
			return fmt.Errorf("kubernetes: roll back: %w: the workspace is read-only", fault.PermissionDenied)
		case st.Rollback != nil:
			return fmt.Errorf("kubernetes: roll back: %w: another rollback is under way", fault.Conflict)
		}
		st.Rollback = &rollback{Target: to.Target, Before: to.Before}
		return nil
	})
	if err != nil {
		return err
	}
	// From here on the rollback must complete, even if the context is cancelled.
	whole := context.WithoutCancel(ctx)
	if err := snapshot.Write(whole, to.Tree, c.Files(), &snapshot.WriteOptions{Only: to.Paths}); err != nil {
		return err
	}
	driver.Step(ctx, "written")
	return h.p.endRollback(whole, h.id)
}

func (p *Provider) endRollback(ctx context.Context, id string) error {
	_, err := p.changeState(ctx, id, func(st *state) error {
		st.Rollback = nil
		return nil
	})
	return err
}

// completeRollback completes a rollback that was interrupted by the death of its process or of
// the guest. A rollback that is under way in another process is completed twice, with the same
// result.
func (p *Provider) completeRollback(ctx context.Context, st *state, c *guest.Client) error {
	if st.Rollback == nil || st.Policy.ReadOnly {
		return nil
	}
	if p.cfg.Snapshots == nil {
		return fmt.Errorf("kubernetes: complete an interrupted rollback to %s: %w: there is no snapshot store", st.Rollback.Target, fault.Unsupported)
	}
	tree, _, err := p.cfg.Snapshots.Whole(ctx, st.Rollback.Target)
	if fault.Of(err) == fault.NotFound {
		tree, _, err = p.cfg.Snapshots.Whole(ctx, st.Rollback.Before)
	}
	if err == nil {
		err = snapshot.Write(ctx, tree, c.Files(), nil)
	}
	if err == nil {
		err = p.endRollback(ctx, st.ID)
	}
	if err != nil {
		return fmt.Errorf("kubernetes: complete an interrupted rollback to %s: %w", st.Rollback.Target, err)
	}
	p.cfg.Log.Info("kubernetes: an interrupted rollback was completed", "workspace", st.ID, "snapshot", st.Rollback.Target)
	return nil
}
