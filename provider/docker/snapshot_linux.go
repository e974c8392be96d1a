package docker

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// findOrigin finds the snapshot that a new workspace starts from. It returns nil for one that starts
// empty, and for one that exists, even if the snapshot was deleted.
func (p *Provider) findOrigin(ctx context.Context, spec driver.Spec) (snapshot.Tree, error) {
	if spec.From.Snapshot == "" {
		return nil, nil
	}
	if m, err := p.store.Read(spec.ID); err == nil {
		if was, err := optionsOf(m); err == nil && was.From == spec.From.Snapshot {
			return nil, nil
		}
	}
	tree, err := p.cfg.Snapshots.StartFrom(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("docker: open: %w", err)
	}
	return tree, nil
}

// fileOwner returns the owner of the files of a workspace; nil means this process's user.
func (f *engineProof) fileOwner() *snapshot.Owner {
	if os.Geteuid() != 0 {
		return nil
	}
	return &snapshot.Owner{UID: f.HostUID, GID: f.HostUID}
}

// recoverRollback completes the rollback of a process that died.
func (p *Provider) recoverRollback(ctx context.Context, m *wsdir.State) error {
	if p.cfg.Snapshots == nil || m.Policy.ReadOnly {
		return nil
	}
	_, err := snapshot.Recover(ctx, p.store.Files(m), p.store.Path(m.ID, rollbackStageName), "")
	switch fault.Of(err) {
	case fault.NotFound, fault.InvalidArgument, fault.Unavailable:
		return nil // the directory is missing, which Attach reports, or another process rolls back
	}
	return err
}

// snapshotAdapter returns the snapshot adapter of the workspace.
func (h *handle) snapshotAdapter(m *wsdir.State) *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: h.p.cfg.Snapshots, Provider: Kind, Workspace: m.ID, Session: m.Session, Origin: h.opts.From,
		Now: func(ctx context.Context) (snapshot.View, error) {
			if err := h.dir.Current(); err != nil {
				return snapshot.View{}, err
			}
			if h.onVolume() {
				files, err := h.filesModule(ctx)
				if err != nil {
					return snapshot.View{}, err
				}
				return snapshot.View{Tree: snapshot.Files(files)}, nil // not frozen: the guest must run to read the files
			}
			view := snapshot.View{Tree: snapshot.HostDir(h.p.store.Files(m), nil), Cache: Kind + ":" + m.ID}
			err := h.freezeContainer(ctx, &view)
			return view, err
		},
		Rollback: h.rollbackTo,
	}
}

// freezeContainer pauses the container (cgroup freezer) until the snapshot is done. If the
// engine can't pause it, the snapshot records that it was not frozen.
func (h *handle) freezeContainer(ctx context.Context, v *snapshot.View) error {
	lock, err := supervise.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		return fmt.Errorf("docker: snapshot: lock the container: %w", err)
	}
	unlock := func() { lock.Close() } //nolint:errcheck // the lock ends with the descriptor
	v.Done = unlock
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		v.Frozen = true
		return nil
	}
	var s State
	if err = h.recoverFreeze(ctx, rec); err == nil {
		s, err = h.p.engine.Inspect(ctx, rec.Container)
	}
	switch {
	case fault.Of(err) == fault.NotFound || err == nil && (!s.Running || s.Paused):
		v.Frozen = true
		return nil
	case err == nil:
		err = h.pauseMarked(ctx, rec.Container)
	}
	if err != nil {
		h.p.log.Warn("docker: a snapshot is taken while processes run", "workspace", h.id, "error", err)
		return nil
	}
	v.Frozen = true
	v.Done = func() {
		defer unlock()
		if err := h.recoverFreeze(context.WithoutCancel(ctx), rec); err != nil {
			h.p.log.Error("docker: a container stays paused after a snapshot", "workspace", h.id, "error", err)
		}
	}
	return nil
}

// pauseMarked creates the marker, and then pauses the container. It requires the guest lock.
func (h *handle) pauseMarked(ctx context.Context, container string) error {
	if err := os.WriteFile(h.freezeMarker(), nil, 0o600); err != nil {
		return err
	}
	driver.Step(ctx, "freeze marked")
	if err := h.p.engine.Pause(ctx, container); err != nil {
		return err
	}
	driver.Step(ctx, "container paused")
	return nil
}

// freezeMarker returns the path of the marker. It exists from before the container is paused
// for a snapshot until the container is unpaused. If no process has the guest lock then, the
// process that paused the container has died.
func (h *handle) freezeMarker() string { return h.p.store.Path(h.id, freezeName) }

// recoverFreeze unpauses the container if there is a marker, and removes the marker. A
// workspace that was paused by Pause stays paused. It requires the guest lock.
func (h *handle) recoverFreeze(ctx context.Context, rec *supervise.Record) error {
	if _, err := os.Lstat(h.freezeMarker()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if rec != nil && !rec.Paused {
		ctx, cancel := context.WithTimeout(ctx, h.p.cfg.AnswerTimeout)
		defer cancel()
		s, err := h.p.engine.Inspect(ctx, rec.Container)
		if err == nil && s.Paused {
			err = h.p.engine.Unpause(ctx, rec.Container)
		}
		if err != nil && fault.Of(err) != fault.NotFound {
			return err
		}
	}
	return os.Remove(h.freezeMarker())
}

// watchFreeze unpauses the container when a process that paused it for a snapshot dies, until
// the connection ends.
func (h *handle) watchFreeze(c *guest.Client) {
	w := &supervise.FreezeWatch{
		Dir: h.att.Dir, Log: h.p.log,
		Frozen: func() bool { _, err := os.Lstat(h.freezeMarker()); return err == nil },
		Thaw:   func(ctx context.Context) error { return h.recoverFreeze(ctx, supervise.ReadRecord(h.att.Dir)) },
	}
	go w.Run(h.p.ctx, c) // ends with the connection
}

// rollbackTo rolls the files back to a snapshot.
func (h *handle) rollbackTo(ctx context.Context, to *snapshot.RollbackTarget) error {
	if err := h.dir.Current(); err != nil {
		return err
	}
	m := h.dir.State()
	if m.Policy.ReadOnly {
		return fmt.Errorf("docker: roll back: %w: the workspace is read-only", fault.PermissionDenied)
	}
	if h.onVolume() {
		return h.rollbackVolume(ctx, to)
	}
	stage := h.p.store.Path(h.id, rollbackStageName)
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return fmt.Errorf("docker: roll back: %w: %w", fault.Of(err), err)
	}
	_, err := snapshot.Restore(ctx, to.Tree, h.p.store.Files(&m), &snapshot.RestoreOptions{
		Only: to.Paths, Stage: stage, Sync: m.Policy.Durable, Owner: h.proof.fileOwner(), PlainModes: true,
	})
	return err
}

const rollbackName = "rollback" // the journal of a rollback of files that are on a volume

// rollbackVolume rolls back files on a volume one by one, with a journal. The next process
// that connects to the guest completes an interrupted rollback.
func (h *handle) rollbackVolume(ctx context.Context, to *snapshot.RollbackTarget) error {
	files, err := h.filesModule(ctx)
	if err != nil {
		return err
	}
	if err := snapshot.RollBackFiles(ctx, h.p.store.Path(h.id, rollbackName), to, files); err != nil {
		return fmt.Errorf("docker: roll back: %w", err)
	}
	return nil
}

// completeRollback completes the rollback of a process that died. It requires the guest
// lock.
func (h *handle) completeRollback(ctx context.Context, c *guest.Client) error {
	target, err := snapshot.CompleteRollback(ctx, h.p.store.Path(h.id, rollbackName), h.p.cfg.Snapshots, c.Files())
	if err != nil {
		return fmt.Errorf("docker: %w", err)
	}
	if target != "" {
		h.p.log.Info("docker: an interrupted rollback was completed", "workspace", h.id, "snapshot", target)
	}
	return nil
}
