package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Names that stand for states: what a workspace started from, and what it is now.
const (
	Origin = "@origin"
	Now    = "@now"
)

// Files returns a state of a workspace: a snapshot by its id or name, Now, or
// Origin, which for one that started empty is its newest snapshot that somebody
// asked for or, without one, the oldest that Croft took by itself.
func Files(ctx context.Context, ws *workspace.Workspace, name string, access *driver.SnapshotAccess) (*driver.FS, error) {
	if name == Now {
		name = ""
	}
	files, err := ws.SnapshotFiles(ctx, name, access)
	if name == Origin && fault.Of(err) == fault.NotFound && fault.CauseOf(err) != fault.CauseGone {
		return earlier(ctx, ws)
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

// earlier returns what a workspace that started empty is compared with.
func earlier(ctx context.Context, ws *workspace.Workspace) (*driver.FS, error) {
	list, err := ws.Snapshots(ctx, nil)
	if err != nil {
		return nil, err
	}
	id := ""
	for _, s := range list {
		if id = s.ID; s.Labels[snapshot.CauseLabel] == "" {
			break
		}
	}
	if id == "" {
		return nil, fmt.Errorf("workspace %s: %w: it started empty and has no snapshot to compare with; name one, or take one first", ws.ID(), fault.NotFound)
	}
	return ws.SnapshotFiles(ctx, id, nil)
}

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	snapshot.MergeOptions
	From   string // the state of the source since which changes count; "" is Origin
	DryRun bool   // say what would be done
}

// Applied says what Apply did.
type Applied struct {
	*snapshot.Merged
	Done bool   `json:"done"`           // false where there were conflicts, or in a dry run: nothing was changed
	Undo string `json:"undo,omitempty"` // the snapshot of what was there before
}

// Apply merges what changed in one workspace into another: all of it or, where
// there is a conflict and no markers were asked for, nothing. What was there
// before is a snapshot, to which the other returns where something fails midway.
func Apply(ctx context.Context, source, target *workspace.Workspace, opts *ApplyOptions) (*Applied, error) {
	o := ApplyOptions{From: Origin}
	if opts != nil {
		o = *opts
	}
	if o.From == "" {
		o.From = Origin
	}
	base, err := Tree(ctx, source, o.From, nil)
	if err != nil {
		return nil, err
	}
	theirs, err := Tree(ctx, source, Now, nil)
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
	res := &Applied{Merged: m}
	next, paths := m.ApplyTo(ours)
	if len(m.Conflicts) > 0 && !o.Markers || o.DryRun || len(paths) == 0 {
		res.Done = len(paths) == 0 && len(m.Conflicts) == 0
		return res, nil
	}
	before, err := accept(ctx, target, next, paths)
	if err != nil {
		return nil, err
	}
	res.Undo, res.Done = before.ID, true
	return res, nil
}

// accept brings a workspace to what it is to become. Where it can't do so at once
// the files are written one by one, and it returns to what it was if that fails.
func accept(ctx context.Context, target *workspace.Workspace, next snapshot.Tree, paths []string) (driver.SnapshotInfo, error) {
	opts := &driver.SnapshotOptions{Name: "before-apply", Labels: map[string]string{snapshot.CauseLabel: "apply"}}
	before, err := target.Accept(ctx, snapshot.Module(next), paths, opts)
	if fault.Of(err) != fault.Unsupported {
		return before, err
	}
	if before, err = target.Snapshot(ctx, opts); err != nil {
		return driver.SnapshotInfo{}, err
	}
	if err := snapshot.Write(ctx, next, files(target), &snapshot.WriteOptions{Only: paths}); err != nil {
		_, back := target.Rollback(context.WithoutCancel(ctx), before.ID, nil)
		return driver.SnapshotInfo{}, errors.Join(err, back)
	}
	return before, nil
}

// files are the files of a workspace as a module.
func files(ws *workspace.Workspace) *driver.FS {
	return &driver.FS{Files: ws, Chmod: ws.Chmod, Symlink: ws.Symlink}
}
