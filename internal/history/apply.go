package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Names of special states: the origin of a workspace, and its current files.
const (
	Origin = "@origin"
	Now    = "@now"
)

// Files returns a state of a workspace: a snapshot by its id or name, Now, or
// Origin. For a workspace that started empty, Origin is the newest snapshot that its
// owner requested or that RecordOpened took or, without one, the oldest automatic one
// with what was put in since (see RecordPut). A client of the tools, whose work is reviewed, can't change Origin.
func Files(ctx context.Context, ws *workspace.Workspace, name string, access *driver.SnapshotAccess) (*driver.FS, error) {
	if name == Now {
		name = ""
	}
	files, err := ws.SnapshotFiles(ctx, name, access)
	if name == Origin && fault.Of(err) == fault.NotFound && fault.CauseOf(err) != fault.CauseGone {
		return compareBase(ctx, ws)
	}
	return files, err
}

// Tree is Files as a tree.
func Tree(ctx context.Context, ws *workspace.Workspace, name string, access *driver.SnapshotAccess) (snapshot.Tree, error) {
	files, err := Files(ctx, ws, name, access)
	if err != nil {
		return nil, err
	}
	return snapshot.Files(files), nil
}

// Trees returns two states of a workspace as trees. An empty from is Origin, an empty to Now.
func Trees(ctx context.Context, ws *workspace.Workspace, from, to string) (base, theirs snapshot.Tree, err error) {
	if base, err = Tree(ctx, ws, cmp.Or(from, Origin), nil); err != nil {
		return nil, nil, err
	}
	theirs, err = Tree(ctx, ws, to, nil)
	return base, theirs, err
}

// compareBase returns the base of comparison of a workspace that started empty.
func compareBase(ctx context.Context, ws *workspace.Workspace) (*driver.FS, error) {
	list, err := ws.Snapshots(ctx, nil)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fault.Advise(fmt.Errorf("workspace %s: %w: it started empty and has no snapshot to compare with", ws.ID(), fault.NotFound),
			"name a state, or take a snapshot first")
	}
	if s, ok := Base(list); ok {
		return ws.SnapshotFiles(ctx, s.ID, nil)
	}
	slices.Reverse(list)
	if own := slices.DeleteFunc(slices.Clone(list), isOfTool); len(own) > 0 {
		list = own
	}
	base, err := Tree(ctx, ws, list[0].ID, nil)
	for i := 1; i < len(list) && err == nil; i++ {
		if list[i].Labels[snapshot.CauseLabel] != causePut {
			continue
		}
		var before, after snapshot.Tree
		if before, err = Tree(ctx, ws, list[i-1].ID, nil); err != nil {
			break
		}
		if after, err = Tree(ctx, ws, list[i].ID, nil); err == nil {
			base, err = snapshot.Advance(ctx, base, before, after)
		}
	}
	if err != nil {
		return nil, err
	}
	return snapshot.Module(base), nil
}

// Base returns the newest snapshot, of a list that starts with the newest, that is Origin
// of a workspace that started empty: one that its owner requested or that RecordOpened took.
func Base(list []driver.SnapshotInfo) (driver.SnapshotInfo, bool) {
	at := slices.IndexFunc(list, func(s driver.SnapshotInfo) bool { return isRequested(s) || isOpened(s) })
	if at < 0 {
		return driver.SnapshotInfo{}, false
	}
	return list[at], true
}

// isRequested reports whether the owner of the workspace asked for a snapshot.
func isRequested(s driver.SnapshotInfo) bool {
	return s.Labels[snapshot.CauseLabel] == "" && !isOfTool(s)
}

func isOpened(s driver.SnapshotInfo) bool { return s.Labels[snapshot.CauseLabel] == CauseOpened }

// Times of RecordOpened.
const (
	openedAge  = 12 * time.Hour  // work that begins later has a state of its own
	openedTime = 5 * time.Second // the maximum time for the snapshot
)

// RecordOpened takes a snapshot of a workspace in which work begins, which is Origin from
// then on. A state of the last 12 hours stays, so that a restart changes nothing. If the
// snapshot would take longer than 5 s, there is none.
func RecordOpened(ctx context.Context, ws *workspace.Workspace) error {
	list, err := ws.Snapshots(ctx, nil)
	if err != nil {
		return err
	}
	var old []driver.SnapshotInfo
	for _, s := range list {
		switch age := time.Since(s.Created); {
		case !isOpened(s):
		case age < openedAge:
			return nil
		case age > DefaultAge:
			old = append(old, s)
		}
	}
	taking, cancel := context.WithTimeout(ctx, openedTime)
	defer cancel()
	_, err = ws.Snapshot(taking, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: CauseOpened}})
	if err != nil {
		return err
	}
	for _, s := range old {
		if err := ws.DeleteSnapshot(ctx, s.ID, nil); err != nil && fault.Of(err) != fault.WrongState && fault.Of(err) != fault.NotFound {
			return err
		}
	}
	return nil
}

func isOfTool(s driver.SnapshotInfo) bool { return s.Labels[snapshot.ToolLabel] != "" }

// Causes of the snapshots of RecordPut.
const (
	causePut       = "put"
	causeBeforePut = "before-put"
)

// RecordPut calls put, which writes files of the owner into a workspace. If the
// workspace started empty, snapshots record what was put, so that it belongs to
// Origin: only later changes are shown and applied.
func RecordPut(ctx context.Context, ws *workspace.Workspace, put func() error) error {
	list, err := ws.Snapshots(ctx, &driver.ListSnapshotsOptions{Origin: true})
	if err != nil || len(list) > 0 && list[len(list)-1].Workspace != ws.ID() || slices.ContainsFunc(list, isRequested) {
		return put() // it has no snapshots, or another origin
	}
	entries, err := ws.ReadDir(ctx, ".")
	if err != nil || len(entries) > 0 {
		before, err := ws.Snapshot(ctx, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: causeBeforePut}})
		if err == nil && len(list) > 0 && !isOfTool(list[0]) && list[0].Digest == before.Digest {
			err = ws.DeleteSnapshot(ctx, before.ID, nil)
		}
		if err != nil {
			return err
		}
	}
	failed := put()
	_, err = ws.Snapshot(ctx, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: causePut}})
	return errors.Join(failed, err)
}

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	snapshot.MergeOptions
	From   string // state of the source to compare with; "" is Origin
	To     string // state of the source whose changes are merged; "" is Now
	DryRun bool   // only report the changes
}

// Apply merges the changes of one workspace into another: all of them or, if there
// is a conflict and Markers is not set, none. It takes a snapshot of the target
// first, and rolls back to it if writing fails.
func Apply(ctx context.Context, source, target *workspace.Workspace, opts *ApplyOptions) (*snapshot.Applied, error) {
	var o ApplyOptions
	if opts != nil {
		o = *opts
	}
	base, theirs, err := Trees(ctx, source, o.From, o.To)
	if err != nil {
		return nil, err
	}
	ours, err := Tree(ctx, target, Now, nil)
	if err != nil {
		return nil, err
	}
	m, err := snapshot.Merge(ctx, base, ours, theirs, &o.MergeOptions)
	if err != nil {
		return nil, err
	}
	res := &snapshot.Applied{Merged: &m.Merged}
	next, paths := m.ApplyTo(ours)
	if len(m.Conflicts) > 0 && !o.Markers || o.DryRun || len(paths) == 0 {
		res.Done = len(paths) == 0 && len(m.Conflicts) == 0
		return res, nil
	}
	before, err := acceptTree(ctx, target, next, paths, "apply")
	if err != nil {
		return nil, err
	}
	res.Undo, res.Done = before.ID, true
	return res, nil
}

// acceptTree brings a workspace to a new state. If the provider has no Accept, the
// files are written one by one, with a rollback on failure. cause is that of the snapshot that is
// taken before.
func acceptTree(ctx context.Context, target *workspace.Workspace, next snapshot.Tree, paths []string, cause string) (driver.SnapshotInfo, error) {
	opts := &driver.SnapshotOptions{Name: "before-" + cause, Labels: map[string]string{snapshot.CauseLabel: cause}}
	before, err := target.Accept(ctx, snapshot.Module(next), paths, opts)
	if fault.Of(err) != fault.Unsupported {
		return before, err
	}
	if before, err = target.Snapshot(ctx, opts); err != nil {
		return driver.SnapshotInfo{}, err
	}
	if err := snapshot.Write(ctx, next, fileModule(target), &snapshot.WriteOptions{Only: paths}); err != nil {
		_, back := target.Rollback(context.WithoutCancel(ctx), before.ID, nil)
		return driver.SnapshotInfo{}, errors.Join(err, back)
	}
	return before, nil
}

// fileModule returns the files of a workspace as a module.
func fileModule(ws *workspace.Workspace) *driver.FS {
	return &driver.FS{Files: ws, Chmod: ws.Chmod, Symlink: ws.Symlink}
}
