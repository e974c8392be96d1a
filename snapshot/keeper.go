package snapshot

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Keeper gives a workspace the module for snapshots: a provider says what the
// workspace is and how it is read and brought back.
type Keeper struct {
	Store     *Store
	Provider  string
	Workspace string
	Session   string // on whose behalf the workspace was opened
	Origin    string // id of the snapshot that the workspace started from; "" is none

	// Now returns the files of the workspace as they are. While it is read, and
	// until done is called, nothing changes if frozen.
	Now func(ctx context.Context) (View, error)

	// Become brings the files of the workspace, in place, to another state.
	Become func(ctx context.Context, to *Return) error

	// Seal, where it is set, turns the files into layers that never change, on
	// which the workspace stands from then on, and returns those, as a base;
	// moved is false where that can't be. Sealed, where it is set, is then
	// called with a snapshot of the whole, to make it quick to start from.
	// Running says why a workspace can't be sealed now.
	Seal    func(ctx context.Context) (layers Base, moved bool, err error)
	Sealed  func(ctx context.Context, m *Manifest) error
	Running func(ctx context.Context) error
}

// A Return is the way to another state of a workspace.
type Return struct {
	Target string   // the snapshot to return to
	Before string   // the snapshot of what is there
	Tree   Tree     // what the target holds
	Paths  []string // where, at least, it differs from what is there
}

// A View is the files of a workspace at a moment.
type View struct {
	Tree   Tree
	Base   Base   // what Tree is the upper layer of
	Start  Base   // the part of Base that the workspace started with
	Cache  string // see TakeOptions
	Frozen bool
	Done   func() // nil is nothing
}

// Labels of the snapshots that Croft takes by itself.
const (
	CauseLabel = "croft.cause" // "rollback", and what else made it

	// CauseTarget is the cause of a snapshot that a workspace was to be brought to
	// and that nobody asked for.
	CauseTarget = "target"
	SealLabel   = "croft.sealed"

	// TemplateLabel is on what workspaces start from by a name: no rule of
	// retention forgets it.
	TemplateLabel = "croft.template"
)

// Module returns the module.
func (k *Keeper) Module() *driver.Snapshots {
	m := &driver.Snapshots{Snapshotter: k, List: k.list, Delete: k.delete, Files: k.files}
	if k.Become != nil {
		m.Rollback, m.Accept = k.rollback, k.accept
	}
	if k.Sealed != nil {
		m.Seal = k.seal
	}
	return m
}

// Snapshot remembers the files as they are.
func (k *Keeper) Snapshot(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	return infoOf(k.take(ctx, opts, nil))
}

// infoOf describes a snapshot that was taken.
func infoOf(m *Manifest, err error) (driver.SnapshotInfo, error) {
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	return m.SnapshotInfo, nil
}

func (k *Keeper) take(ctx context.Context, opts *driver.SnapshotOptions, labels map[string]string) (*Manifest, error) {
	v, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}
	if v.Done != nil {
		defer v.Done()
	}
	o := k.options(&v, opts)
	for key, value := range labels {
		if o.Info.Labels == nil {
			o.Info.Labels = map[string]string{}
		}
		o.Info.Labels[key] = value
	}
	return k.Store.Take(ctx, v.Tree, o)
}

func (k *Keeper) options(v *View, opts *driver.SnapshotOptions) *TakeOptions {
	return &TakeOptions{
		Info: driver.SnapshotInfo{
			Name: opts.Name, Labels: maps.Clone(opts.Labels), Provider: k.Provider, Workspace: k.Workspace, Session: k.Session, Frozen: v.Frozen,
		},
		Base: v.Base, Ignore: opts.Ignore, Complete: opts.Complete, Cache: v.Cache,
	}
}

// list lists the snapshots of the workspace, or all of them.
func (k *Keeper) list(ctx context.Context, opts *driver.ListSnapshotsOptions) ([]driver.SnapshotInfo, error) {
	all, err := k.Store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	list := []driver.SnapshotInfo{}
	for _, m := range all {
		if len(m.Paths) == 0 && (m.Workspace == k.Workspace || opts.CrossSession) && (opts.Limit <= 0 || len(list) < opts.Limit) {
			list = append(list, m.SnapshotInfo)
		}
	}
	at := slices.IndexFunc(all, func(m *Manifest) bool { return opts.Origin && k.Origin != "" && m.ID == k.Origin })
	if at >= 0 && !slices.ContainsFunc(list, func(i driver.SnapshotInfo) bool { return i.ID == k.Origin }) {
		list = append(list, all[at].SnapshotInfo)
	}
	return list, nil
}

// Find returns the snapshot that has an id, or the newest that has a name and is
// of the workspace or, where it has none, of the session.
func (k *Keeper) find(ctx context.Context, id string, access *driver.SnapshotAccess) (*Manifest, error) {
	if driver.ValidID(id) {
		m, err := k.Store.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if id == k.Origin {
			return m, nil // whoever opened the workspace was allowed to
		}
		return m, m.Permit(k.Workspace, k.Session, access.CrossSession)
	}
	all, err := k.Store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	at := slices.IndexFunc(all, func(m *Manifest) bool { return id != "" && m.Name == id && m.Workspace == k.Workspace })
	if at < 0 {
		return nil, fmt.Errorf("snapshot: snapshot %q: %w: the workspace has none of that id or name", id, fault.NotFound)
	}
	return all[at], nil
}

// Permit answers why a snapshot may not be used from a workspace of a session.
func (m *Manifest) Permit(workspace, session string, crossSession bool) error {
	if m.Workspace == workspace || m.Session == session || crossSession {
		return nil
	}
	return fmt.Errorf("snapshot: snapshot %s: %w: it is of another session, which has to be asked for", m.ID, fault.PermissionDenied)
}

func (k *Keeper) delete(ctx context.Context, id string, access *driver.SnapshotAccess) error {
	m, err := k.find(ctx, id, access)
	if err != nil {
		return err
	}
	return k.Store.Delete(ctx, m.ID)
}

// files returns the files of a snapshot or, for "", those of the workspace as they
// are now.
func (k *Keeper) files(ctx context.Context, id string, access *driver.SnapshotAccess) (*driver.FS, error) {
	switch id {
	case "@origin":
		return k.origin(ctx)
	case "":
		return k.filesOf(k.stored(ctx))
	}
	return k.filesOf(k.find(ctx, id, access))
}

// filesOf returns the files of a snapshot that was found.
func (k *Keeper) filesOf(m *Manifest, err error) (*driver.FS, error) {
	if err != nil {
		return nil, err
	}
	t, err := k.Store.whole(m)
	if err != nil {
		return nil, err
	}
	return Module(t), nil
}

// origin returns what the workspace started from: a snapshot, or else what its
// files lie over.
func (k *Keeper) origin(ctx context.Context) (*driver.FS, error) {
	if k.Origin != "" {
		m, err := k.Store.Get(ctx, k.Origin)
		if fault.Of(err) != fault.NotFound {
			return k.filesOf(m, err)
		}
		// It was deleted since; what lies below the workspace may still be known.
	}
	v, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}
	if v.Done != nil {
		v.Done()
	}
	switch {
	case v.Start == (Base{}) && k.Origin != "":
		err := fmt.Errorf("snapshot: what the workspace started from: %w: the snapshot %s was deleted; name another one", fault.NotFound, k.Origin)
		return nil, fault.WithCause(err, fault.CauseGone)
	case v.Start == (Base{}):
		return nil, fmt.Errorf("snapshot: what the workspace started from: %w: it started empty", fault.NotFound)
	}
	t, err := v.Start.Tree()
	if err != nil {
		return nil, err
	}
	return Module(t), nil
}

// stored puts the files as they are now into the store, without a snapshot.
func (k *Keeper) stored(ctx context.Context) (*Manifest, error) {
	v, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}
	if v.Done != nil {
		defer v.Done()
	}
	m, release, err := k.Store.Store(ctx, v.Tree, k.options(&v, &driver.SnapshotOptions{}))
	if err != nil {
		return nil, err
	}
	release()
	return m, nil
}

// rollback remembers what is there and brings back what a snapshot holds. The
// difference between the two, both of which are in the store, says what to write.
func (k *Keeper) rollback(ctx context.Context, id string, access *driver.SnapshotAccess) (driver.SnapshotInfo, error) {
	target, err := k.find(ctx, id, access)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	want, err := k.Store.whole(target)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	before, err := k.take(ctx, &driver.SnapshotOptions{Name: "before-rollback"}, map[string]string{CauseLabel: "rollback", "croft.target": target.ID})
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	driver.Step(ctx, "checkpoint")
	paths, err := k.between(ctx, before, target, want)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	if len(paths) > 0 {
		err = k.Become(ctx, &Return{Target: target.ID, Before: before.ID, Tree: want, Paths: paths})
	}
	return before.SnapshotInfo, err
}

// accept remembers what is there and brings the workspace to what files hold. That
// is a snapshot, too, so that who finds it half-way knows where it was to go; it is
// no state that anyone goes back to, and goes when it is reached.
func (k *Keeper) accept(ctx context.Context, files *driver.FS, paths []string, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	before, err := k.take(ctx, opts, nil)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	next, err := k.Store.Take(ctx, Files(files), k.options(&View{Frozen: true}, &driver.SnapshotOptions{
		Name: opts.Name + "-done", Labels: map[string]string{CauseLabel: CauseTarget}, Complete: true,
	}))
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	driver.Step(ctx, "target")
	if err := k.Become(ctx, &Return{Target: next.ID, Before: before.ID, Tree: k.Store.StoredTree(next.Root), Paths: paths}); err != nil {
		return before.SnapshotInfo, err
	}
	_ = k.Store.Delete(context.WithoutCancel(ctx), next.ID) // what stays is not a state, and retention takes it
	return before.SnapshotInfo, nil
}

// between lists the paths at which two snapshots differ, at least: those over the
// same base do so where their upper layers do.
func (k *Keeper) between(ctx context.Context, before, target *Manifest, want Tree) ([]string, error) {
	if before.Base == target.Base && before.Base != (Base{}) {
		return k.Store.uppers(ctx, before, target)
	}
	have, err := k.Store.whole(before)
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

// seal takes a snapshot of the whole, from which workspaces start at once.
func (k *Keeper) seal(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	if k.Running != nil {
		if err := k.Running(ctx); err != nil {
			return driver.SnapshotInfo{}, err
		}
	}
	sealed := *opts
	sealed.Labels = maps.Clone(opts.Labels)
	if sealed.Labels == nil {
		sealed.Labels = map[string]string{}
	}
	sealed.Labels[SealLabel] = "true"
	if k.Seal != nil && len(opts.Ignore) == 0 {
		layers, moved, err := k.Seal(ctx)
		if err != nil {
			return driver.SnapshotInfo{}, err
		}
		if moved {
			return infoOf(k.Store.Take(ctx, Empty, k.options(&View{Base: layers, Frozen: true}, &sealed)))
		}
	}
	return k.sealCopy(ctx, &sealed)
}

// sealCopy takes a snapshot of the whole, from which a layer is made.
func (k *Keeper) sealCopy(ctx context.Context, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	v, err := k.Now(ctx)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	if v.Done != nil {
		defer v.Done()
	}
	o := k.options(&v, opts)
	whole, err := over(v.Base, v.Tree)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	if o.Base != (Base{}) {
		o.Base, o.Cache = Base{}, "" // the cache knows the upper layer alone
	}
	m, err := k.Store.Take(ctx, whole, o)
	if err == nil {
		err = k.Sealed(ctx, m)
	}
	return infoOf(m, err)
}
