package snapshot

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// MergeOptions are the options of Merge.
type MergeOptions struct {
	// Only are the paths whose changes are merged, with their subtrees; nil is
	// every change. A path without a change is fault.NotFound.
	Only []string

	// Hunks are the hunks to merge by path, counted from 1 in the order of Diff
	// with the default context.
	Hunks map[string][]int

	// Markers writes both sides of a conflict into a text, with git's conflict
	// markers, and continues.
	Markers bool

	// MaxText is the maximum size of a file to be merged as text; 0 is 4 MiB.
	MaxText int64
}

// A Merged is the result of a merge: the changes to ours.
type Merged struct {
	Applied   []string   `json:"applied"`             // paths that change
	Same      []string   `json:"same,omitempty"`      // paths that are equal in ours and theirs
	Conflicts []Conflict `json:"conflicts,omitempty"` // paths that stay unchanged, or get markers

	patches map[string]patch
}

// A Conflict is a path that both sides changed incompatibly.
type Conflict struct {
	Path   string         `json:"path"`
	Reason string         `json:"reason"`
	Text   []TextConflict `json:"text,omitempty"`
}

// Merge is a three-way merge: it finds the changes that bring those from base to
// theirs into ours. It does not change ours; see Apply.
func Merge(ctx context.Context, base, ours, theirs Tree, opts *MergeOptions) (*Merged, error) {
	m := &merger{base: base, ours: ours, theirs: theirs, out: &Merged{Applied: []string{}, patches: map[string]patch{}}}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.MaxText == 0 {
		m.opts.MaxText = 4 << 20
	}
	only, err := cleanPaths(m.opts.Only)
	if err != nil {
		return nil, err
	}
	if err := m.cleanHunks(); err != nil {
		return nil, err
	}
	if only == nil && len(m.opts.Hunks) > 0 {
		only = slices.Sorted(maps.Keys(m.opts.Hunks))
	}
	d, err := Diff(ctx, base, theirs, &DiffOptions{NoRenames: true, Only: only})
	if err != nil {
		return nil, err
	}
	if err := checkPathsChanged(only, d); err != nil {
		return nil, err
	}
	// Removals are merged bottom-up: a directory is removed only if it is empty. A
	// path that changes its type is merged once, afterwards.
	stays := map[string]bool{}
	for _, c := range d.Changes {
		if c.Kind != Removed {
			stays[c.Path] = true
		}
	}
	for _, c := range slices.Backward(d.Changes) {
		if c.Kind == Removed && !stays[c.Path] {
			if err := m.mergePath(ctx, c.Path); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range d.Changes {
		if c.Kind != Removed {
			if err := m.mergePath(ctx, c.Path); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(m.out.Applied)
	m.out.Applied = slices.Compact(m.out.Applied)
	return m.out, nil
}

// ApplyTo returns ours, the tree that was merged into, with the merged changes, and
// the paths of these.
func (m *Merged) ApplyTo(ours Tree) (Tree, []string) {
	return newPatchedTree(ours, m.patches), slices.Sorted(maps.Keys(m.patches))
}

// cleanHunks normalises the paths of hunks.
func (m *merger) cleanHunks() error {
	hunks := make(map[string][]int, len(m.opts.Hunks))
	for p, list := range m.opts.Hunks {
		clean, err := cleanPaths([]string{p})
		if err != nil {
			return err
		}
		hunks[clean[0]] = append(hunks[clean[0]], list...)
	}
	m.opts.Hunks = hunks
	return nil
}

func checkPathsChanged(only []string, d *Comparison) error {
	for _, p := range only {
		if !slices.ContainsFunc(d.Changes, func(c FileChange) bool { return p == "." || c.Path == p || strings.HasPrefix(c.Path, p+"/") }) {
			return fmt.Errorf("snapshot: apply %s: %w: there is no change at this path", p, fault.NotFound)
		}
	}
	return nil
}

type merger struct {
	base, ours, theirs Tree
	opts               MergeOptions
	out                *Merged
}

// nodeAt returns the node at a path, with its digest; nil if there is none.
func nodeAt(ctx context.Context, t Tree, name string) (*Node, error) {
	dir, n, err := Lookup(ctx, t, name)
	if fault.Of(err) == fault.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return n, fillContent(ctx, dir, n)
}

// equalNodes compares two nodes, without times.
func equalNodes(a, b *Node) bool {
	switch {
	case a == nil || b == nil:
		return a == b
	case a.Type != b.Type:
		return false
	case a.Type == driver.TypeSymlink:
		return a.Target == b.Target
	}
	return a.Mode&0o777 == b.Mode&0o777 && (a.Type != driver.TypeFile || a.Content == b.Content)
}

func isType(t driver.FileType, nodes ...*Node) bool {
	return !slices.ContainsFunc(nodes, func(n *Node) bool { return n == nil || n.Type != t })
}

func (m *merger) mergePath(ctx context.Context, name string) error {
	b, err := nodeAt(ctx, m.base, name)
	if err != nil {
		return err
	}
	o, err := nodeAt(ctx, m.ours, name)
	if err != nil {
		return err
	}
	t, err := nodeAt(ctx, m.theirs, name)
	if err != nil {
		return err
	}
	chosen, some := m.opts.Hunks[name]
	switch {
	case some:
		return m.mergeHunks(ctx, name, b, o, t, chosen)
	case equalNodes(o, t):
		m.out.Same = append(m.out.Same, name)
		return nil
	case isType(driver.TypeDir, o) && (t == nil || t.Type != driver.TypeDir):
		return m.mergeDirectory(ctx, name, t)
	case equalNodes(o, b):
		return m.takeTheirs(ctx, name, t, fromTree(m.theirs, name))
	case isType(driver.TypeDir, o, t):
		m.mergeMode(name, b, o, t)
		return nil
	case isType(driver.TypeFile, b, o, t):
		theirs, err := m.readText(ctx, m.theirs, name, t)
		if err != nil {
			return err
		}
		return m.mergeText(ctx, name, b, o, t, theirs)
	}
	m.addConflict(name, conflictReason(b, o, t), nil)
	return nil
}

func conflictReason(b, o, t *Node) string {
	switch {
	case o == nil:
		return "removed in ours, changed in theirs"
	case t == nil:
		return "changed in ours, removed in theirs"
	case b == nil:
		return "added on both sides with different content"
	}
	return "changed on both sides, and not a text that can be merged"
}

func (m *merger) addConflict(name, reason string, text []TextConflict) {
	m.out.Conflicts = append(m.out.Conflicts, Conflict{Path: name, Reason: reason, Text: text})
}

// mergeDirectory replaces or removes a directory, whose entries were merged before.
func (m *merger) mergeDirectory(ctx context.Context, name string, t *Node) error {
	dir, _, err := openDir(ctx, newPatchedTree(m.ours, m.out.patches), name)
	if err != nil {
		return err
	}
	defer dir.Close()
	nodes, err := dir.Nodes(ctx)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return m.takeTheirs(ctx, name, t, fromTree(m.theirs, name))
	}
	if t == nil {
		m.out.Same = append(m.out.Same, name) // kept for its other entries
		return nil
	}
	m.addConflict(name, "a directory in ours that is not empty", nil)
	return nil
}

// takeTheirs makes a path equal to theirs.
func (m *merger) takeTheirs(ctx context.Context, name string, t *Node, open opener) error {
	p := patch{open: open}
	if t != nil {
		n := *t
		n.stat, n.ModTime, n.Opaque, n.Mode = nil, time.Now(), false, n.Mode&0o777
		p.node = &n
		if err := m.addParents(ctx, name); err != nil {
			return err
		}
	}
	m.out.patches[name] = p
	m.out.Applied = append(m.out.Applied, name)
	return nil
}

// addParents creates the parent directories that are missing in ours.
func (m *merger) addParents(ctx context.Context, name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if p, ok := m.out.patches[dir]; ok && p.node != nil {
			continue
		}
		o, err := nodeAt(ctx, m.ours, dir)
		if err != nil {
			return err
		}
		if _, gone := m.out.patches[dir]; isType(driver.TypeDir, o) && !gone {
			return nil
		}
		if o != nil && o.Type != driver.TypeDir {
			return nil // its own merge made it a directory, or is a conflict
		}
		t, err := nodeAt(ctx, m.theirs, dir)
		if err != nil {
			return err
		}
		n := &Node{Type: driver.TypeDir, Mode: 0o755, ModTime: time.Now()}
		if t != nil {
			n.Mode = t.Mode
		}
		m.out.patches[dir] = patch{node: n}
	}
	return nil
}

// mergeMode merges the modes of two directories, or of two files of equal content.
func (m *merger) mergeMode(name string, b, o, t *Node) {
	if b != nil && o.Mode == b.Mode {
		n := *o
		n.Mode, n.stat = t.Mode, nil
		m.out.patches[name] = patch{node: &n, open: fromTree(m.ours, name)}
		m.out.Applied = append(m.out.Applied, name)
		return
	}
	m.addConflict(name, fmt.Sprintf("mode %04o in ours, %04o in theirs", o.Mode, t.Mode), nil)
}

// readText returns a file's text; nil if it is binary or too large.
func (m *merger) readText(ctx context.Context, t Tree, name string, n *Node) ([]byte, error) {
	if n.Size > m.opts.MaxText {
		return nil, nil
	}
	data, err := readFile(ctx, t, name, m.opts.MaxText)
	if err != nil || isBinary(data) {
		return nil, err
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// mergeHunks merges the chosen hunks of a file.
func (m *merger) mergeHunks(ctx context.Context, name string, b, o, t *Node, chosen []int) error {
	if !isType(driver.TypeFile, b, o, t) {
		return fmt.Errorf("snapshot: apply hunks of %s: %w: it must be a file on all sides", name, fault.InvalidArgument)
	}
	base, err := m.readText(ctx, m.base, name, b)
	if err != nil {
		return err
	}
	theirs, err := m.readText(ctx, m.theirs, name, t)
	if err != nil {
		return err
	}
	if base == nil || theirs == nil {
		return fmt.Errorf("snapshot: apply hunks of %s: %w: it is binary, or too large", name, fault.InvalidArgument)
	}
	picked, count := pickHunks(base, theirs, 3, chosen)
	for _, c := range chosen {
		if c < 1 || c > count {
			return fmt.Errorf("snapshot: apply hunk %d of %s: %w: its hunks are 1 to %d", c, name, fault.InvalidArgument, count)
		}
	}
	n := *t
	n.Mode, n.Content = b.Mode, sum(picked) // a hunk has no mode
	return m.mergeText(ctx, name, b, o, &n, picked)
}

// mergeText merges three versions of a file, with the text of theirs given.
func (m *merger) mergeText(ctx context.Context, name string, b, o, t *Node, theirs []byte) error {
	mode := o.Mode
	switch {
	case o.Mode == b.Mode:
		mode = t.Mode
	case t.Mode != b.Mode && t.Mode != o.Mode:
		m.addConflict(name, fmt.Sprintf("mode %04o in ours, %04o in theirs", o.Mode, t.Mode), nil)
		return nil
	}
	n := *o
	n.Mode, n.stat, n.ModTime = mode, nil, time.Now()
	if o.Content == t.Content || t.Content == b.Content {
		return m.takeTheirs(ctx, name, &n, fromTree(m.ours, name))
	}
	base, err := m.readText(ctx, m.base, name, b)
	if err != nil {
		return err
	}
	ours, err := m.readText(ctx, m.ours, name, o)
	if err != nil {
		return err
	}
	if base == nil || ours == nil || theirs == nil {
		if o.Content == b.Content {
			n.Content, n.Size, n.List = t.Content, t.Size, t.List
			return m.takeTheirs(ctx, name, &n, fromTree(m.theirs, name))
		}
		m.addConflict(name, conflictReason(b, o, t), nil)
		return nil
	}
	merged, conflicts := MergeText(base, ours, theirs, m.opts.Markers)
	if len(conflicts) > 0 {
		m.addConflict(name, "both sides changed the same lines", conflicts)
		if !m.opts.Markers {
			return nil
		}
	}
	n.Content, n.Size, n.List = sum(merged), int64(len(merged)), ID{}
	return m.takeTheirs(ctx, name, &n, inMemory(merged))
}

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
	Owner    *Owner
}

// Applied is the result of Apply.
type Applied struct {
	*Merged
	Done bool   `json:"done"`           // false if nothing was changed: conflicts, or a dry run
	Undo string `json:"undo,omitempty"` // id of the snapshot for Undo
}

// AfterLabel is the label of a snapshot for Undo with the digest of the applied
// state.
const AfterLabel = "croft.apply.after"

// Apply merges the changes from base to theirs into a directory of this host: all
// of them or, if there is a conflict and Markers is not set, none. Each file is
// replaced atomically. If the process is killed, the directory has its old state
// or, after Recover, the new one.
func Apply(ctx context.Context, base, theirs Tree, dir string, opts *ApplyOptions) (*Applied, error) {
	if opts == nil {
		opts = &ApplyOptions{}
	}
	if err := Recover(ctx, dir, opts.Stage, opts.Journals); err != nil {
		return nil, err
	}
	ours := HostDir(dir, nil)
	m, err := Merge(ctx, base, ours, theirs, &opts.MergeOptions)
	if err != nil {
		return nil, err
	}
	res := &Applied{Merged: m}
	if len(m.Conflicts) > 0 && !opts.Markers || opts.DryRun || len(m.patches) == 0 {
		res.Done = len(m.patches) == 0 && len(m.Conflicts) == 0
		return res, nil
	}
	paths := slices.Sorted(maps.Keys(m.patches))
	next := newPatchedTree(ours, m.patches)
	if opts.Undo != nil {
		if res.Undo, err = saveUndo(ctx, opts, ours, next, paths); err != nil {
			return nil, err
		}
	}
	if _, err := Restore(ctx, next, dir, &RestoreOptions{Only: paths, PlainModes: true, Stage: opts.Stage, Journals: opts.Journals, Owner: opts.Owner}); err != nil {
		return nil, err
	}
	res.Done = true
	return res, nil
}

// saveUndo takes a snapshot of paths before they change.
func saveUndo(ctx context.Context, opts *ApplyOptions, ours, next Tree, paths []string) (string, error) {
	after, err := Digest(ctx, Subset(next, paths))
	if err != nil {
		return "", err
	}
	info := opts.Info
	info.Labels = maps.Clone(info.Labels)
	if info.Labels == nil {
		info.Labels = map[string]string{}
	}
	info.Labels[AfterLabel] = after
	m, err := opts.Undo.Take(ctx, Subset(ours, paths), &TakeOptions{Info: info, Paths: paths, Complete: true})
	if err != nil {
		return "", err
	}
	return m.ID, nil
}

// UndoOptions are the options of Undo.
type UndoOptions struct {
	Force    bool // also if the applied state was changed since
	Stage    string
	Journals string
	Owner    *Owner
}

// Undo reverts an Apply to a directory. If the applied paths were changed since, it
// is fault.Conflict.
func Undo(ctx context.Context, s *Store, id, dir string, opts *UndoOptions) (*RestoreResult, error) {
	if opts == nil {
		opts = &UndoOptions{}
	}
	m, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	after, ok := m.Labels[AfterLabel]
	if !ok || len(m.Paths) == 0 {
		return nil, fmt.Errorf("snapshot: undo %s: %w: it is not a snapshot that apply made", id, fault.InvalidArgument)
	}
	if err := Recover(ctx, dir, opts.Stage, opts.Journals); err != nil {
		return nil, err
	}
	paths := m.pathStrings()
	now, err := Digest(ctx, Subset(HostDir(dir, nil), paths))
	if err != nil {
		return nil, err
	}
	if now != after && !opts.Force {
		return nil, fmt.Errorf("snapshot: undo %s: %w: the applied files were changed since; force overwrites them", id, fault.Conflict)
	}
	return Restore(ctx, s.StoredTree(m.Root), dir, &RestoreOptions{Only: paths, Stage: opts.Stage, Journals: opts.Journals, Owner: opts.Owner})
}
