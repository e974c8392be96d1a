package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Rename moves an entry; a tree moves by changing one row.
func (w *space) Rename(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
	err := w.change(ctx, false, func(t *tx, rec *record, root *node) error {
		f, err := t.walk(root, from, walking{})
		if err != nil {
			return err
		}
		if f.isRoot() {
			return errRoot
		}
		if f.node == nil {
			return errGone
		}
		p, err := t.target(rec.id, root, to, opts.Parents)
		if err != nil {
			return err
		}
		if err := t.makeRoom(f.node, p, opts.CreateOnly); err != nil || p.node != nil && p.node.id == f.node.id {
			return err
		}
		if err := t.exec("UPDATE node SET parent = ?, name = ? WHERE id = ?", p.dir().id, []byte(p.base), f.node.id); err != nil {
			return err
		}
		if err := t.touch(f.dir().id); err != nil {
			return err
		}
		return t.touch(p.dir().id)
	})
	if err == nil {
		w.s.tidy(ctx)
	}
	return failed("rename", from, err)
}

// target walks to the name that something is moved or copied to.
func (t *tx) target(ws string, root *node, to string, parents bool) (*place, error) {
	how := walking{}
	if parents {
		how.make = t.mkdir(ws)
	}
	p, err := t.walk(root, to, how)
	if err == nil && p.isRoot() {
		err = errRoot
	}
	return p, err
}

// makeRoom judges, as rename(2) does, what is at the new place, and removes it.
func (t *tx) makeRoom(n *node, p *place, createOnly bool) error {
	if n.typ == driver.TypeDir && p.within(n.id) {
		return fmt.Errorf("%w: it would be inside itself", fault.InvalidArgument)
	}
	switch {
	case p.node == nil:
		return nil
	case createOnly:
		return errExists
	case p.node.id == n.id:
		return nil
	case p.node.typ == driver.TypeDir && n.typ != driver.TypeDir:
		return errIsDir
	case p.node.typ != driver.TypeDir && n.typ == driver.TypeDir:
		return errNotDir
	case p.node.typ == driver.TypeDir:
		if empty, err := t.empty(p.node.id); err != nil {
			return err
		} else if !empty {
			return fmt.Errorf("%w: the directory at the new name is not empty", fault.AlreadyExists)
		}
	}
	return t.removeTree(p.node.id)
}

// Copy copies a file or a tree in one transaction. Large contents are shared,
// since objects never change. A tree that is copied over another is merged into it.
func (w *space) Copy(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
	err := w.change(ctx, false, func(t *tx, rec *record, root *node) error {
		n, err := t.find(root, from, true)
		if err != nil {
			return err
		}
		if n.typ == driver.TypeDir && !opts.Recursive {
			return fmt.Errorf("%w: it is a directory; ask for a recursive copy", fault.InvalidArgument)
		}
		p, err := t.target(rec.id, root, to, opts.Parents)
		if err != nil {
			return err
		}
		if n.typ == driver.TypeDir && (p.within(n.id) || p.node != nil && p.node.id == n.id) {
			return fmt.Errorf("%w: the copy would be inside itself", fault.InvalidArgument)
		}
		if p.node != nil && p.node.id == n.id {
			return fmt.Errorf("%w: it would be copied onto itself", fault.InvalidArgument)
		}
		if p.node != nil && opts.CreateOnly {
			return errExists
		}
		if p.node != nil && p.node.typ == driver.TypeSymlink && n.typ == driver.TypeFile {
			if p, err = t.walk(root, to, walking{follow: true}); err != nil { // a file is written through a symlink
				return err
			}
		}
		return t.copyTo(rec.id, n, p.dir().id, p.base, p.node)
	})
	if err == nil {
		w.s.tidy(ctx)
	}
	return failed("copy", from, err)
}

// copyTo copies n to a name in dir, where was is, nil if nothing.
func (t *tx) copyTo(ws string, n *node, dir int64, name string, was *node) error {
	if was != nil && (was.typ == driver.TypeDir) != (n.typ == driver.TypeDir) {
		return fmt.Errorf("%w: a %s can't replace a %s", fault.InvalidArgument, n.typ, was.typ)
	}
	c := *n
	c.name, c.mtime = name, time.Now().UnixNano()
	switch {
	case was == nil:
	case n.typ == driver.TypeDir:
		return t.copyEntries(ws, n.id, was.id)
	default:
		if was.typ == driver.TypeFile && n.typ == driver.TypeFile {
			c.mode = was.mode // as a write that replaces keeps it
		}
		if err := t.removeTree(was.id); err != nil {
			return err
		}
	}
	if err := t.insert(ws, dir, &c); err != nil {
		return err
	}
	if err := t.touch(dir); err != nil {
		return err
	}
	if n.typ == driver.TypeDir {
		return t.copyEntries(ws, n.id, c.id)
	}
	return t.exec("INSERT INTO content SELECT ?, data FROM content WHERE node = ?", c.id, n.id)
}

func (t *tx) copyEntries(ws string, from, to int64) error {
	nodes, err := t.children(from)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		was, err := t.child(to, n.name)
		if err != nil {
			return err
		}
		if err := t.copyTo(ws, n, to, n.name, was); err != nil {
			return err
		}
	}
	return nil
}

// Chmod sets the mode of what name leads to.
func (w *space) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	if err := driver.CheckMode(mode); err != nil {
		return failed("chmod", name, err)
	}
	err := w.change(ctx, false, func(t *tx, _ *record, root *node) error {
		n, err := t.find(root, name, true)
		if err != nil {
			return err
		}
		return t.exec("UPDATE node SET mode = ? WHERE id = ?", int64(mode), n.id)
	})
	return failed("chmod", name, err)
}

// maxTarget is PATH_MAX without the NUL.
const maxTarget = 4095

// Symlink makes a symlink that stays inside, as far as can be told from where it
// is; what it leads to is judged again whenever it is followed.
func (w *space) Symlink(ctx context.Context, target, name string) error {
	switch {
	case target == "" || strings.IndexByte(target, 0) >= 0 || len(target) > maxTarget:
		err := fmt.Errorf("%w: a target has 1 to %d bytes and no NUL", fault.InvalidArgument, maxTarget)
		return failed("symlink", name, err)
	case strings.HasPrefix(target, "/"):
		return failed("symlink", name, errLeaves)
	}
	err := w.change(ctx, false, func(t *tx, rec *record, root *node) error {
		p, err := t.walk(root, name, walking{})
		if err != nil {
			return err
		}
		if p.node != nil {
			return errExists
		}
		if climbs(target, len(p.dirs)-1) {
			return errLeaves
		}
		n := &node{name: p.base, typ: driver.TypeSymlink, mode: 0o777, size: int64(len(target)), mtime: time.Now().UnixNano(), target: target}
		if err := t.insert(rec.id, p.dir().id, n); err != nil {
			return err
		}
		// The link itself is the last judge: what it leads through may leave, too.
		if _, err := t.walk(root, name, walking{follow: true}); errors.Is(err, fault.SandboxViolation) {
			return err
		}
		return t.touch(p.dir().id)
	})
	return failed("symlink", name, err)
}

// climbs reports whether a path, read from a directory at that depth, goes above
// the root at any point.
func climbs(target string, depth int) bool {
	for elem := range strings.SplitSeq(target, "/") {
		switch elem {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// Digest is the digest of a file or of a tree, from what the rows hold: no
// content is read.
func (w *space) Digest(ctx context.Context, name string) (sum string, err error) {
	err = w.view(ctx, func(t *tx, _ *record, root *node) error {
		n, err := t.find(root, name, true)
		if err != nil {
			return err
		}
		if n.typ != driver.TypeDir {
			sum = n.digest
			return nil
		}
		tree := driver.NewTreeDigest()
		if err := t.digest(tree, n.id, ""); err != nil {
			return err
		}
		sum = tree.Sum()
		return nil
	})
	return sum, failed("digest", name, err)
}

func (t *tx) digest(tree *driver.TreeDigest, dir int64, prefix string) error {
	nodes, err := t.children(dir)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		tree.Add(prefix+n.name, n.info(prefix+n.name), n.digest)
		if n.typ != driver.TypeDir {
			continue
		}
		if err := t.digest(tree, n.id, prefix+n.name+"/"); err != nil {
			return err
		}
	}
	return nil
}
