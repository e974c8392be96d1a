package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// A snapshot of a workspace with a template contains only the upper layer of its overlayfs.
// A workspace that starts from a complete snapshot uses it as its template: a layer that is
// extracted once and shared by all such workspaces.

const (
	rollbackStageName = "rollback-stage" // in the directory of a workspace: new files of a rollback
)

// A snapshotOrigin is the snapshot that a new workspace starts from.
type snapshotOrigin struct {
	manifest *snapshot.Manifest
	tree     snapshot.Tree
}

// findOrigin finds the snapshot that a new workspace starts from.
func (p *Provider) findOrigin(ctx context.Context, spec driver.Spec) (*snapshotOrigin, error) {
	if p.cfg.Snapshots == nil || spec.Dir != "" {
		return nil, fmt.Errorf("sandbox: open: a snapshot to start from: %w: there is no snapshot store, or the directory is in place", fault.Unsupported)
	}
	tree, m, err := p.cfg.Snapshots.Tree(ctx, spec.From.Snapshot)
	if err == nil {
		err = m.Permit(spec.ID, spec.Session.ID, spec.From.CrossSession)
	}
	if err == nil {
		_, err = m.Base.Dirs()
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: open: %w", err)
	}
	return &snapshotOrigin{m, tree}, nil
}

// startFrom finds the snapshot that a workspace starts from, and records it in the options.
// An existing workspace keeps its layers, even if the snapshot was deleted.
func (p *Provider) startFrom(ctx context.Context, spec driver.Spec, l *level, opts *Options) (*snapshotOrigin, error) {
	if spec.From.Snapshot == "" {
		return nil, nil
	}
	opts.From = spec.From.Snapshot
	if m, err := p.store.Read(spec.ID); err == nil {
		var was Options
		if err := driver.DecodeStrict(m.Own, &was); err == nil && was.From == opts.From {
			opts.Template, opts.Layers = was.Template, was.Layers
			return nil, nil
		}
	}
	o, err := p.findOrigin(ctx, spec)
	if err == nil {
		err = p.setOriginLayers(ctx, o, l, opts)
	}
	if err == nil && o.manifest.Base.Name != "" && p.ids.hasDiskImage(l, spec.Policy) {
		err = fmt.Errorf("sandbox: open: a snapshot over a template with a limit of disk: %w", fault.Unsupported)
	}
	return o, err
}

// setOriginLayers sets the lower layers in the options of a new workspace. The snapshot
// decides: it overrides a configured template, which is the one of the workspace that the
// snapshot is of. Without overlayfs the files are copied instead.
func (p *Provider) setOriginLayers(ctx context.Context, o *snapshotOrigin, l *level, opts *Options) (err error) {
	var dirs []string
	switch {
	case o.manifest.Base.Name != "" && !l.canOverlay():
		return fmt.Errorf("sandbox: open: a snapshot over a template: %w: isolation %s has no overlayfs", fault.Unsupported, l.name)
	case o.manifest.Base.Name != "":
		if dirs, err = o.manifest.Base.Dirs(); err != nil {
			return fmt.Errorf("sandbox: open: %w", err)
		}
	case l.canOverlay():
		if dirs, err = p.layers.ensure(ctx, o.manifest); err != nil {
			return fmt.Errorf("sandbox: open: extract the snapshot into a layer: %w", err)
		}
	default:
		opts.Template = ""
		return nil
	}
	if opts.Template, opts.Layers = dirs[len(dirs)-1], dirs[:len(dirs)-1]; len(opts.Layers) == 0 {
		opts.Layers = nil
	}
	return nil
}

// extractOrigin extracts the snapshot that a new workspace starts from into its directory,
// unless a lower layer contains it.
func (p *Provider) extractOrigin(ctx context.Context, o *snapshotOrigin, opts *Options, dir string) error {
	switch {
	case o == nil || opts.Template != "" && o.manifest.Base == (snapshot.Base{}):
		return nil
	case opts.Template == "":
		return snapshot.Extract(ctx, o.tree, filepath.Join(dir, wsdir.FilesName), nil)
	}
	layer := filepath.Join(dir, layerName)
	if err := p.ids.resetLayer(layer); err != nil {
		return err
	}
	fill := &snapshot.RestoreOptions{Upper: true}
	if p.ids.root {
		fill.Owner = &snapshot.Owner{UID: p.ids.base + workloadUID, GID: p.ids.base + workloadUID}
	}
	return snapshot.Extract(ctx, o.tree, filepath.Join(layer, "upper"), fill)
}

// completeInterrupted completes a seal, or a rollback of files in their directory, of a
// process that died. It returns the new state.
func (p *Provider) completeInterrupted(ctx context.Context, m *wsdir.State) (*wsdir.State, error) {
	if p.cfg.Snapshots == nil || m.Dir != "" {
		return m, nil
	}
	m, err := p.recoverSeal(ctx, m)
	if err != nil {
		return nil, err
	}
	return m, p.recoverRollback(ctx, m)
}

// recoverRollback completes a rollback of files in their directory of a process that died.
func (p *Provider) recoverRollback(ctx context.Context, m *wsdir.State) error {
	if p.cfg.Snapshots == nil || m.Dir != "" {
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
func (h *handle) snapshotAdapter(l *level, m *wsdir.State) *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: h.p.cfg.Snapshots, Provider: Kind, Workspace: m.ID, Session: m.Session, Origin: h.currentOptions().From, Dir: m.Real,
		Budget:   snapshot.NewBudget(m.Policy),
		Now:      func(ctx context.Context) (snapshot.View, error) { return h.snapshotView(ctx, l, m) },
		Rollback: h.rollbackTo,
		Seal:     func(ctx context.Context) (snapshot.Base, bool, error) { return h.seal(ctx, l) },
		Sealed: func(ctx context.Context, m *snapshot.Manifest) error {
			if l.noMounts {
				return nil
			}
			_, err := h.p.layers.ensure(ctx, m)
			return err
		},
		Running: h.checkIdle,
	}
}

// snapshotView returns the files for a snapshot, with the cgroup frozen if possible.
func (h *handle) snapshotView(ctx context.Context, l *level, m *wsdir.State) (v snapshot.View, err error) {
	if err := h.dir.Current(); err != nil {
		return v, err
	}
	if h.p.ids.hasDiskImage(l, m.Policy) || h.hasImports() { // only the guest's mounts show all files
		fs, err := h.dir.Via(ctx)
		if err != nil {
			return v, err
		}
		v.Tree = snapshot.Files(fs)
	} else {
		v = h.ownTree(m)
	}
	if m.Dir != "" {
		return v, nil // programs of the host write there, too: a freeze would not help
	}
	v.Frozen, v.Done, err = h.acquireFreeze(ctx)
	return v, err
}

// ownTree returns the workspace's own files: its directory, or the upper layer.
func (h *handle) ownTree(m *wsdir.State) snapshot.View {
	o := h.currentOptions()
	lower := o.lowerDirs()
	if len(lower) == 0 {
		return snapshot.View{Tree: snapshot.HostDir(h.p.store.Files(m), nil), Cache: Kind + ":" + cmp.Or(m.Real, m.ID)} // with .git, for forks
	}
	v := snapshot.View{Base: snapshot.DirsBase(lower), Start: snapshot.DirsBase(o.startDirs()), Cache: Kind + ":" + m.ID, Tree: snapshot.Empty}
	upper := h.p.store.Path(m.ID, layerName, "upper")
	if _, err := os.Lstat(upper); err == nil {
		v.Tree = snapshot.HostDir(upper, &snapshot.HostOptions{Upper: true})
	}
	return v
}

// rollbackTo rolls the files back: in their directory, or through the guest's mount.
// Either way has a journal.
func (h *handle) rollbackTo(ctx context.Context, to *snapshot.RollbackTarget) error {
	if err := h.dir.Current(); err != nil {
		return err
	}
	m := h.dir.State()
	if m.Policy.ReadOnly {
		return fmt.Errorf("sandbox: roll back: %w: the workspace is read-only", fault.PermissionDenied)
	}
	if h.filesInMount() {
		return h.rollbackMounted(ctx, to)
	}
	stage := h.p.store.Path(m.ID, rollbackStageName)
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return fmt.Errorf("sandbox: roll back: %w: %w", fault.Of(err), err)
	}
	_, done, err := h.acquireFreeze(ctx)
	if err != nil {
		return err
	}
	if done != nil {
		defer done()
	}
	_, err = snapshot.Restore(ctx, to.Tree, h.p.store.Files(&m), &snapshot.RestoreOptions{Only: to.Paths, Stage: stage, Sync: m.Policy.Durable, NoGit: m.Dir != ""})
	return err
}

// checkIdle returns WrongState if a session runs in the workspace.
func (h *handle) checkIdle(ctx context.Context) error {
	if supervise.ReadRecord(h.att.Dir) == nil {
		return nil
	}
	sessions, err := driver.ForwardShell(driver.Ask(h.shell)).Sessions(ctx)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		if s.Running {
			return fmt.Errorf("sandbox: seal: %w: %s runs in the workspace", fault.WrongState, s.ID)
		}
	}
	return nil
}

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

// changedPaths lists the paths in the upper layer, where the workspace may differ from its
// template, or from the snapshot that it started with.
func (h *handle) changedPaths(ctx context.Context) ([]driver.ChangedPath, error) {
	if err := h.dir.Current(); err != nil {
		return nil, err
	}
	o, m := h.currentOptions(), h.dir.State()
	l, err := h.p.checkPolicy(ctx, m.Policy)
	if err != nil {
		return nil, err
	}
	isDelta := func(dir string) bool { whole, _ := h.p.layers.split(dir); return whole != "" }
	ownLayers := slices.DeleteFunc(slices.Clone(o.Layers), isDelta)
	if o.Template == "" || len(ownLayers) > 0 || len(o.Sealed) > 0 || h.p.ids.hasDiskImage(l, m.Policy) || h.hasImports() {
		return nil, fmt.Errorf("sandbox: changed paths: %w: the workspace is not a single layer over its template", fault.Unsupported)
	}
	upper := filepath.Join(h.p.store.Path(h.id), layerName, "upper")
	wsdir.MakeUsable(upper)
	list, err := mount.Changes(ctx, upper)
	if err != nil {
		return nil, fmt.Errorf("sandbox: changed paths: %w: %w", fault.Of(err), err)
	}
	return list, nil
}
