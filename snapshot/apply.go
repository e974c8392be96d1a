package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	MergeOptions
	DryRun bool // only report the changes

	// Undo is the store for a snapshot of the old state, with which the change can
	// be undone; nil takes none.
	Undo *Store
	Info driver.SnapshotInfo // of that snapshot

	Stage    string // see RestoreOptions
	Journals string // likewise
	Owner    *Owner // of written files; nil is the owner of the directory if this process is root, else its user
}

// Labels of a snapshot for Undo.
const (
	AfterLabel = "croft.apply.after" // digest of the applied state
	DirLabel   = "croft.apply.dir"   // the directory that was applied to, without symlinks
	NameLabel  = "croft.apply.name"  // name of the workspace, if the caller sets it
)

// Apply merges the changes from base to theirs into a directory of this host: all
// of them or, if there is a conflict and Markers is not set, none. Each file is
// replaced atomically. A file that is changed while Apply runs is fault.Conflict, and
// nothing is written. If the process is killed, the directory has its old state
// or, after Recover, the new one, except for files that another program changed meanwhile.
func Apply(ctx context.Context, base, theirs Tree, dir string, opts *ApplyOptions) (*Applied, error) {
	if opts == nil {
		opts = &ApplyOptions{}
	}
	if _, err := Recover(ctx, dir, opts.Stage, opts.Journals, opts.Undo); err != nil {
		return nil, err
	}
	root, err := realPath(dir)
	if err != nil {
		return nil, err
	}
	owner := opts.Owner
	if owner == nil {
		owner = dirOwner(root)
	}
	began := time.Now()
	ours, merge := HostDir(dir, nil), opts.MergeOptions
	merge.to = &destination{root: root, files: true}
	m, err := Merge(ctx, base, ours, theirs, &merge)
	if err != nil {
		return nil, err
	}
	res := &Applied{Merged: &m.Merged}
	if len(m.Conflicts) > 0 && !opts.Markers || opts.DryRun || len(m.patches) == 0 {
		res.Done = len(m.patches) == 0 && len(m.Conflicts) == 0
		return res, nil
	}
	paths := slices.Sorted(maps.Keys(m.patches))
	next := newPatchedTree(ours, m.patches)
	unchanged := func() error { return m.checkUnchanged(ctx, ours, opts.Undo, res.Undo, began) }
	restore := &RestoreOptions{Only: paths, PlainModes: true, Stage: opts.Stage, Journals: opts.Journals, Owner: owner, check: unchanged}
	if opts.Undo != nil {
		// The journal has the id before there is a snapshot: Recover deletes that of a
		// change that never began.
		restore.undo = driver.NewID()
		restore.check = func() error {
			if err := saveUndo(ctx, opts, restore.undo, dir, ours, next, paths); err != nil {
				return err
			}
			res.Undo = restore.undo
			driver.Step(ctx, "saved")
			return unchanged()
		}
	}
	_, err = Restore(ctx, next, dir, restore)
	if err != nil && res.Undo != "" && (fault.Of(err) == fault.Conflict || unchanged() == nil) { // nothing was written
		err = errors.Join(err, opts.Undo.Delete(ctx, res.Undo))
	}
	if err != nil {
		return nil, err
	}
	res.Done = true
	return res, nil
}

// ApplyCompared is Apply of what a Diff of the two trees found, or of what opts chooses of it,
// for a workspace of that id and name. The result has what the Diff left out, too. It drops
// d.Changes, some hundred bytes each.
func ApplyCompared(ctx context.Context, base, theirs Tree, d *Comparison, dir, id, name string, opts ApplyOptions) (*Applied, error) {
	res := &Applied{Merged: &Merged{Applied: []string{}}, Done: true}
	if len(d.Changes) > 0 {
		opts.Choose(d)
		d.Changes = nil
		opts.Theirs = "workspace " + name
		opts.Info = driver.SnapshotInfo{Name: "before-apply", Workspace: id, Labels: map[string]string{CauseLabel: "apply", NameLabel: name}}
		var err error
		if res, err = Apply(ctx, base, theirs, dir, &opts); err != nil {
			return nil, err
		}
	}
	res.AddScope(d)
	return res, nil
}

func errChanged(name string) error {
	return fmt.Errorf("snapshot: apply: %w: %s was changed meanwhile; nothing was written: apply again", fault.Conflict, name)
}

// checkUnchanged checks that what is about to be replaced in ours is still what was merged,
// and that the snapshot for Undo contains it. Files that changed shortly before the merge
// began are read again: their times may not show a further change.
func (m *MergedTree) checkUnchanged(ctx context.Context, ours Tree, s *Store, undo string, began time.Time) error {
	var saved Tree
	if undo != "" {
		var err error
		if saved, _, err = s.Tree(ctx, undo); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.patches)) {
		was := m.was[name]
		now, err := statAt(ctx, ours, name)
		if err != nil {
			return err
		}
		sameStat := isType(driver.TypeFile, was, now) && was.stat != nil && *was.stat == *now.stat && was.stat.ctime < began.Add(-time.Second).UnixNano()
		if !sameStat {
			if now, err = nodeAt(ctx, ours, name); err != nil {
				return err
			}
			if !equalNodes(was, now) {
				return errChanged(name)
			}
		}
		if node := m.patches[name].node; isType(driver.TypeDir, now) && !isType(driver.TypeDir, node) {
			if rest, err := m.remaining(ctx, ours, name); rest != "" || err != nil {
				return cmp.Or(err, errChanged(rest))
			}
		}
		if saved == nil || isType(driver.TypeOther, was) {
			continue
		}
		if kept, err := nodeAt(ctx, saved, name); err != nil || !equalNodes(was, kept) {
			return cmp.Or(err, errChanged(name))
		}
	}
	return nil
}

// remaining returns an entry of a directory of ours that is not removed; "" if all
// are.
func (m *MergedTree) remaining(ctx context.Context, ours Tree, name string) (string, error) {
	dir, _, err := openDir(ctx, ours, name)
	if err != nil || dir == nil {
		return "", err
	}
	defer dir.Close()
	nodes, err := dir.Nodes(ctx)
	for i := range nodes {
		at := path.Join(name, nodes[i].Name)
		if p, ok := m.patches[at]; !ok || p.node != nil {
			return at, nil
		}
	}
	return "", err
}

// saveUndo takes a snapshot of paths before they change.
func saveUndo(ctx context.Context, opts *ApplyOptions, id, dir string, ours, next Tree, paths []string) error {
	after, each, err := digestPaths(ctx, next, paths)
	if err != nil {
		return err
	}
	real, err := realPath(dir)
	if err != nil {
		return err
	}
	info := opts.Info
	info.Labels = maps.Clone(info.Labels)
	if info.Labels == nil {
		info.Labels = map[string]string{}
	}
	info.Labels[AfterLabel], info.Labels[DirLabel] = after, real
	_, err = opts.Undo.Take(ctx, Subset(ours, paths), &TakeOptions{Info: info, Paths: paths, Complete: true, id: id, after: each})
	return err
}

// digestPaths returns the digest of a Subset of a tree, and a short one of what is at each
// path, without what is at longer ones.
func digestPaths(ctx context.Context, t Tree, paths []string) (whole string, each []string, err error) {
	sum, short := driver.NewTreeDigest(), make(map[string]string, len(paths))
	empty := shortDigest(driver.NewTreeDigest())
	for _, p := range paths {
		short[p] = empty
	}
	// The walk visits all below a path before what comes after it, so that only the path of the
	// entry and those above it have an open digest, of several KiB.
	type openDigest struct {
		path string
		sum  *driver.TreeDigest
	}
	var open []openDigest
	var free []*driver.TreeDigest
	closeUntil := func(name string) {
		for n := len(open) - 1; n >= 0 && !strings.HasPrefix(name+"/", open[n].path+"/"); n-- {
			short[open[n].path] = shortDigest(open[n].sum)
			free, open = append(free, open[n].sum), open[:n]
		}
	}
	err = Walk(ctx, Subset(t, paths), func(name string, dir Directory, n *Node) (bool, error) {
		if err := fillContent(ctx, dir, n); err != nil {
			return false, err
		}
		info := n.Info(name)
		sum.Add(name, info, info.Digest)
		closeUntil(name)
		if _, ok := short[name]; ok {
			if len(free) == 0 {
				free = append(free, driver.NewTreeDigest())
			}
			last := len(free) - 1
			free[last].Reset()
			open, free = append(open, openDigest{name, free[last]}), free[:last]
		}
		if len(open) > 0 {
			open[len(open)-1].sum.Add(name, info, info.Digest)
		}
		return true, nil
	})
	closeUntil("")
	for _, p := range paths {
		each = append(each, short[p])
	}
	return sum.Sum(), each, err
}

func shortDigest(sum *driver.TreeDigest) string {
	const short = 16
	digest := sum.Sum()
	return strings.Clone(digest[len(digest)-short:]) // without the rest, which it would hold
}

// dirOwner returns the owner of a directory if this process may give files to it: root that
// works in a directory of another user leaves no files of its own there.
func dirOwner(dir string) *Owner {
	var st unix.Stat_t
	if os.Geteuid() != 0 || unix.Stat(dir, &st) != nil || st.Uid == 0 {
		return nil
	}
	return &Owner{int(st.Uid), int(st.Gid)}
}

// realPath returns the absolute path of a directory without symlinks.
func realPath(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return "", hostError("open", dir, err)
	}
	return real, nil
}
