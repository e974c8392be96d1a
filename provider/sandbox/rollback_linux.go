package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Files that a mount shows are rolled back through it, one after another, while
// all that runs there stands still. A journal in the directory of the workspace
// has the snapshot: the process that next meets the guest, and finds the journal
// unlocked, completes the rollback before anything else.

const rollbackName = "rollback" // the journal

// rollbackMounted brings files that a mount shows to another state.
func (h *handle) rollbackMounted(ctx context.Context, to *snapshot.RollbackTarget) error {
	g, err := h.att.Guest(ctx)
	if err != nil {
		return err
	}
	journal, err := snapshot.BeginRollback(h.p.store.Path(h.id, rollbackName), to)
	if err != nil {
		return fmt.Errorf("sandbox: roll back: %w", err)
	}
	driver.Step(ctx, "journal")
	_, done, err := h.acquireFreeze(ctx)
	if err != nil {
		return errors.Join(err, journal.End())
	}
	if done != nil {
		defer done()
	}
	// From here on there is no way back, whatever the context says.
	if err := h.writeTree(context.WithoutCancel(ctx), g, to.Tree, to.Paths); err != nil {
		journal.Release()
		return err
	}
	driver.Step(ctx, "written")
	return journal.End()
}

// completeRollback completes the rollback of a process that died. The lock of the
// guest is held.
func (h *handle) completeRollback(ctx context.Context, g *guestConn) error {
	journal, err := snapshot.FindRollback(h.p.store.Path(h.id, rollbackName))
	if err != nil || journal == nil {
		return err
	}
	tree, err := journal.Tree(ctx, h.p.cfg.Snapshots)
	var s freezeRef
	if err == nil {
		s, err = h.acquireFreezeLocked(ctx)
	}
	if err == nil {
		err = h.writeTree(ctx, g, tree, nil)
		h.unfreezeLocked(ctx, s)
	}
	if err != nil {
		journal.Release()
		return fmt.Errorf("sandbox: complete a rollback to %s that was cut short: %w", journal.Target(), err)
	}
	h.p.log.Info("sandbox: a rollback that was cut short is complete", "workspace", h.id, "snapshot", journal.Target())
	return journal.End()
}

// writeTree brings what a mount shows to what is in a tree: exactly, but for a directory
// in place, whose owner is the user.
func (h *handle) writeTree(ctx context.Context, g *guestConn, t snapshot.Tree, paths []string) error {
	if h.dir.State().Dir != "" {
		return snapshot.Write(ctx, t, g.files, &snapshot.WriteOptions{Only: paths})
	}
	root, err := g.root.With(&files.Options{Sync: h.dir.State().Policy.Durable, Exact: true})
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written through the descriptor
	return snapshot.Write(ctx, t, g.asOwner(root.Module()), &snapshot.WriteOptions{Only: paths, Exact: true})
}
