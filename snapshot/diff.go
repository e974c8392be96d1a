package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/internal/textdiff"
	"github.com/croft-run/croft/workspace/driver"
)

// DiffOptions are the options of Diff.
type DiffOptions struct {
	Text    bool // fill hunks and line counts
	Context int  // lines around a change; 0 is 3, and -1 is 0

	// Only are the paths to compare, with their subtrees; nil is all.
	Only []string

	// NoRenames reports a renamed file as one that was removed and one that was
	// added.
	NoRenames bool

	// Binary fills, with Text, Patch for files that are binary, or too large to be
	// compared as text.
	Binary bool

	// MaxText is the maximum size of a file to be compared as text; 0 is 4 MiB.
	MaxText int64

	// NoGit leaves out .git at any level; Comparison.Git says what changed there.
	NoGit bool

	// NoIgnored leaves out what .gitignore files exclude, and caches, unless Only
	// names them. Comparison.LeftOut lists them.
	NoIgnored bool

	// Unnamed says that Only is what may have changed, not what a user named:
	// NoIgnored leaves out paths of Only, too.
	Unnamed bool
}

// Diff compares two trees. It ignores times. Directories and files with digests are
// compared by these, so that equal subtrees cost nothing.
func Diff(ctx context.Context, a, b Tree, opts *DiffOptions) (*Comparison, error) {
	d := &treeDiff{a: a, b: b, out: &Comparison{Changes: []FileChange{}}}
	if opts != nil {
		d.opts = *opts
	}
	only, err := cleanPaths(d.opts.Only)
	if err != nil {
		return nil, err
	}
	d.only = newPathSet(only)
	d.ignore = ignoreState{old: caches, now: caches}
	if d.opts.MaxText == 0 {
		d.opts.MaxText = 4 << 20
	}
	switch {
	case d.opts.Context == 0:
		d.opts.Context = 3
	case d.opts.Context < 0:
		d.opts.Context = 0
	}
	from, err := a.Root(ctx)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := b.Root(ctx)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	if err := d.compareDirs(ctx, from, to, ""); err != nil {
		return nil, err
	}
	d.addSpecial()
	if !d.opts.NoRenames {
		d.detectRenames()
	}
	if err := d.diffTexts(ctx); err != nil {
		return nil, err
	}
	d.countStats()
	return d.out, nil
}

type treeDiff struct {
	a, b Tree
	opts DiffOptions
	only *pathSet
	out  *Comparison

	ignore ignoreState // of the directory that is compared
}

func sideFromNode(n *Node) *Side {
	info := n.Info("")
	return &Side{Type: info.Type, Mode: info.Mode, Size: info.Size, Digest: info.Digest, Target: info.Target}
}

// matchesSide reports whether a node is what a side describes. A nil side describes nothing.
func matchesSide(s *Side, n *Node) bool {
	if s == nil || n == nil {
		return s == nil && n == nil
	}
	now := sideFromNode(n)
	return s.Type == now.Type && s.Target == now.Target && s.Mode&0o777 == now.Mode&0o777 && (s.Type != driver.TypeFile || s.Digest == now.Digest)
}

func (d *treeDiff) isSelected(name string, dir bool) bool {
	return d.only.contains(name) || dir && d.only.hasBelow(name)
}

func (d *treeDiff) compareDirs(ctx context.Context, a, b Directory, at string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("snapshot: diff: %w", err)
	}
	old, err := a.Nodes(ctx)
	if err != nil {
		return err
	}
	now, err := b.Nodes(ctx)
	if err != nil {
		return err
	}
	if d.opts.NoIgnored && !d.ignore.ignored && !d.ignore.named {
		above := d.ignore
		defer func() { d.ignore = above }()
		if err := d.ignore.enter(ctx, a, b, old, now, at); err != nil {
			return wrapPath(at, err)
		}
	}
	for len(old) > 0 || len(now) > 0 {
		var o, n *Node
		if len(now) == 0 || len(old) > 0 && old[0].Name <= now[0].Name {
			o = &old[0]
		}
		if len(old) == 0 || len(now) > 0 && now[0].Name <= old[0].Name {
			n = &now[0]
		}
		if o != nil {
			old = old[1:]
		}
		if n != nil {
			now = now[1:]
		}
		if err := d.compareEntry(ctx, a, b, o, n, at); err != nil {
			return err
		}
	}
	return nil
}

// compareEntry compares the nodes of one name; either may be nil.
func (d *treeDiff) compareEntry(ctx context.Context, a, b Directory, o, n *Node, at string) error {
	one := o
	if one == nil {
		one = n
	}
	name := at + one.Name
	isDir := o != nil && o.Type == driver.TypeDir || n != nil && n.Type == driver.TypeDir
	if !d.isSelected(name, isDir) {
		return nil
	}
	if d.opts.NoGit && autorun.IsGit(one.Name) {
		return d.addHistory(ctx, name)
	}
	if d.opts.NoIgnored && !d.ignore.ignored && !d.ignore.named && d.ignore.ignores(name, o, n) {
		above := d.ignore
		defer func() { d.ignore = above }()
		named := d.only != nil && !d.opts.Unnamed && (d.only.has(name) || !d.only.all && d.only.hasBelow(name))
		d.ignore.ignored, d.ignore.named = !named, named
	}
	same := o != nil && n != nil && o.Type == n.Type
	if same && o.Type == driver.TypeDir {
		return d.sameDir(ctx, a, b, o, n, name)
	}
	if same {
		return d.sameType(ctx, a, b, o, n, name)
	}
	if o != nil {
		if err := d.oneSided(ctx, a, o, name, Removed); err != nil {
			return err
		}
	}
	if n != nil {
		return d.oneSided(ctx, b, n, name, Added)
	}
	return nil
}

func (d *treeDiff) sameDir(ctx context.Context, a, b Directory, o, n *Node, name string) error {
	if o.Mode != n.Mode && d.isSelected(name, false) {
		d.add(FileChange{Path: name, Kind: ModeOnly, Old: sideFromNode(o), New: sideFromNode(n)})
	}
	if !o.Content.IsZero() && o.Content == n.Content {
		return nil
	}
	return d.compareSubdirs(ctx, a, b, o, n, name)
}

// compareSubdirs compares two directories; either may be missing.
func (d *treeDiff) compareSubdirs(ctx context.Context, a, b Directory, o, n *Node, name string) error {
	from, to := Directory(empty{}), Directory(empty{})
	below, err := childPrefix("", name)
	if err != nil {
		return err
	}
	if o != nil {
		if from, err = a.Dir(ctx, o); err != nil {
			return err
		}
		defer from.Close()
	}
	if n != nil {
		if to, err = b.Dir(ctx, n); err != nil {
			return err
		}
		defer to.Close()
	}
	return d.compareDirs(ctx, from, to, below)
}

func (d *treeDiff) sameType(ctx context.Context, a, b Directory, o, n *Node, name string) error {
	switch o.Type {
	case driver.TypeSymlink:
		if o.Target != n.Target {
			d.add(FileChange{Path: name, Kind: Modified, Old: sideFromNode(o), New: sideFromNode(n)})
		}
	case driver.TypeFile:
		same, err := sameContent(ctx, a, b, o, n)
		if err != nil {
			return wrapPath(name, err)
		}
		switch {
		case !same:
			if err := fillContent(ctx, a, o); err != nil {
				return wrapPath(name, err)
			}
			if err := fillContent(ctx, b, n); err != nil {
				return wrapPath(name, err)
			}
			d.add(FileChange{Path: name, Kind: Modified, Old: sideFromNode(o), New: sideFromNode(n)})
		case o.Mode != n.Mode:
			d.add(FileChange{Path: name, Kind: ModeOnly, Old: sideFromNode(o), New: sideFromNode(n)})
		}
	}
	return nil
}

// addSpecial lists the special files that the snapshot of the new tree left out.
func (d *treeDiff) addSpecial() {
	b, ok := d.b.(*snapshotTree)
	if !ok {
		return
	}
	l := LeftOut{Reason: LeftOutSpecial}
	for _, name := range b.m.SkippedPaths {
		if d.isSelected(name, false) {
			l.Paths = append(l.Paths, name)
		}
	}
	l.Total = len(l.Paths)
	if d.opts.Only == nil {
		l.Total = int(b.m.Skipped)
	}
	if l.Total > 0 {
		d.out.LeftOut = append(d.out.LeftOut, l)
	}
}

// oneSided adds a node of only one tree, with its subtree.
func (d *treeDiff) oneSided(ctx context.Context, dir Directory, n *Node, name string, kind ChangeKind) error {
	if n.Type == driver.TypeOther && kind == Added {
		d.out.LeftOut = addLeftOut(d.out.LeftOut, LeftOutSpecial, name)
	}
	if n.Type == driver.TypeOther || n.Type == TypeWhiteout {
		return nil
	}
	if err := fillContent(ctx, dir, n); err != nil {
		return wrapPath(name, err)
	}
	c := FileChange{Path: name, Kind: kind}
	if kind == Added {
		c.New = sideFromNode(n)
	} else {
		c.Old = sideFromNode(n)
	}
	if d.isSelected(name, false) {
		d.add(c)
	}
	if n.Type != driver.TypeDir {
		return nil
	}
	if kind == Added {
		return d.compareSubdirs(ctx, nil, dir, nil, n, name)
	}
	return d.compareSubdirs(ctx, dir, nil, n, nil, name)
}

func (d *treeDiff) add(c FileChange) {
	switch {
	case !d.ignore.ignored:
		d.out.Changes = append(d.out.Changes, c)
	case !c.IsDir():
		d.out.LeftOut = addLeftOut(d.out.LeftOut, LeftOutIgnored, c.Path)
	}
}

// addHistory adds a repository whose commits or references differ.
func (d *treeDiff) addHistory(ctx context.Context, name string) error {
	change, err := compareHistory(ctx, d.a, d.b, name)
	if err == nil && change.Commits+change.Refs > 0 {
		d.out.Git = append(d.out.Git, change)
	}
	return err
}

// detectRenames joins removed and added files of equal content. Empty files are
// left out.
func (d *treeDiff) detectRenames() {
	gone := map[string][]int{}
	for i, c := range d.out.Changes {
		if c.Kind == Removed && c.Old.Type == driver.TypeFile && c.Old.Size > 0 {
			gone[c.Old.Digest] = append(gone[c.Old.Digest], i)
		}
	}
	joined := map[int]bool{} // the removals
	for i := range d.out.Changes {
		c := &d.out.Changes[i]
		if c.Kind != Added || c.New.Type != driver.TypeFile || len(gone[c.New.Digest]) == 0 {
			continue
		}
		from := gone[c.New.Digest][0]
		gone[c.New.Digest] = gone[c.New.Digest][1:]
		c.Kind, c.From, c.Old = Renamed, d.out.Changes[from].Path, d.out.Changes[from].Old
		joined[from] = true
	}
	left := d.out.Changes[:0]
	for i, c := range d.out.Changes {
		if !joined[i] {
			left = append(left, c)
		}
	}
	d.out.Changes = left
}

// maxTexts is the maximum of bytes of text in one comparison; further files are
// marked TooBig.
const maxTexts = 256 << 20

// diffTexts compares the contents of files.
func (d *treeDiff) diffTexts(ctx context.Context) error {
	slices.SortStableFunc(d.out.Changes, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	if !d.opts.Text {
		return nil
	}
	// A file is looked up by its path: without listings, each of them would list its directory.
	var err error
	if d.a, err = withListings(ctx, d.a); err != nil {
		return err
	}
	if d.b, err = withListings(ctx, d.b); err != nil {
		return err
	}
	left := maxTexts
	for i := range d.out.Changes {
		c := &d.out.Changes[i]
		if c.Kind == ModeOnly || c.Kind == Renamed || c.IsDir() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("snapshot: diff: %w", err)
		}
		if left < 0 { // all hunks are in memory
			c.TooBig = true
			continue
		}
		old, err := d.readText(ctx, d.a, c.Path, c.Old, c)
		if err != nil {
			return err
		}
		now, err := d.readText(ctx, d.b, c.Path, c.New, c)
		if err != nil {
			return err
		}
		if c.Binary || c.TooBig {
			if err := d.fillBinaryPatch(ctx, c); err != nil {
				return err
			}
			left -= len(c.Patch)
			continue
		}
		left -= len(old) + len(now)
		a, b := textdiff.Split(old), textdiff.Split(now)
		c.Hunks = textdiff.Hunks(a, b, textdiff.Lines(a, b), d.opts.Context)
		for _, h := range c.Hunks {
			for _, l := range h.Lines {
				switch l[0] {
				case '+':
					c.LinesAdded++
				case '-':
					c.LinesRemoved++
				}
			}
		}
	}
	return nil
}

// readText reads a side as text; for a symlink its target.
func (d *treeDiff) readText(ctx context.Context, t Tree, name string, s *Side, c *FileChange) ([]byte, error) {
	switch {
	case s == nil:
		return nil, nil
	case s.Type == driver.TypeSymlink:
		return []byte(s.Target), nil
	case s.Size > d.opts.MaxText:
		c.TooBig = true
		return nil, nil
	}
	data, err := readFile(ctx, t, name, d.opts.MaxText)
	if err != nil {
		return nil, err
	}
	if isBinary(data) {
		c.Binary = true
	}
	return data, nil
}

// isBinary looks for a NUL, as git does.
func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }

// readFile reads a file of at most most bytes.
func readFile(ctx context.Context, t Tree, name string, most int64) ([]byte, error) {
	r, _, err := OpenFile(ctx, t, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("snapshot: read %s: %w: %w", name, fault.Of(err), err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("snapshot: read %s: %w: it is larger than %d bytes", name, fault.ResourceExhausted, most)
	}
	return data, nil
}

func (d *treeDiff) countStats() {
	s := &d.out.Stats
	for _, c := range d.out.Files() {
		switch c.Kind {
		case Added:
			s.Added++
		case Removed:
			s.Removed++
		case Renamed:
			s.Renamed++
		case ModeOnly:
			s.Mode++
		default:
			s.Modified++
		}
		s.LinesAdded += c.LinesAdded
		s.LinesRemoved += c.LinesRemoved
	}
}
