package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// A snapshot of a workspace with a template contains only the upper layer of its overlayfs.
// A workspace that starts from a complete snapshot uses it as its template: a layer that is
// extracted once and shared by all such workspaces.

const (
	rollbackStageName = "rollback-stage" // in the directory of a workspace: new files of a rollback
	newLayerPrefix    = ".new-"          // prefix of the names of incomplete layers
	deltaPrefix       = "delta-"         // prefix of the names of layers with differences
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
	if err == nil && o.manifest.Base.Name != "" && p.hasDiskImage(l, spec.Policy) {
		err = fmt.Errorf("sandbox: open: a snapshot over a template with a limit of disk: %w", fault.Unsupported)
	}
	return o, err
}

// setOriginLayers sets the lower layers in the options of a new workspace. The snapshot
// decides: it overrides a configured template, which is the one of the workspace that the
// snapshot is of. Without overlayfs the files are copied instead.
func (p *Provider) setOriginLayers(ctx context.Context, o *snapshotOrigin, l *level, opts *Options) error {
	switch {
	case o.manifest.Base.Name != "" && !l.canOverlay():
		return fmt.Errorf("sandbox: open: a snapshot over a template: %w: isolation %s has no overlayfs", fault.Unsupported, l.name)
	case o.manifest.Base.Name != "":
		dirs, err := o.manifest.Base.Dirs()
		if err != nil {
			return fmt.Errorf("sandbox: open: %w", err)
		}
		opts.Template, opts.Layers = dirs[len(dirs)-1], dirs[:len(dirs)-1]
		if len(opts.Layers) == 0 {
			opts.Layers = nil
		}
	case l.canOverlay():
		dirs, err := p.ensureLayers(ctx, o.manifest)
		if err != nil {
			return fmt.Errorf("sandbox: open: extract the snapshot into a layer: %w", err)
		}
		opts.Template, opts.Layers = dirs[len(dirs)-1], dirs[:len(dirs)-1]
		if len(opts.Layers) == 0 {
			opts.Layers = nil
		}
	default:
		opts.Template = ""
	}
	return nil
}

// ensureLayers returns the lower directories with the files of a complete snapshot, topmost
// first: its own layer, or the layer of an earlier snapshot below a layer with the
// differences. It extracts what does not exist.
func (p *Provider) ensureLayers(ctx context.Context, m *snapshot.Manifest) ([]string, error) {
	own := p.layerOf(m.Root)
	if _, err := os.Lstat(own); err == nil {
		return []string{own}, nil
	}
	if dirs := p.ensureDelta(ctx, m); dirs != nil {
		return dirs, nil
	}
	return []string{own}, p.extractLayer(ctx, p.cfg.Snapshots.StoredTree(m.Root), own, nil)
}

// extractLayer extracts a tree into a new layer.
func (p *Provider) extractLayer(ctx context.Context, t snapshot.Tree, dir string, opts *snapshot.RestoreOptions) error {
	fresh := filepath.Join(p.layersDir(), newLayerPrefix+driver.NewID())
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	err := snapshot.Extract(ctx, t, fresh, opts)
	if err == nil {
		driver.Step(ctx, "layer filled")
		err = os.Rename(fresh, dir)
	}
	if err == nil {
		return nil
	}
	err = errors.Join(err, files.RemoveTree(fresh))
	if _, there := os.Lstat(dir); there == nil {
		return nil // another process extracted the same snapshot meanwhile
	}
	return err
}

// A layer with differences has the name deltaPrefix, and the digests of its snapshot and of
// the one below it. It is extracted when a directory that a workspace starts from has
// changed, which costs what has changed.

// mostDelta bounds the entries of such a layer: all of them are extracted again after each
// further change of the directory.
const mostDelta = 2000

// ensureDelta returns the layer with the differences of a snapshot from an earlier one of
// the same origin, and the layer of the latter. It returns nil if there is none: the
// snapshot's own layer does as well.
func (p *Provider) ensureDelta(ctx context.Context, m *snapshot.Manifest) []string {
	found, err := filepath.Glob(filepath.Join(p.layersDir(), deltaName(m.Root, "*")))
	if err != nil {
		return nil
	}
	for _, dir := range found {
		_, below := p.splitDelta(dir)
		if _, err := os.Lstat(below); err == nil {
			return []string{dir, below}
		}
	}
	old := p.findEarlier(ctx, m)
	if old == nil {
		return nil
	}
	t, err := p.cfg.Snapshots.Delta(ctx, old.Root, m.Root, mostDelta)
	if err != nil || t == nil {
		return nil
	}
	dir := filepath.Join(p.layersDir(), deltaName(m.Root, digestText(old.Root)))
	if p.extractLayer(ctx, t, dir, &snapshot.RestoreOptions{Upper: true}) != nil {
		return nil
	}
	return []string{dir, p.layerOf(old.Root)}
}

// findEarlier returns the newest other snapshot with the same labels, which say what it is
// of, that has a layer of its own; nil if there is none.
func (p *Provider) findEarlier(ctx context.Context, m *snapshot.Manifest) *snapshot.Manifest {
	if len(m.Labels) == 0 {
		return nil
	}
	all, err := p.cfg.Snapshots.List(ctx)
	if err != nil {
		return nil
	}
	for _, old := range all {
		if old.Base == (snapshot.Base{}) && old.Workspace == m.Workspace && maps.Equal(old.Labels, m.Labels) {
			if _, err := os.Lstat(p.layerOf(old.Root)); err == nil {
				return old
			}
		}
	}
	return nil
}

func digestText(id snapshot.ID) string { return strings.TrimPrefix(id.String(), driver.DigestPrefix) }

// layerOf returns the directory of the layer with a tree.
func (p *Provider) layerOf(root snapshot.ID) string {
	return filepath.Join(p.layersDir(), digestText(root))
}

func deltaName(root snapshot.ID, below string) string {
	return deltaPrefix + digestText(root) + "-" + below
}

// splitDelta returns the layers that a layer with differences stands for and lies over, ""
// if dir is another layer.
func (p *Provider) splitDelta(dir string) (whole, below string) {
	name, ok := strings.CutPrefix(filepath.Base(dir), deltaPrefix)
	digest, under, two := strings.Cut(name, "-")
	if !ok || !two {
		return "", ""
	}
	return filepath.Join(p.layersDir(), digest), filepath.Join(p.layersDir(), under)
}

func (p *Provider) layersDir() string {
	if p.cfg.Layers != "" {
		return p.cfg.Layers
	}
	return p.store.Path(".layers")
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
	if err := p.resetLayer(layer); err != nil {
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
			_, err := h.p.ensureLayers(ctx, m)
			return err
		},
		Running: h.checkIdle,
	}
}

// noCheckpoint says why processes can't be checkpointed. gVisor saves processes, but
// restores none in a user namespace, in which Croft always runs it, so that an escape from
// gVisor has no rights on the host.
func (l *level) noCheckpoint() string {
	if l.name == driver.IsolationGVisor {
		return "gVisor restores no processes in rootless mode, in which Croft runs it"
	}
	return fmt.Sprintf("isolation %s runs processes on the kernel of this host, which does not save them", l.name)
}

// snapshotView returns the files for a snapshot, with the cgroup frozen if possible.
func (h *handle) snapshotView(ctx context.Context, l *level, m *wsdir.State) (v snapshot.View, err error) {
	if err := h.dir.Current(); err != nil {
		return v, err
	}
	if h.p.hasDiskImage(l, m.Policy) || h.hasImports() { // only the guest's mounts show all files
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

// sweepLayers removes layers that no workspace and no snapshot uses, and incomplete ones. It
// removes none while the state of a live workspace can't be read: it may be restored, and
// its layers are not known.
func (p *Provider) sweepLayers(ctx context.Context, live []string) error {
	entries, err := os.ReadDir(p.layersDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || p.cfg.Snapshots == nil {
		return err
	}
	needed, err := p.neededLayers(ctx, live)
	if fault.CauseOf(err) == fault.CauseCorrupt {
		p.log.Warn("sandbox: no layer is removed", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if whole, below := p.splitDelta(e.Name()); whole != "" && needed[whole] {
			needed[filepath.Join(p.layersDir(), e.Name())], needed[below] = true, true
		}
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(p.layersDir(), e.Name())
		if digest, ok := rootfsDigest(e.Name()); ok && needed[filepath.Join(p.layersDir(), digest)] {
			continue
		}
		if needed[path] || strings.HasPrefix(e.Name(), newLayerPrefix) && isRecent(e) {
			continue
		}
		errs = append(errs, files.RemoveTree(path))
	}
	return errors.Join(errs...)
}

func isRecent(e fs.DirEntry) bool {
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) < time.Hour
}

// neededLayers lists the layers that workspaces and snapshots use or may start from.
func (p *Provider) neededLayers(ctx context.Context, live []string) (map[string]bool, error) {
	needed := map[string]bool{}
	all, err := p.cfg.Snapshots.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		dirs, err := m.Base.Dirs()
		if err != nil {
			continue // a snapshot of another provider
		}
		for _, dir := range dirs {
			needed[dir] = true
		}
		needed[p.layerOf(m.Root)] = true
	}
	entries, err := os.ReadDir(p.store.Path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if !driver.ValidID(e.Name()) {
			continue
		}
		m, err := p.store.Read(e.Name())
		if err != nil {
			_, missing := os.Lstat(p.store.Path(e.Name(), wsdir.StateName(Kind)))
			if missing == nil && slices.Contains(live, e.Name()) {
				return nil, err
			}
			continue // another kind, or to be removed
		}
		if j, err := sealSection.Get(m); err == nil && j != nil {
			needed[j.Layer] = true
		}
		var opts Options
		if err := driver.DecodeStrict(m.Own, &opts); err == nil {
			for _, dir := range append(opts.lowerDirs(), opts.RootfsDir) {
				needed[dir] = true
			}
		}
	}
	return needed, nil
}
