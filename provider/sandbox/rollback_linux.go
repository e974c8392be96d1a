package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Files that are reached through the guest's mount are rolled back one by one, while the
// cgroup is frozen. A journal in the workspace directory names the snapshot. A process
// that connects to the guest and finds the journal unlocked completes the rollback first.

const rollbackName = "rollback" // the journal

// rollbackMounted rolls back files through the guest's mount.
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
	// From here on the rollback must complete, even if the context is cancelled.
	if err := h.writeTree(context.WithoutCancel(ctx), g, to.Tree, to.Paths); err != nil {
		journal.Release()
		return err
	}
	driver.Step(ctx, "written")
	return journal.End()
}

// completeRollback completes the rollback of a process that died. It requires the guest
// lock.
func (h *handle) completeRollback(ctx context.Context, g *guestConn) error {
	journal, err := snapshot.FindRollback(h.p.store.Path(h.id, rollbackName))
	if err != nil || journal == nil {
		return err
	}
	if h.p.cfg.Snapshots == nil {
		journal.Release()
		return fmt.Errorf("sandbox: complete an interrupted rollback to %s: %w: there is no snapshot store", journal.Target(), fault.Unsupported)
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
		return fmt.Errorf("sandbox: complete an interrupted rollback to %s: %w", journal.Target(), err)
	}
	h.p.log.Info("sandbox: an interrupted rollback was completed", "workspace", h.id, "snapshot", journal.Target())
	return journal.End()
}

// writeTree writes a tree through the guest's mount: exactly, except for a directory in
// place, whose files keep their owner.
func (h *handle) writeTree(ctx context.Context, g *guestConn, t snapshot.Tree, paths []string) error {
	if h.dir.State().Dir != "" {
		return snapshot.Write(ctx, t, g.files, &snapshot.WriteOptions{Only: paths, NoGit: true})
	}
	root, err := g.root.With(&files.Options{Sync: h.dir.State().Policy.Durable, Exact: true})
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written through the descriptor
	return snapshot.Write(ctx, t, g.asOwner(root.Module()), &snapshot.WriteOptions{Only: paths, Exact: true})
}
