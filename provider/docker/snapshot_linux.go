package docker

import (
	"context"
	"fmt"
	"os"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// origin is the snapshot that a new workspace starts from; nil is none.
type origin struct{ tree snapshot.Tree }

// origin finds it. A workspace that is there already was made from it, whatever
// has become of the snapshot.
func (p *Provider) origin(ctx context.Context, spec driver.Spec) (*origin, error) {
	if spec.From.Snapshot == "" {
		return nil, nil
	}
	if p.cfg.Snapshots == nil {
		return nil, fmt.Errorf("docker: open: a snapshot to start from: %w: there is no store of them", fault.Unsupported)
	}
	if m, err := p.ground.Read(spec.ID); err == nil {
		if was, err := optionsOf(m); err == nil && was.From == spec.From.Snapshot {
			return nil, nil
		}
	}
	tree, m, err := p.cfg.Snapshots.Whole(ctx, spec.From.Snapshot)
	if err == nil {
		err = m.Permit(spec.ID, spec.Session.ID, spec.From.CrossSession)
	}
	if err != nil {
		return nil, fmt.Errorf("docker: open: %w", err)
	}
	return &origin{tree}, nil
}

// fill puts what a new workspace starts with into its directory.
func (o *origin) fill(ctx context.Context, dir string, f *fact, durable bool) error {
	if o == nil {
		return nil
	}
	return snapshot.Extract(ctx, o.tree, dir, &snapshot.RestoreOptions{Sync: durable, Owner: f.owner(), PlainModes: true})
}

// write brings the files of a new workspace to what it starts with.
func (o *origin) write(ctx context.Context, to *driver.FS) error {
	return snapshot.Write(ctx, o.tree, to, nil)
}

// owner is whose the files of a workspace are; nil is this process's user.
func (f *fact) owner() *snapshot.Owner {
	if os.Geteuid() != 0 {
		return nil
	}
	return &snapshot.Owner{UID: f.Outside, GID: f.Outside}
}

// recover completes a rollback that a process which died had begun.
func (p *Provider) recover(ctx context.Context, m *wsdir.State) error {
	if p.cfg.Snapshots == nil || m.Policy.ReadOnly {
		return nil
	}
	err := snapshot.Recover(ctx, p.ground.Files(m), p.ground.Path(m.ID, stageName), "")
	switch fault.Of(err) {
	case fault.NotFound, fault.InvalidArgument, fault.Unavailable:
		return nil // there is no such directory, which Attach tells, or another process is at it
	}
	return err
}

// keeper gives a workspace the module for snapshots.
func (h *handle) keeper(m *wsdir.State) *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: h.p.cfg.Snapshots, Provider: Kind, Workspace: m.ID, Session: m.Session, Origin: h.opts.From,
		Now: func(ctx context.Context) (snapshot.View, error) {
			if err := h.plot.Current(); err != nil {
				return snapshot.View{}, err
			}
			if h.onVolume() {
				files, err := h.files(ctx)
				if err != nil {
					return snapshot.View{}, err
				}
				return snapshot.View{Tree: snapshot.Files(files)}, nil // what runs goes on, since the guest has to
			}
			view := snapshot.View{Tree: snapshot.HostDir(h.p.ground.Files(m), nil), Cache: Kind + ":" + m.ID}
			err := h.still(ctx, &view)
			return view, err
		},
		Rollback: h.become,
	}
}

// still makes what runs stand still while a snapshot is taken, until the view is
// done with. Where an engine can't, the snapshot says that it was not frozen.
func (h *handle) still(ctx context.Context, v *snapshot.View) error {
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
	s, err := h.p.engine.Inspect(ctx, rec.Container)
	switch {
	case fault.Of(err) == fault.NotFound || err == nil && (!s.Running || s.Paused):
		v.Frozen = true
		return nil
	case err == nil:
		err = h.p.engine.Pause(ctx, rec.Container)
	}
	if err != nil {
		h.p.log.Warn("docker: a snapshot is taken while processes run", "workspace", h.id, "error", err)
		return nil
	}
	v.Frozen = true
	v.Done = func() {
		defer unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.p.cfg.AnswerTimeout)
		defer cancel()
		if err := h.p.engine.Unpause(ctx, rec.Container); err != nil {
			h.p.log.Error("docker: a container stands still after a snapshot", "workspace", h.id, "error", err)
		}
	}
	return nil
}

// become brings the files to what is in a tree.
func (h *handle) become(ctx context.Context, to *snapshot.RollbackTarget) error {
	if err := h.plot.Current(); err != nil {
		return err
	}
	m := h.plot.State()
	if m.Policy.ReadOnly {
		return fmt.Errorf("docker: roll back: %w: the workspace is read-only", fault.PermissionDenied)
	}
	if h.onVolume() {
		return h.becomeAway(ctx, to)
	}
	stage := h.p.ground.Path(h.id, stageName)
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return fmt.Errorf("docker: roll back: %w: %w", fault.Of(err), err)
	}
	_, err := snapshot.Restore(ctx, to.Tree, h.p.ground.Files(&m), &snapshot.RestoreOptions{
		Only: to.Paths, Stage: stage, Sync: m.Policy.Durable, Owner: h.fact.owner(), PlainModes: true,
	})
	return err
}

const rollbackName = "rollback" // the journal of a rollback of files that are on a volume

// becomeAway is become for files on a volume, which are written one after another.
// Whoever next meets the guest completes what was cut short.
func (h *handle) becomeAway(ctx context.Context, to *snapshot.RollbackTarget) error {
	files, err := h.files(ctx)
	if err != nil {
		return err
	}
	journal, err := snapshot.BeginRollback(h.p.ground.Path(h.id, rollbackName), to)
	if err != nil {
		return fmt.Errorf("docker: roll back: %w", err)
	}
	driver.Step(ctx, "journal")
	// From here on there is no way back, whatever the context says.
	if err := snapshot.Write(context.WithoutCancel(ctx), to.Tree, files, &snapshot.WriteOptions{Only: to.Paths}); err != nil {
		journal.Release()
		return err
	}
	driver.Step(ctx, "written")
	return journal.End()
}

// completeRollback completes the rollback of a process that died. The lock of the
// guest is held.
func (h *handle) completeRollback(ctx context.Context, c *guest.Client) error {
	journal, err := snapshot.FindRollback(h.p.ground.Path(h.id, rollbackName))
	if err != nil || journal == nil {
		return err
	}
	if h.p.cfg.Snapshots == nil {
		journal.Release()
		return fmt.Errorf("docker: complete a rollback to %s that was cut short: %w: there is no store of snapshots", journal.Target(), fault.Unsupported)
	}
	tree, err := journal.Tree(ctx, h.p.cfg.Snapshots)
	if err == nil {
		err = snapshot.Write(ctx, tree, c.Files(), nil)
	}
	if err != nil {
		journal.Release()
		return fmt.Errorf("docker: complete a rollback to %s that was cut short: %w", journal.Target(), err)
	}
	h.p.log.Info("docker: a rollback that was cut short is complete", "workspace", h.id, "snapshot", journal.Target())
	return journal.End()
}
