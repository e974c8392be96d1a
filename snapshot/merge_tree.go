package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/workspace/driver"
)

// MergeOptions are the options of Merge.
type MergeOptions struct {
	// Only are the paths whose changes are merged, with their subtrees; nil is
	// every change. A path without a change is fault.NotFound.
	Only []string

	// Hunks are the hunks to merge by path, counted from 1 in the order of Diff
	// with the default context.
	Hunks Hunks

	// Markers writes both sides of a conflict into a text, with git's conflict
	// markers, and continues.
	Markers bool

	// MaxText is the maximum size of a file to be merged as text; 0 is 4 MiB.
	MaxText int64

	// Ignored includes what .gitignore files exclude, and caches.
	Ignored bool
	// Autorun includes autorun files: editor tasks, hooks and the like, which tools
	// of the user run without being asked.
	Autorun bool

	// Expect is what the changed paths must be in theirs, nil where nothing is: what a user
	// was shown. If one is something else, or has no entry, Merge is fault.Conflict. A nil
	// map expects nothing.
	Expect map[string]*Side

	// Ours and Theirs are the names of the sides in texts and conflict markers; ""
	// is "ours" and "theirs".
	Ours, Theirs string

	to *destination // nil is no directory of this host
}

// Choose restricts the merge to the paths of a comparison, unless paths or hunks are chosen.
func (o *MergeOptions) Choose(d *Comparison) {
	if len(o.Only) > 0 || len(o.Hunks) > 0 {
		return
	}
	for _, c := range d.Changes {
		o.Only = append(o.Only, c.Path)
		if c.From != "" {
			o.Only = append(o.Only, c.From)
		}
	}
}

// A MergedTree is the result of Merge: the changes to ours.
type MergedTree struct {
	Merged
	patches map[string]patch
	was     map[string]*Node // what was merged into, by path; nil if there was nothing
}

// Merge is a three-way merge: it finds the changes that bring those from base to
// theirs into ours. It does not change ours; see Apply. It never merges .git, at any
// level.
func Merge(ctx context.Context, base, ours, theirs Tree, opts *MergeOptions) (*MergedTree, error) {
	m := &merger{base: base, ours: ours, theirs: theirs, out: &MergedTree{Merged: Merged{Applied: []string{}}, patches: map[string]patch{}, was: map[string]*Node{}}}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.MaxText == 0 {
		m.opts.MaxText = 4 << 20
	}
	m.opts.Ours, m.opts.Theirs = cmp.Or(m.opts.Ours, "ours"), cmp.Or(m.opts.Theirs, "theirs")
	only, err := cleanPaths(m.opts.Only)
	if err != nil {
		return nil, err
	}
	if err := m.cleanHunks(); err != nil {
		return nil, err
	}
	if only == nil && len(m.opts.Hunks) > 0 {
		only = m.opts.Hunks.Paths()
	}
	d, err := Diff(ctx, base, theirs, &DiffOptions{NoRenames: true, Only: only, NoGit: true, NoIgnored: !m.opts.Ignored})
	if err != nil {
		return nil, err
	}
	if err := checkPathsChanged(only, d); err != nil {
		return nil, err
	}
	// Each change is looked up in all three trees, after Diff.
	for _, t := range []*Tree{&m.base, &m.ours, &m.theirs} {
		if *t, err = withListings(ctx, *t); err != nil {
			return nil, err
		}
	}
	m.out.Git, m.out.LeftOut = d.Git, d.LeftOut
	if !m.opts.Autorun {
		if d.Changes, err = m.dropAutorun(ctx, d.Changes); err != nil {
			return nil, err
		}
	}
	// Removals are merged bottom-up: a directory is removed only if it is empty. A
	// path that changes its type is merged once, afterwards.
	var removed, here []string
	for _, c := range d.Changes {
		if c.Kind == Removed {
			removed = append(removed, c.Path)
			continue
		}
		here = append(here, c.Path)
	}
	d.Changes = nil // some hundred bytes each
	stays := map[string]bool{}
	if len(removed) > 0 {
		for _, name := range here {
			stays[name] = true
		}
	}
	for _, name := range slices.Backward(removed) {
		if !stays[name] {
			if err := m.mergePath(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range here {
		if err := m.mergePath(ctx, name); err != nil {
			return nil, err
		}
	}
	slices.Sort(m.out.Applied)
	m.out.Applied = slices.Compact(m.out.Applied)
	return m.out, nil
}

// ApplyTo returns ours, the tree that was merged into, with the merged changes, and
// the paths of these.
func (m *MergedTree) ApplyTo(ours Tree) (Tree, []string) {
	return newPatchedTree(ours, m.patches), slices.Sorted(maps.Keys(m.patches))
}

// cleanHunks normalises the paths of hunks.
func (m *merger) cleanHunks() error {
	hunks := make(Hunks, len(m.opts.Hunks))
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
	changed := map[string]bool{} // with the directories above
	for _, c := range d.Changes {
		for p := c.Path; !changed[p]; p = path.Dir(p) {
			changed[p] = true
		}
	}
	for _, p := range only {
		if autorun.InGit(p) {
			return fmt.Errorf("snapshot: apply %s: %w: .git is never merged as files", p, fault.InvalidArgument)
		}
		if !changed[p] {
			return fmt.Errorf("snapshot: apply %s: %w: there is no change at this path", p, fault.NotFound)
		}
	}
	return nil
}

type merger struct {
	base, ours, theirs Tree
	opts               MergeOptions
	out                *MergedTree

	hasName func(ctx context.Context, path string) (bool, error) // whether the result may have a path; nil asks the trees
}

// statAt returns the node at a path; nil if nothing is there.
func statAt(ctx context.Context, t Tree, name string) (*Node, error) {
	dir, n, err := Lookup(ctx, t, name)
	if fault.Of(err) == fault.NotFound {
		return nil, nil
	}
	if dir != nil {
		dir.Close()
	}
	return n, err
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
	m.out.was[name] = o
	t, err := nodeAt(ctx, m.theirs, name)
	if err != nil {
		return err
	}
	if want, ok := m.opts.Expect[name]; m.opts.Expect != nil && (!ok || !matchesSide(want, t)) {
		return errTheirsChanged(name)
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
		return m.takeTheirs(ctx, name, t, m.openTheirs)
	case isType(driver.TypeDir, o, t):
		m.mergeMode(name, b, o, t)
		return nil
	case isType(driver.TypeFile, b, o, t):
		theirs, err := m.readTheirs(ctx, name, t)
		if err != nil {
			return err
		}
		return m.mergeText(ctx, name, b, o, t, theirs)
	}
	m.addContentConflict(name, b, o, t)
	return nil
}

// addContentConflict adds the conflict of a path that can't be merged as text.
func (m *merger) addContentConflict(name string, b, o, t *Node) {
	switch {
	case o == nil:
		m.addConflict(name, ConflictOurs, "removed in %s, changed in %s", m.opts.Ours, m.opts.Theirs)
	case t == nil:
		m.addConflict(name, ConflictTheirs, "changed in %s, removed in %s", m.opts.Ours, m.opts.Theirs)
	case b == nil:
		m.addConflict(name, ConflictContent, "added in %s and in %s with different content", m.opts.Ours, m.opts.Theirs)
	default:
		m.addConflict(name, ConflictContent, "changed in %s and in %s, and not a text that can be merged", m.opts.Ours, m.opts.Theirs)
	}
}

func (m *merger) addConflict(name string, kind ConflictKind, reason string, args ...any) *Conflict {
	m.out.Conflicts = append(m.out.Conflicts, Conflict{Path: name, Kind: kind, Reason: fmt.Sprintf(reason, args...)})
	return &m.out.Conflicts[len(m.out.Conflicts)-1]
}

// mergeDirectory replaces or removes a directory, whose entries were merged before.
func (m *merger) mergeDirectory(ctx context.Context, name string, t *Node) error {
	rest, err := m.out.remaining(ctx, m.ours, name)
	if err != nil {
		return err
	}
	if rest == "" {
		return m.takeTheirs(ctx, name, t, m.openTheirs)
	}
	if t == nil {
		m.out.Same = append(m.out.Same, name) // kept for its other entries
		return nil
	}
	m.addConflict(name, ConflictType, "a directory in %s that is not empty", m.opts.Ours)
	return nil
}

// takeTheirs makes a path equal to theirs.
func (m *merger) takeTheirs(ctx context.Context, name string, t *Node, open opener) error {
	p := patch{open: open}
	if t != nil {
		n := *t
		n.stat, n.ModTime, n.Opaque, n.Mode = nil, time.Now(), false, n.Mode&0o777
		p.node = &n
		if blocked, err := m.addParents(ctx, name); blocked || err != nil {
			return err
		}
	}
	m.out.patches[name] = p
	m.out.Applied = append(m.out.Applied, name)
	return nil
}

// addParents creates the parent directories that are missing in ours. If a parent is not
// a directory there, it adds a conflict and reports true.
func (m *merger) addParents(ctx context.Context, name string) (blocked bool, err error) {
	var missing []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		p, patched := m.out.patches[dir]
		if patched && p.node != nil {
			continue
		}
		o, err := statAt(ctx, m.ours, dir)
		if err != nil {
			return false, err
		}
		if isType(driver.TypeDir, o) && !patched {
			break
		}
		if o != nil && !patched {
			m.addConflict(name, ConflictType, "%s is a %s in %s, and a directory in %s", dir, o.Type, m.opts.Ours, m.opts.Theirs)
			return true, nil
		}
		missing = append(missing, dir)
	}
	for _, dir := range missing {
		t, err := statAt(ctx, m.theirs, dir)
		if err != nil {
			return false, err
		}
		n := &Node{Type: driver.TypeDir, Mode: 0o755, ModTime: time.Now()}
		if t != nil {
			n.Mode = t.Mode
		}
		m.out.patches[dir] = patch{node: n}
	}
	return false, nil
}

// mergeMode merges the modes of two directories, or of two files of equal content.
func (m *merger) mergeMode(name string, b, o, t *Node) {
	if b != nil && o.Mode == b.Mode {
		n := *o
		n.Mode, n.stat = t.Mode, nil
		m.out.patches[name] = patch{node: &n, open: fromTree(m.ours)}
		m.out.Applied = append(m.out.Applied, name)
		return
	}
	m.addConflict(name, ConflictMode, "mode %04o in %s, %04o in %s", o.Mode, m.opts.Ours, t.Mode, m.opts.Theirs)
}

// readText returns a file's text; nil if it is binary, too large, or a part of a repository,
// which a merge by lines would damage.
func (m *merger) readText(ctx context.Context, t Tree, name string, n *Node) ([]byte, error) {
	if n.Size > m.opts.MaxText || autorun.RepositoryIn(name) != "" {
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

// readTheirs is readText for theirs, which may change meanwhile.
func (m *merger) readTheirs(ctx context.Context, name string, t *Node) ([]byte, error) {
	text, err := m.readText(ctx, m.theirs, name, t)
	if err == nil && text != nil && sum(text) != t.Content {
		err = errTheirsChanged(name)
	}
	return text, err
}

// openTheirs opens a file of theirs. If its content is not that of t any more, reading fails.
func (m *merger) openTheirs(ctx context.Context, name string, t *Node) (io.ReadCloser, error) {
	r, _, err := OpenFile(ctx, m.theirs, name)
	if err != nil {
		return nil, err
	}
	if _, stored := r.(*storedFile); stored { // the store checks it
		return r, nil
	}
	h := hashers.Get().(*hasher)
	h.sum.Reset()
	return &checkedFile{r, h, name, t.Content}, nil
}

// A checkedFile is an open file that must have a certain content.
type checkedFile struct {
	io.ReadCloser
	read *hasher // of the pool, until Close
	name string
	want ID
}

func (f *checkedFile) Read(buf []byte) (int, error) {
	n, err := f.ReadCloser.Read(buf)
	f.read.sum.Write(buf[:n])
	if errors.Is(err, io.EOF) && ID(f.read.sum.Sum(nil)) != f.want {
		err = errTheirsChanged(f.name)
	}
	return n, err
}

// Close closes the file.
func (f *checkedFile) Close() error {
	if f.read != nil {
		hashers.Put(f.read)
		f.read = nil
	}
	return f.ReadCloser.Close()
}

func errTheirsChanged(name string) error {
	return fmt.Errorf("snapshot: apply: %w: %s was changed in the workspace meanwhile; nothing was written: look at it again", fault.Conflict, name)
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
	theirs, err := m.readTheirs(ctx, name, t)
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
		m.addConflict(name, ConflictMode, "mode %04o in %s, %04o in %s", o.Mode, m.opts.Ours, t.Mode, m.opts.Theirs)
		return nil
	}
	n := *o
	n.Mode, n.stat, n.ModTime = mode, nil, time.Now()
	if o.Content == t.Content || t.Content == b.Content {
		if mode == o.Mode {
			m.out.Same = append(m.out.Same, name)
			return nil
		}
		return m.takeTheirs(ctx, name, &n, fromTree(m.ours))
	}
	base, err := m.readText(ctx, m.base, name, b)
	if err != nil {
		return err
	}
	ours, err := m.readText(ctx, m.ours, name, o)
	if err == nil && ours != nil && sum(ours) != o.Content {
		err = errChanged(name)
	}
	if err != nil {
		return err
	}
	if base == nil || ours == nil || theirs == nil {
		if o.Content == b.Content {
			n.Content, n.Size, n.List = t.Content, t.Size, t.List
			return m.takeTheirs(ctx, name, &n, m.openTheirs)
		}
		m.addContentConflict(name, b, o, t)
		return nil
	}
	var markers *Markers
	if m.opts.Markers {
		markers = &Markers{m.opts.Ours, m.opts.Theirs}
	}
	merged, conflicts := MergeText(base, ours, theirs, markers)
	if len(conflicts) > 0 {
		c := m.addConflict(name, ConflictLines, "the same lines were changed in %s and in %s", m.opts.Ours, m.opts.Theirs)
		c.Text, c.Marked = conflicts, m.opts.Markers
		if !m.opts.Markers {
			return nil
		}
	}
	n.Content, n.Size, n.List = sum(merged), int64(len(merged)), ID{}
	if equalNodes(o, &n) { // the change is there already, beside others
		m.out.Same = append(m.out.Same, name)
		return nil
	}
	return m.takeTheirs(ctx, name, &n, inMemory(merged))
}
