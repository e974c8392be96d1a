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

// Rename moves an entry; a tree is moved by changing one row.
func (w *space) Rename(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
	err := w.change(ctx, false, func(t *tx, rec *record, root *node) error {
		f, err := t.resolvePath(root, from, walkOptions{})
		if err != nil {
			return err
		}
		if f.isRoot() {
			return errRoot
		}
		if f.node == nil {
			return errGone
		}
		p, err := t.resolveTarget(rec.id, root, to, opts.Parents)
		if err != nil {
			return err
		}
		if err := t.clearTarget(f.node, p, opts.CreateOnly); err != nil || p.node != nil && p.node.id == f.node.id {
			return err
		}
		if err := t.exec("UPDATE node SET parent = ?, name = ? WHERE id = ?", p.parent().id, []byte(p.base), f.node.id); err != nil {
			return err
		}
		if err := t.touchDir(f.parent().id); err != nil {
			return err
		}
		return t.touchDir(p.parent().id)
	})
	if err == nil {
		w.s.tryCollectGarbage(ctx)
	}
	return opError("rename", from, err)
}

// resolveTarget resolves the new name of a move or copy.
func (t *tx) resolveTarget(ws string, root *node, to string, parents bool) (*resolvedPath, error) {
	how := walkOptions{}
	if parents {
		how.make = t.dirMaker(ws)
	}
	p, err := t.resolvePath(root, to, how)
	if err == nil && p.isRoot() {
		err = errRoot
	}
	return p, err
}

// clearTarget checks, by the rules of rename(2), the entry at the new name, and removes
// it.
func (t *tx) clearTarget(n *node, p *resolvedPath, createOnly bool) error {
	if n.typ == driver.TypeDir && p.isWithin(n.id) {
		return fmt.Errorf("%w: the new name is inside the directory", fault.InvalidArgument)
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
		if empty, err := t.isEmpty(p.node.id); err != nil {
			return err
		} else if !empty {
			return fmt.Errorf("%w: the directory at the new name is not empty", fault.AlreadyExists)
		}
	}
	return t.removeTree(p.node.id)
}

// Copy copies a file or a tree in one transaction. Objects are shared, because they
// are immutable. A copied tree is merged into an existing directory.
func (w *space) Copy(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
	err := w.change(ctx, false, func(t *tx, rec *record, root *node) error {
		n, err := t.findNode(root, from, true)
		if err != nil {
			return err
		}
		if n.typ == driver.TypeDir && !opts.Recursive {
			return fmt.Errorf("%w: the source is a directory; set recursive", fault.InvalidArgument)
		}
		p, err := t.resolveTarget(rec.id, root, to, opts.Parents)
		if err != nil {
			return err
		}
		if n.typ == driver.TypeDir && (p.isWithin(n.id) || p.node != nil && p.node.id == n.id) {
			return fmt.Errorf("%w: the copy would be inside itself", fault.InvalidArgument)
		}
		if p.node != nil && p.node.id == n.id {
			return fmt.Errorf("%w: source and target are the same", fault.InvalidArgument)
		}
		if p.node != nil && opts.CreateOnly {
			return errExists
		}
		if p.node != nil && p.node.typ == driver.TypeSymlink && n.typ == driver.TypeFile {
			if p, err = t.resolvePath(root, to, walkOptions{follow: true}); err != nil { // a file is written through a symlink
				return err
			}
		}
		return t.copyTo(rec.id, n, p.parent().id, p.base, p.node)
	})
	if err == nil {
		w.s.tryCollectGarbage(ctx)
	}
	return opError("copy", from, err)
}

// copyTo copies n to a name in dir. was is the existing entry, or nil.
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
			c.mode = was.mode // as a write that replaces a file
		}
		if err := t.removeTree(was.id); err != nil {
			return err
		}
	}
	if err := t.insertNode(ws, dir, &c); err != nil {
		return err
	}
	if err := t.touchDir(dir); err != nil {
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

// Chmod sets the mode of name, following symlinks.
func (w *space) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	if err := driver.CheckMode(mode); err != nil {
		return opError("chmod", name, err)
	}
	err := w.change(ctx, false, func(t *tx, _ *record, root *node) error {
		n, err := t.findNode(root, name, true)
		if err != nil {
			return err
		}
		return t.exec("UPDATE node SET mode = ? WHERE id = ?", int64(mode), n.id)
	})
	return opError("chmod", name, err)
}

// maxTarget is PATH_MAX without the NUL.
const maxTarget = 4095

// Symlink creates a symlink that stays inside, as far as its text shows; the target
// is checked again whenever it is followed.
func (w *space) Symlink(ctx context.Context, target, name string) error {
	switch {
	case target == "" || strings.IndexByte(target, 0) >= 0 || len(target) > maxTarget:
		err := fmt.Errorf("%w: a target has 1 to %d bytes and no NUL", fault.InvalidArgument, maxTarget)
		return opError("symlink", name, err)
	case strings.HasPrefix(target, "/"):
		return opError("symlink", name, errLeaves)
	}
	err := w.change(ctx, false, func(t *tx, rec *record, root *node) error {
		p, err := t.resolvePath(root, name, walkOptions{})
		if err != nil {
			return err
		}
		if p.node != nil {
			return errExists
		}
		if leavesRoot(target, len(p.dirs)-1) {
			return errLeaves
		}
		n := &node{name: p.base, typ: driver.TypeSymlink, mode: 0o777, size: int64(len(target)), mtime: time.Now().UnixNano(), target: target}
		if err := t.insertNode(rec.id, p.parent().id, n); err != nil {
			return err
		}
		// Following the link is the final check: a symlink in its path may leave,
		// too.
		if _, err := t.resolvePath(root, name, walkOptions{follow: true}); errors.Is(err, fault.SandboxViolation) {
			return err
		}
		return t.touchDir(p.parent().id)
	})
	return opError("symlink", name, err)
}

// leavesRoot reports whether a path, relative to a directory at that depth, leaves the
// root at any point.
func leavesRoot(target string, depth int) bool {
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

// Digest returns the digest of a file or a tree, from the rows: no content is read.
func (w *space) Digest(ctx context.Context, name string) (sum string, err error) {
	err = w.view(ctx, func(t *tx, _ *record, root *node) error {
		n, err := t.findNode(root, name, true)
		if err != nil {
			return err
		}
		if n.typ != driver.TypeDir {
			sum = n.digest
			return nil
		}
		tree := driver.NewTreeDigest()
		if err := t.digestTree(tree, n.id, ""); err != nil {
			return err
		}
		sum = tree.Sum()
		return nil
	})
	return sum, opError("digest", name, err)
}

func (t *tx) digestTree(tree *driver.TreeDigest, dir int64, prefix string) error {
	nodes, err := t.children(dir)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		tree.Add(prefix+n.name, n.info(prefix+n.name), n.digest)
		if n.typ != driver.TypeDir {
			continue
		}
		if err := t.digestTree(tree, n.id, prefix+n.name+"/"); err != nil {
			return err
		}
	}
	return nil
}
