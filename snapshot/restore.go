package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	Owner      *Owner // of created files; nil is the user of this process
	Sync       bool   // fsync before returning
	PlainModes bool   // without set-user-id, set-group-id and sticky bits
	Upper      bool   // the directory is the upper layer of an overlay

	// Only are the paths to restore, with their subtrees; nil is all. A path that
	// is not in the tree is removed.
	Only []string

	// NoGit leaves entries named .git as they are, at any level, with the directories
	// that contain them.
	NoGit bool

	// Keep, if set, reports which paths are left unchanged, with their subtrees.
	Keep func(path string) bool

	// Stage is a directory on the same file system, outside the tree, for new
	// content; "" is a hidden directory in the tree. With "" the tree is a directory of
	// the user: Recover leaves what was changed in it after the process was killed.
	Stage string

	// Journals is a private directory outside the tree for the journal; "" is the
	// stage. It is required if other users can write to the directory of the stage:
	// a forged journal would make Recover carry out its steps.
	Journals string

	check func() error // called right before the first change; an error cancels the restore
	undo  string       // id of the snapshot for Undo that check takes; see stageJournal
}

// RestoreResult is the result of Restore.
type RestoreResult struct {
	Changed int      `json:"changed"` // entries created, replaced, removed or with new attributes
	Paths   []string `json:"paths,omitempty"`
}

// Extract writes a tree into an empty directory, without a journal. It is the fast
// way for a directory that is not in use yet: a failed Extract leaves a part of the
// tree.
func Extract(ctx context.Context, t Tree, dir string, opts *RestoreOptions) error {
	if opts == nil {
		opts = &RestoreOptions{}
	}
	fd, err := openRetry(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return hostError("open", dir, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is written through it
	root, err := t.Root(ctx)
	if err != nil {
		return err
	}
	defer root.Close()
	p := newInstaller(opts)
	if err := p.installEntries(ctx, root, fd); err != nil {
		return err
	}
	if opts.Sync {
		if err := unix.Fsync(fd); err != nil {
			return hostError("sync", dir, err)
		}
	}
	return nil
}

// Restore makes a directory of this host equal to a tree by writing the
// differences. Pipes, sockets and devices in it are left alone. If the process is
// killed, the directory has its old state or, after Recover, the new one.
func Restore(ctx context.Context, t Tree, dir string, opts *RestoreOptions) (*RestoreResult, error) {
	if opts == nil {
		opts = &RestoreOptions{}
	}
	if _, err := Recover(ctx, dir, opts.Stage, opts.Journals); err != nil {
		return nil, err
	}
	r, err := newChange(dir, opts)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if opts.NoGit {
		t = WithoutGit(t)
	}
	src, err := t.Root(ctx)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	dst, err := HostDir(dir, &HostOptions{Upper: opts.Upper, NoGit: opts.NoGit}).Root(ctx)
	if err != nil {
		return nil, err
	}
	defer dst.Close()
	if _, err := r.compareDir(ctx, src, dst.(*hostDir), ""); err != nil {
		return nil, err
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if opts.check != nil {
		if err := opts.check(); err != nil {
			return nil, err
		}
	}
	return r.result(), r.commit(ctx)
}

func (c *change) result() *RestoreResult {
	res := &RestoreResult{}
	seen := map[string]bool{}
	for _, o := range c.ops {
		if p := string(o.Path); !o.TimeOnly && !seen[p] {
			seen[p] = true
			res.Paths = append(res.Paths, p)
		}
	}
	slices.Sort(res.Paths)
	res.Changed = len(res.Paths)
	return res
}

// compareDir adds the steps that make dst equal to src, and reports whether entries
// of dst itself change.
func (c *change) compareDir(ctx context.Context, src Directory, dst *hostDir, at string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("snapshot: restore: %w", err)
	}
	want, err := src.Nodes(ctx)
	if err != nil {
		return false, err
	}
	have, err := dst.Nodes(ctx)
	if err != nil {
		return false, err
	}
	changed := false
	for len(want) > 0 || len(have) > 0 {
		switch {
		case len(want) == 0 || len(have) > 0 && have[0].Name < want[0].Name:
			h := &have[0]
			have = have[1:]
			if h.Type == driver.TypeDir && c.isAbove(at+h.Name) {
				if err := c.removeBelow(ctx, dst, h, at+h.Name); err != nil {
					return false, err
				}
				continue
			}
			if h.Type == driver.TypeOther || !c.isSelected(at+h.Name) {
				continue
			}
			emptied, err := c.emptyAroundGit(ctx, dst, h, at+h.Name)
			if err != nil {
				return false, err
			}
			if !emptied {
				c.addRemoval(at + h.Name)
				changed = true
			}
		case len(have) == 0 || want[0].Name < have[0].Name:
			w := &want[0]
			want = want[1:]
			if w.Type == driver.TypeDir && c.isAbove(at+w.Name) {
				added, err := c.addBelow(ctx, &subsetDir{src, c.only, at}, w, at+w.Name)
				if err != nil {
					return false, err
				}
				changed = changed || added
				continue
			}
			if c.isSelected(at+w.Name) && (w.Type != TypeWhiteout || c.opts.Upper) {
				if err := c.addNode(ctx, src, w, at+w.Name); err != nil {
					return false, err
				}
				changed = true
			}
		default:
			w, h := &want[0], &have[0]
			want, have = want[1:], have[1:]
			replaced, err := c.compareEntry(ctx, src, dst, w, h, at)
			if err != nil {
				return false, err
			}
			changed = changed || replaced
		}
	}
	return changed, nil
}

// emptyAroundGit removes what is in a directory that must stay because a repository is in
// it. It reports false for anything else.
func (c *change) emptyAroundGit(ctx context.Context, in *hostDir, n *Node, name string) (bool, error) {
	if !c.opts.NoGit || n.Type != driver.TypeDir {
		return false, nil
	}
	all, err := (&hostDir{t: &hostTree{path: in.t.path}, f: in.f}).Dir(ctx, n) // which lists .git, too
	if err != nil {
		return false, err
	}
	defer all.Close()
	if found, err := hasGit(ctx, all); !found || err != nil {
		return false, err
	}
	below, err := childPrefix("", name)
	if err != nil {
		return false, err
	}
	dir, err := in.Dir(ctx, n)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	_, err = c.compareDir(ctx, empty{}, dir.(*hostDir), below)
	return true, err
}

// isSelected reports whether a path is restored.
func (c *change) isSelected(name string) bool {
	if c.opts.Keep != nil && c.opts.Keep(name) {
		return false
	}
	return c.only.contains(name)
}

// isAbove reports whether a directory is not restored itself, but something below it is.
func (c *change) isAbove(name string) bool {
	return c.only != nil && !c.only.contains(name) && c.only.hasBelow(name) && (c.opts.Keep == nil || !c.opts.Keep(name))
}

// removeBelow removes the selected entries of a directory that the tree does not have. The
// directory itself stays.
func (c *change) removeBelow(ctx context.Context, in *hostDir, n *Node, name string) error {
	below, err := childPrefix("", name)
	if err != nil {
		return err
	}
	dir, err := in.Dir(ctx, n)
	if err != nil {
		return err
	}
	defer dir.Close()
	changed, err := c.compareDir(ctx, empty{}, dir.(*hostDir), below)
	if changed {
		c.addAttr(n, name, true)
	}
	return err
}

// addBelow adds a directory with its selected entries alone, if there are any.
func (c *change) addBelow(ctx context.Context, from *subsetDir, n *Node, name string) (bool, error) {
	if found, err := from.hasEntries(ctx, n); !found || err != nil {
		return false, err
	}
	return true, c.addNode(ctx, from, n, name)
}

// mayEnter reports whether a path or something below it may be selected.
func (c *change) mayEnter(name string) bool {
	return c.isSelected(name) || c.only.hasBelow(name)
}

// compareEntry compares two entries of one name, and reports whether the entry is
// replaced.
func (c *change) compareEntry(ctx context.Context, src Directory, dst *hostDir, w, h *Node, at string) (bool, error) {
	name := at + w.Name
	if w.Type == driver.TypeDir && h.Type == driver.TypeDir && w.Opaque == h.Opaque {
		return false, c.compareSubdirs(ctx, src, dst, w, h, name)
	}
	if !c.isSelected(name) || w.Type == TypeWhiteout && h.Type == TypeWhiteout {
		return false, nil
	}
	if w.Type != h.Type || w.Type == driver.TypeDir || w.Type == driver.TypeSymlink && w.Target != h.Target {
		return true, c.addNode(ctx, src, w, name)
	}
	if w.Type == driver.TypeFile {
		same, err := sameContent(ctx, src, dst, w, h)
		if err != nil {
			return false, err
		}
		if !same {
			return true, c.addNode(ctx, src, w, name)
		}
	}
	if !c.sameAttrs(w, h) {
		c.addAttr(w, name, false)
	}
	return false, nil
}

func (c *change) compareSubdirs(ctx context.Context, src Directory, dst *hostDir, w, h *Node, name string) error {
	if !c.mayEnter(name) || c.opts.Keep != nil && c.opts.Keep(name) {
		return nil
	}
	below, err := childPrefix("", name)
	if err != nil {
		return err
	}
	from, err := src.Dir(ctx, w)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := dst.Dir(ctx, h)
	if err != nil {
		return err
	}
	defer to.Close()
	changed, err := c.compareDir(ctx, from, to.(*hostDir), below)
	if err != nil {
		return err
	}
	switch selected := c.isSelected(name); {
	case selected && (changed || !c.sameAttrs(w, h)):
		c.addAttr(w, name, c.sameAttrs(w, h))
	case !selected && changed:
		c.addAttr(h, name, true) // keep its attributes; restoring below it changed the mtime
	}
	return nil
}

func (c *change) sameAttrs(w, h *Node) bool {
	wm, hm := w.Mode, h.Mode
	if c.opts.PlainModes {
		wm, hm = wm&0o777, hm&0o777
	}
	return wm == hm && w.ModTime.Equal(h.ModTime) && slices.EqualFunc(w.Xattrs, h.Xattrs, func(a, b Xattr) bool {
		return a.Name == b.Name && bytes.Equal(a.Value, b.Value)
	})
}

// sameContent compares two files. It fills in Content of a node that it has to
// read.
func sameContent(ctx context.Context, src Directory, dst Directory, w, h *Node) (bool, error) {
	if w.Size != h.Size {
		return false, nil
	}
	if w.stat != nil && h.stat != nil && *w.stat == *h.stat {
		return true, nil // the same file
	}
	for _, side := range []struct {
		dir Directory
		n   *Node
	}{{src, w}, {dst, h}} {
		if !side.n.Content.IsZero() {
			continue
		}
		r, err := side.dir.Open(ctx, side.n)
		if err != nil {
			return false, err
		}
		side.n.Content, err = hashOpen(ctx, r, side.n)
		r.Close()
		if err != nil {
			return false, err
		}
	}
	return w.Content == h.Content, nil
}

// hashOpen returns the digest of an open file, and reads the extended attributes of
// a file of this host.
func hashOpen(ctx context.Context, r io.Reader, n *Node) (ID, error) {
	if f, ok := r.(*hostFile); ok {
		attrs, err := listXattrs(f.fd)
		if err != nil {
			return ID{}, hostError("read the attributes of", n.Name, err)
		}
		n.Xattrs = userXattrs(attrs)
	}
	return digestReader(ctx, r, n.Name)
}

func splitParent(name string) (dir, base string) {
	dir, base = path.Split(name)
	return strings.TrimSuffix(dir, "/"), base
}
