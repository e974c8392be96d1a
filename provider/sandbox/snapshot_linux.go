package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// A snapshot of a workspace that starts from a template is of its upper layer
// alone, over the template. A workspace that starts from a whole snapshot has that
// as its template: a layer, made of it once, that any number share.

const (
	stageName = "stage" // in the directory of a workspace: where a rollback makes ready what is new
	newLayer  = ".new-" // begins the names of layers that are being made
)

// origin is what a workspace starts from, as a spec asks for it.
type origin struct {
	manifest *snapshot.Manifest
	tree     snapshot.Tree
}

// origin finds the snapshot that a new workspace starts from.
func (p *Provider) origin(ctx context.Context, spec driver.Spec) (*origin, error) {
	if p.cfg.Snapshots == nil || spec.Dir != "" {
		return nil, fmt.Errorf("sandbox: open: a snapshot to start from: %w: there is no store of them, or the directory is in place", fault.Unsupported)
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
	return &origin{m, tree}, nil
}

// startFrom finds what a workspace starts from, and notes it in its options. One
// that is there already was made from it, whatever has become of the snapshot.
func (p *Provider) startFrom(ctx context.Context, spec driver.Spec, l *level, opts *options) (*origin, error) {
	if spec.From.Snapshot == "" {
		return nil, nil
	}
	opts.From = spec.From.Snapshot
	if m, err := p.ground.Read(spec.ID); err == nil {
		var was options
		if err := driver.DecodeStrict(m.Own, &was); err == nil && was.From == opts.From {
			opts.Template, opts.Layers = was.Template, was.Layers
			return nil, nil
		}
	}
	o, err := p.origin(ctx, spec)
	if err == nil {
		err = p.settleOrigin(ctx, o, l, opts)
	}
	if err == nil && o.manifest.Base.Name != "" && p.limitedDisk(l, spec.Policy) {
		err = fmt.Errorf("sandbox: open: a snapshot over a template with a limit of disk: %w", fault.Unsupported)
	}
	return o, err
}

// settleOrigin says, in the options of a new workspace, what is below it, which is
// the snapshot's to say: a template that is configured besides is what the
// workspace of which it was taken started with. Where there is no overlay the
// files are copied instead.
func (p *Provider) settleOrigin(ctx context.Context, o *origin, l *level, opts *options) error {
	switch {
	case o.manifest.Base.Name != "" && !l.overlays():
		return fmt.Errorf("sandbox: open: a snapshot over a template: %w: isolation %s has no overlay", fault.Unsupported, l.name)
	case o.manifest.Base.Name != "":
		dirs, err := o.manifest.Base.Dirs()
		if err != nil {
			return fmt.Errorf("sandbox: open: %w", err)
		}
		opts.Template, opts.Layers = dirs[len(dirs)-1], dirs[:len(dirs)-1]
		if len(opts.Layers) == 0 {
			opts.Layers = nil
		}
	case l.overlays():
		layer, err := p.layer(ctx, o.manifest)
		if err != nil {
			return fmt.Errorf("sandbox: open: make a layer: %w", err)
		}
		opts.Template = layer
	default:
		opts.Template = ""
	}
	return nil
}

// layer returns the directory with all that a whole snapshot holds, which it makes
// where nobody has.
func (p *Provider) layer(ctx context.Context, m *snapshot.Manifest) (string, error) {
	dir := filepath.Join(p.layers(), strings.TrimPrefix(m.Root.String(), driver.DigestPrefix))
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	fresh := filepath.Join(p.layers(), newLayer+driver.NewID())
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return "", err
	}
	err := snapshot.Extract(ctx, p.cfg.Snapshots.StoredTree(m.Root), fresh, nil)
	if err == nil {
		driver.Step(ctx, "layer filled")
		err = os.Rename(fresh, dir)
	}
	if err == nil {
		return dir, nil
	}
	err = errors.Join(err, files.RemoveTree(fresh))
	if _, there := os.Lstat(dir); there == nil {
		return dir, nil // another made the same meanwhile
	}
	return "", err
}

func (p *Provider) layers() string {
	if p.cfg.Layers != "" {
		return p.cfg.Layers
	}
	return p.ground.Path(".layers")
}

// begin puts what a new workspace starts with into its directory.
func (p *Provider) begin(ctx context.Context, o *origin, opts *options, dir string) error {
	switch {
	case o == nil || opts.Template != "" && o.manifest.Base == (snapshot.Base{}):
		return nil
	case opts.Template == "":
		return snapshot.Extract(ctx, o.tree, filepath.Join(dir, wsdir.FilesName), nil)
	}
	layer := filepath.Join(dir, layerName)
	if err := p.freshLayer(layer); err != nil {
		return err
	}
	fill := &snapshot.RestoreOptions{Upper: true}
	if p.ids.root {
		fill.Owner = &snapshot.Owner{UID: p.ids.base + workloadUID, GID: p.ids.base + workloadUID}
	}
	return snapshot.Extract(ctx, o.tree, filepath.Join(layer, "upper"), fill)
}

// recover completes what a process that died had begun: a seal, or a rollback of
// files that are plainly in their directory. It returns what the workspace is then.
func (p *Provider) recover(ctx context.Context, m *wsdir.State) (*wsdir.State, error) {
	if p.cfg.Snapshots == nil || m.Dir != "" {
		return m, nil
	}
	m, err := p.recoverSeal(ctx, m)
	if err != nil {
		return nil, err
	}
	err = snapshot.Recover(ctx, p.ground.Files(m), p.ground.Path(m.ID, stageName), "")
	switch fault.Of(err) {
	case fault.NotFound, fault.InvalidArgument, fault.Unavailable:
		err = nil // there is no such directory, which Attach tells, or another process is at it
	}
	return m, err
}

// keeper gives a workspace the module for snapshots.
func (h *handle) keeper(l *level, m *wsdir.State) *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: h.p.cfg.Snapshots, Provider: Kind, Workspace: m.ID, Session: m.Session, Origin: h.shape().From,
		Now:    func(ctx context.Context) (snapshot.View, error) { return h.now(ctx, l, m) },
		Rollback: h.become,
		Seal:   func(ctx context.Context) (snapshot.Base, bool, error) { return h.seal(ctx, l) },
		Sealed: func(ctx context.Context, m *snapshot.Manifest) error {
			if l.plain {
				return nil
			}
			_, err := h.p.layer(ctx, m)
			return err
		},
		Running: h.quiet,
	}
}

// noCheckpoint says why processes are not remembered. gVisor saves what runs in it,
// but brings nothing back where it runs in a user namespace, as it does here at all
// times: so that who gets out of it is nobody.
func (l *level) noCheckpoint() string {
	if l.name == driver.IsolationGVisor {
		return "gVisor restores no processes in rootless mode, in which Croft runs it"
	}
	return fmt.Sprintf("isolation %s runs processes on the kernel of this host, which does not save them", l.name)
}

// now returns the files as they are, frozen if that can be.
func (h *handle) now(ctx context.Context, l *level, m *wsdir.State) (v snapshot.View, err error) {
	if err := h.plot.Current(); err != nil {
		return v, err
	}
	if h.p.limitedDisk(l, m.Policy) || h.staged() { // the files are in a file system of their own, or in several
		fs, err := h.plot.Via(ctx)
		if err != nil {
			return v, err
		}
		v.Tree = snapshot.Files(fs)
	} else {
		v = h.tree(m)
	}
	if m.Dir != "" {
		return v, nil // others write there, too
	}
	v.Frozen, v.Done, err = h.hold(ctx)
	return v, err
}

// tree is the directory that holds what is the workspace's own.
func (h *handle) tree(m *wsdir.State) snapshot.View {
	o := h.shape()
	lower := o.lower()
	if len(lower) == 0 {
		return snapshot.View{Tree: snapshot.HostDir(h.p.ground.Files(m), nil), Cache: Kind + ":" + m.ID}
	}
	v := snapshot.View{Base: snapshot.DirsBase(lower), Start: snapshot.DirsBase(o.start()), Cache: Kind + ":" + m.ID, Tree: snapshot.Empty}
	upper := h.p.ground.Path(m.ID, layerName, "upper")
	if _, err := os.Lstat(upper); err == nil {
		v.Tree = snapshot.HostDir(upper, &snapshot.HostOptions{Upper: true})
	}
	return v
}

// become brings the files to another state. Plain ones are changed in their
// directory, those that a mount shows through it; either has a journal.
func (h *handle) become(ctx context.Context, to *snapshot.RollbackTarget) error {
	if err := h.plot.Current(); err != nil {
		return err
	}
	m := h.plot.State()
	if m.Policy.ReadOnly {
		return fmt.Errorf("sandbox: roll back: %w: the workspace is read-only", fault.PermissionDenied)
	}
	if h.mounted() {
		return h.rollback(ctx, to)
	}
	stage := h.p.ground.Path(m.ID, stageName)
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return fmt.Errorf("sandbox: roll back: %w: %w", fault.Of(err), err)
	}
	_, done, err := h.hold(ctx)
	if err != nil {
		return err
	}
	if done != nil {
		defer done()
	}
	_, err = snapshot.Restore(ctx, to.Tree, h.p.ground.Files(&m), &snapshot.RestoreOptions{Only: to.Paths, Stage: stage, Sync: m.Policy.Durable})
	return err
}

// quiet answers what runs in the workspace, if anything does.
func (h *handle) quiet(ctx context.Context) error {
	if supervise.ReadRecord(h.att.Dir) == nil {
		return nil
	}
	sessions, err := supervise.Shell(h.shell).Sessions(ctx)
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

// sweepLayers removes the layers that no workspace and no snapshot needs, and what
// a crash left of others.
func (p *Provider) sweepLayers(ctx context.Context) error {
	entries, err := os.ReadDir(p.layers())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || p.cfg.Snapshots == nil {
		return err
	}
	needed, err := p.neededLayers(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(p.layers(), e.Name())
		if needed[path] || strings.HasPrefix(e.Name(), newLayer) && young(e) {
			continue
		}
		errs = append(errs, files.RemoveTree(path))
	}
	return errors.Join(errs...)
}

func young(e fs.DirEntry) bool {
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) < time.Hour
}

// neededLayers lists what workspaces and snapshots lie over, and what workspaces
// may start from.
func (p *Provider) neededLayers(ctx context.Context) (map[string]bool, error) {
	needed := map[string]bool{}
	all, err := p.cfg.Snapshots.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		dirs, err := m.Base.Dirs()
		if err != nil {
			continue // of a provider that has no layers here
		}
		for _, dir := range dirs {
			needed[dir] = true
		}
		needed[filepath.Join(p.layers(), strings.TrimPrefix(m.Root.String(), driver.DigestPrefix))] = true
	}
	entries, err := os.ReadDir(p.ground.Path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if !driver.ValidID(e.Name()) {
			continue
		}
		m, err := p.ground.Read(e.Name())
		if err != nil {
			continue // of another kind, or not ours to judge
		}
		if j, err := seal.Get(m); err == nil && j != nil {
			needed[j.Layer] = true
		}
		var opts options
		if err := driver.DecodeStrict(m.Own, &opts); err == nil {
			for _, dir := range opts.lower() {
				needed[dir] = true
			}
		}
	}
	return needed, nil
}
