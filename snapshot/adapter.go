package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// An Adapter implements the snapshot module of a workspace on top of what its
// provider supplies: how to read the files, and how to roll them back.
type Adapter struct {
	Store     *Store
	Provider  string
	Workspace string
	Session   string // the session of the workspace
	Origin    string // id of the snapshot that the workspace started from; may be ""

	// Dir is the directory of the user that the files are, without symlinks; "" if
	// the workspace has files of its own. The snapshots of a directory belong to every
	// workspace of the session in it, also after a restart. They hold its .git without
	// the credentials of its configuration, so that forks have a history; but
	// comparisons, digests and rollbacks leave .git out, at any level: the user commits
	// there meanwhile.
	Dir string

	Budget Budget

	// Now returns the current files of the workspace. If View.Frozen is set,
	// nothing changes until View.Done is called.
	Now func(ctx context.Context) (View, error)

	// Rollback brings the files of the workspace, in place, to another state.
	Rollback func(ctx context.Context, to *RollbackTarget) error

	// Seal, if set, turns the files into immutable layers that the workspace uses
	// from then on, and returns them as a base; moved is false if that is not
	// possible. Sealed, if set, is then called with a snapshot of the whole, to
	// make starting from it fast. Running returns an error if the workspace can't
	// be sealed now.
	Seal    func(ctx context.Context) (layers Base, moved bool, err error)
	Sealed  func(ctx context.Context, m *Manifest) error
	Running func(ctx context.Context) error
}

// A RollbackTarget describes the state that a rollback leads to.
type RollbackTarget struct {
	Target string   // the snapshot to roll back to
	Before string   // the snapshot of the present state
	Tree   Tree     // the files of the target
	Paths  []string // a superset of the paths that differ
}

// A View is the files of a workspace at one moment.
type View struct {
	Tree   Tree
	Base   Base   // the lower layers of Tree
	Start  Base   // the part of Base that the workspace started with
	Cache  string // see TakeOptions
	Frozen bool
	Done   func() // may be nil
}

// Labels of snapshots that Croft takes itself.
const (
	CauseLabel = "croft.cause" // why it was taken, such as "rollback"

	// CauseTarget is the cause of a snapshot that holds the target state of Accept,
	// and was not requested.
	CauseTarget = "target"
	SealLabel   = "croft.sealed"

	// ToolLabel marks snapshots that a client of the tools requested, such as an agent:
	// they are no base of comparison for the owner of the workspace.
	ToolLabel = "croft.tool"

	// TemplateLabel marks snapshots of templates, which retention never deletes.
	TemplateLabel = "croft.template"
)

// Module returns the snapshot module.
func (a *Adapter) Module() *driver.Snapshots {
	m := &driver.Snapshots{Snapshotter: a, List: a.listSnapshots, Delete: a.deleteSnapshot, Files: a.snapshotFiles}
	if a.Rollback != nil {
		m.Rollback, m.Accept = a.rollbackTo, a.acceptFiles
	}
	if a.Sealed != nil {
		m.Seal = a.seal
	}
	return m
}

// Snapshot takes a snapshot of the current files.
func (a *Adapter) Snapshot(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	return infoOf(a.takeSnapshot(ctx, opts, nil))
}

// infoOf returns the info of a taken snapshot.
func infoOf(m *Manifest, err error) (driver.SnapshotInfo, error) {
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	return m.SnapshotInfo, nil
}

func (a *Adapter) takeSnapshot(ctx context.Context, opts *driver.SnapshotOptions, labels map[string]string) (*Manifest, error) {
	all := map[string]string{}
	maps.Copy(all, opts.Labels)
	maps.Copy(all, labels)
	if err := a.checkBudget(ctx, all); err != nil {
		return nil, err
	}
	v, err := a.Now(ctx)
	if err != nil {
		return nil, err
	}
	if v.Done != nil {
		defer v.Done()
	}
	o := a.takeOptions(&v, opts)
	if len(all) > 0 {
		o.Info.Labels = all
	}
	return a.Store.Take(ctx, v.Tree, o)
}

// maxHoles bounds the time that a workspace can make a snapshot of it take: two minutes for
// each such file.
const maxHoles = 256 << 30

func (a *Adapter) takeOptions(v *View, opts *driver.SnapshotOptions) *TakeOptions {
	return &TakeOptions{
		Info: driver.SnapshotInfo{
			Name: opts.Name, Labels: maps.Clone(opts.Labels), Provider: a.Provider, Workspace: a.Workspace, Session: a.Session, Frozen: v.Frozen,
		},
		MaxHoles: maxHoles, Base: v.Base, Ignore: opts.Ignore, Complete: opts.Complete, Cache: v.Cache, NoGitDigest: a.Dir != "", NoGitCredentials: a.Dir != "", Dir: a.Dir,
	}
}

// listSnapshots lists the snapshots of the workspace, or all of them.
func (a *Adapter) listSnapshots(ctx context.Context, opts *driver.ListSnapshotsOptions) ([]driver.SnapshotInfo, error) {
	all, err := a.Store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	list := []driver.SnapshotInfo{}
	for _, m := range all {
		if len(m.Paths) == 0 && (a.owns(m) || opts.CrossSession) && (opts.Limit <= 0 || len(list) < opts.Limit) {
			list = append(list, m.SnapshotInfo)
		}
	}
	if opts.Origin && a.Origin != "" && !slices.ContainsFunc(list, func(i driver.SnapshotInfo) bool { return i.ID == a.Origin }) {
		if m, err := a.origin(ctx); err == nil {
			list = append(list, m.SnapshotInfo)
		}
	}
	return list, nil
}

// owns reports whether a snapshot is of this workspace, or of an earlier one of the
// session in the same directory.
func (a *Adapter) owns(m *Manifest) bool {
	return m.Workspace == a.Workspace || a.Dir != "" && m.Dir == a.Dir && m.Node == a.Store.node && m.Session == a.Session
}

// findSnapshot returns the snapshot with an id, or the workspace's newest snapshot
// with a name.
func (a *Adapter) findSnapshot(ctx context.Context, id string, access *driver.SnapshotAccess) (*Manifest, error) {
	if driver.ValidID(id) {
		if id == a.Origin {
			return a.origin(ctx)
		}
		m, err := a.Store.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		return m, m.Permit(a.Workspace, a.Session, access.CrossSession)
	}
	all, err := a.Store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	at := slices.IndexFunc(all, func(m *Manifest) bool { return id != "" && m.Name == id && a.owns(m) })
	if at < 0 {
		return nil, fault.WithHint(fmt.Errorf("snapshot: snapshot %q: %w: the workspace has no snapshot with that id or name", id, fault.NotFound), fault.HintList, "snapshots")
	}
	return all[at], nil
}

// origin returns the snapshot that the workspace started from. Access to it was checked when the
// workspace was created.
func (a *Adapter) origin(ctx context.Context) (*Manifest, error) {
	return a.Store.Get(auth.Without(ctx), a.Origin)
}

// StartFrom returns the files of the snapshot that a new workspace starts from. The workspace's session
// must be allowed to use it.
func (s *Store) StartFrom(ctx context.Context, spec driver.Spec) (Tree, error) {
	if s == nil {
		return nil, fmt.Errorf("a snapshot to start from: %w: there is no snapshot store", fault.Unsupported)
	}
	tree, m, err := s.Whole(ctx, spec.From.Snapshot)
	if err == nil {
		err = m.Permit(spec.ID, spec.Session.ID, spec.From.CrossSession)
	}
	return tree, err
}

// Permit returns an error if a snapshot may not be used from a workspace of a
// session.
func (m *Manifest) Permit(workspace, session string, crossSession bool) error {
	if m.Workspace == workspace || m.Session == session || crossSession {
		return nil
	}
	return fmt.Errorf("snapshot: snapshot %s: %w: it belongs to another session; cross-session access must be requested", m.ID, fault.PermissionDenied)
}

func (a *Adapter) deleteSnapshot(ctx context.Context, id string, access *driver.SnapshotAccess) error {
	m, err := a.findSnapshot(ctx, id, access)
	if err != nil {
		return err
	}
	return a.Store.Delete(ctx, m.ID)
}

// snapshotFiles returns the files of a snapshot or, for "", the current files of
// the workspace.
func (a *Adapter) snapshotFiles(ctx context.Context, id string, access *driver.SnapshotAccess) (*driver.FS, error) {
	switch id {
	case "@origin":
		return a.originFiles(ctx)
	case "":
		return a.storeCurrent(ctx)
	}
	return a.filesOf(a.findSnapshot(ctx, id, access))
}

func (a *Adapter) filesOf(m *Manifest, err error) (*driver.FS, error) {
	if err != nil {
		return nil, err
	}
	t, err := a.fullTree(m)
	if err != nil {
		return nil, err
	}
	return Module(&snapshotTree{t, m}), nil
}

// A snapshotTree is the files of a snapshot, with its description.
type snapshotTree struct {
	Tree
	m *Manifest
}

// fullTree returns the files of a snapshot that count for the workspace.
func (a *Adapter) fullTree(m *Manifest) (Tree, error) {
	t, err := a.Store.fullTree(m)
	if err == nil && a.Dir != "" {
		t = WithoutGit(t)
	}
	return t, err
}

// originFiles returns the files that the workspace started from: those of a
// snapshot, or of its base.
func (a *Adapter) originFiles(ctx context.Context) (*driver.FS, error) {
	if a.Origin != "" {
		m, err := a.origin(ctx)
		if fault.Of(err) != fault.NotFound {
			return a.filesOf(m, err)
		}
		// It was deleted; the base of the workspace may still be known.
	}
	v, err := a.Now(ctx)
	if err != nil {
		return nil, err
	}
	if v.Done != nil {
		v.Done()
	}
	switch {
	case v.Start == (Base{}) && a.Origin != "":
		err := fault.Advise(fmt.Errorf("snapshot: the origin of the workspace: %w: snapshot %s was deleted", fault.NotFound, a.Origin),
			"name another snapshot")
		return nil, fault.WithCause(err, fault.CauseGone)
	case v.Start == (Base{}):
		return nil, fmt.Errorf("snapshot: the origin of the workspace: %w: the workspace started empty", fault.NotFound)
	}
	t, err := v.Start.Tree()
	if err != nil {
		return nil, err
	}
	return Module(t), nil
}

// storeCurrent writes the current files to the store without making a snapshot, and returns
// them with a lease.
func (a *Adapter) storeCurrent(ctx context.Context) (*driver.FS, error) {
	v, err := a.Now(ctx)
	if err != nil {
		return nil, err
	}
	if v.Done != nil {
		defer v.Done()
	}
	m, release, err := a.Store.Store(ctx, v.Tree, a.takeOptions(&v, &driver.SnapshotOptions{}))
	if err != nil {
		return nil, err
	}
	defer release()
	t, err := a.fullTree(m)
	if err != nil {
		return nil, err
	}
	leased, err := a.Store.lease(ctx, t, m.Root)
	return Module(&snapshotTree{leased, m}), err
}

// rollbackTo takes a snapshot of the present state and brings the workspace to
// another snapshot. The difference between both, which are in the store, is
// written.
func (a *Adapter) rollbackTo(ctx context.Context, id string, access *driver.SnapshotAccess) (driver.SnapshotInfo, error) {
	target, err := a.findSnapshot(ctx, id, access)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	want, err := a.fullTree(target)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	before, err := a.takeSnapshot(ctx, &driver.SnapshotOptions{Name: "before-rollback"}, map[string]string{CauseLabel: "rollback", "croft.target": target.ID})
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	driver.Step(ctx, "checkpoint")
	paths, err := a.changedBetween(ctx, before, target, want)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	if len(paths) > 0 {
		err = a.Rollback(ctx, &RollbackTarget{Target: target.ID, Before: before.ID, Tree: want, Paths: paths})
	}
	return before.SnapshotInfo, err
}

// acceptFiles takes a snapshot of the present state and brings the workspace to the
// given files. These are stored as a temporary snapshot, so that a process that
// finds an interrupted rollback knows its target; it is deleted at the end.
func (a *Adapter) acceptFiles(ctx context.Context, files *driver.FS, paths []string, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	before, err := a.takeSnapshot(ctx, opts, nil)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	next, err := a.Store.Take(ctx, Files(files), a.takeOptions(&View{Frozen: true}, &driver.SnapshotOptions{
		Name: opts.Name + "-done", Labels: map[string]string{CauseLabel: CauseTarget}, Complete: true,
	}))
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	driver.Step(ctx, "target")
	err = a.Rollback(ctx, &RollbackTarget{Target: next.ID, Before: before.ID, Tree: a.Store.StoredTree(next.Root), Paths: paths})
	if err != nil { // what was written so far is taken back
		have, back := a.fullTree(before)
		if back == nil {
			back = a.Rollback(context.WithoutCancel(ctx), &RollbackTarget{Target: before.ID, Before: before.ID, Tree: have, Paths: paths})
		}
		err = errors.Join(err, back)
	}
	_ = a.Store.Delete(context.WithoutCancel(ctx), next.ID) // on failure retention deletes it
	return before.SnapshotInfo, err
}

// changedBetween lists a superset of the paths at which two snapshots differ. For
// snapshots with the same base it compares the upper layers alone.
func (a *Adapter) changedBetween(ctx context.Context, before, target *Manifest, want Tree) ([]string, error) {
	if before.Base == target.Base && before.Base != (Base{}) {
		return a.Store.diffUppers(ctx, before, target)
	}
	have, err := a.fullTree(before)
	if err != nil {
		return nil, err
	}
	d, err := Diff(ctx, have, want, &DiffOptions{NoRenames: true})
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, c := range d.Changes {
		paths = append(paths, c.Path)
	}
	return slices.Compact(paths), nil
}

// seal takes a snapshot of the whole, from which workspaces start without a copy.
func (a *Adapter) seal(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	if a.Running != nil {
		if err := a.Running(ctx); err != nil {
			return driver.SnapshotInfo{}, err
		}
	}
	sealed := *opts
	sealed.Labels = maps.Clone(opts.Labels)
	if sealed.Labels == nil {
		sealed.Labels = map[string]string{}
	}
	sealed.Labels[SealLabel] = "true"
	if a.Seal != nil && len(opts.Ignore) == 0 {
		layers, moved, err := a.Seal(ctx)
		if err != nil {
			return driver.SnapshotInfo{}, err
		}
		if moved {
			return infoOf(a.Store.Take(ctx, Empty, a.takeOptions(&View{Base: layers, Frozen: true}, &sealed)))
		}
	}
	return a.sealCopy(ctx, &sealed)
}

// sealCopy takes a snapshot of the whole, and lets the provider make a layer of it.
func (a *Adapter) sealCopy(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	v, err := a.Now(ctx)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	if v.Done != nil {
		defer v.Done()
	}
	o := a.takeOptions(&v, opts)
	whole, err := layerOver(v.Base, v.Tree)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	if o.Base != (Base{}) {
		o.Base, o.Cache = Base{}, "" // the stat cache is of the upper layer
	}
	m, err := a.Store.Take(ctx, whole, o)
	if err == nil {
		err = a.Sealed(ctx, m)
	}
	return infoOf(m, err)
}
