package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// A treePart is an entry to write to a tree. All parts of a change are prepared first,
// large contents as announced objects, and then written by one transaction: the tree
// has either all parts or none.
type treePart struct {
	path    string
	typ     driver.FileType // "" removes the entry
	mode    fs.FileMode
	mtime   int64
	target  string
	content *bodyContent
}

// partsInMemory bounds the memory for contents of prepared parts; beyond it contents
// become objects of any size.
const partsInMemory = 64 << 20

// initialParts prepares the initial content of a new workspace.
func (p *Provider) initialParts(ctx context.Context, s *store, rec *record, spec driver.Spec) ([]treePart, error) {
	if spec.From.Snapshot == "" {
		return nil, nil
	}
	var known *record
	err := s.view(ctx, func(t *tx) (err error) {
		known, err = t.readRecord(spec.ID)
		return err
	})
	if err != nil {
		return nil, openFailed(ctx, "open", err)
	}
	if known != nil { // it was created from it, even if the snapshot is gone
		return nil, nil
	}
	tree, err := p.cfg.Snapshots.StartFrom(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("filestore: open: %w", err)
	}
	parts, err := (&space{p: p, s: s, id: spec.ID}).prepareParts(ctx, rec, tree, nil)
	if err != nil {
		return nil, openFailed(ctx, "open", err)
	}
	return parts, nil
}

// prepareParts prepares parts from a tree at the given paths; nil is all paths. Paths that
// are not in the tree become removals.
func (w *space) prepareParts(ctx context.Context, rec *record, tree snapshot.Tree, paths map[string]bool) (parts []treePart, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, w.s.abandonAll(ctx, parts))
		}
	}()
	budget := int64(partsInMemory)
	seen := map[string]bool{}
	err = snapshot.Walk(ctx, tree, func(path string, dir snapshot.Directory, n *snapshot.Node) (bool, error) {
		if paths != nil && !paths[path] {
			return true, nil
		}
		seen[path] = true
		part := treePart{path: path, typ: n.Type, mode: n.Mode & 0o7777, mtime: n.ModTime.UnixNano(), target: n.Target}
		if n.Type == driver.TypeFile {
			c, err := w.loadContent(ctx, rec, dir, n, budget)
			if err != nil {
				return false, err
			}
			part.content = c
			budget -= int64(len(c.data))
		}
		if n.Type == driver.TypeSymlink {
			part.mode = 0o777
		}
		parts = append(parts, part)
		return true, nil
	})
	for path := range paths {
		if !seen[path] {
			parts = append(parts, treePart{path: path})
		}
	}
	return parts, err
}

// loadContent reads the content of a file.
func (w *space) loadContent(ctx context.Context, rec *record, dir snapshot.Directory, n *snapshot.Node, budget int64) (*bodyContent, error) {
	r, err := dir.Open(ctx, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	inline := max(min(w.s.threshold, budget), 0)
	return w.receiveUpTo(ctx, rec, r, inline, &driver.WriteOptions{})
}

// abandonAll deletes the objects of parts that were not written.
func (s *store) abandonAll(ctx context.Context, parts []treePart) error {
	var errs []error
	for _, p := range parts {
		if p.content != nil && p.content.object != "" {
			errs = append(errs, s.abandonObject(ctx, p.content.object))
		}
	}
	return errors.Join(errs...)
}

// rollbackTo brings the tree to another state, in one transaction.
func (w *space) rollbackTo(ctx context.Context, to *snapshot.RollbackTarget) error {
	var rec *record
	err := w.view(ctx, func(_ *tx, r *record, _ *node) error {
		if rec = r; r.policy.ReadOnly {
			return errReadOnly
		}
		return nil
	})
	if err != nil {
		return opError("roll back", w.id, err)
	}
	paths := make(map[string]bool, len(to.Paths))
	for _, p := range to.Paths {
		paths[p] = true
	}
	parts, err := w.prepareParts(ctx, rec, to.Tree, paths)
	if err != nil {
		return opError("roll back", w.id, err)
	}
	driver.Step(ctx, "ready")
	err = w.change(ctx, false, func(t *tx, rec *record, _ *node) error { return t.writeParts(rec, parts) })
	if err != nil {
		return opError("roll back", w.id, errors.Join(err, w.s.abandonAll(ctx, parts)))
	}
	w.s.tryCollectGarbage(ctx)
	return nil
}

// writeParts writes parts.
func (t *tx) writeParts(rec *record, parts []treePart) error {
	f := &partWriter{t: t, rec: rec, dirs: map[string]int64{".": rec.root}}
	gone := slices.Clone(parts)
	slices.SortFunc(gone, func(a, b treePart) int { return strings.Compare(b.path, a.path) })
	for i := range gone {
		if gone[i].typ == "" {
			if err := f.removePath(gone[i].path); err != nil {
				return err
			}
		}
	}
	for i := range parts {
		if parts[i].typ != "" {
			if err := f.writePart(&parts[i]); err != nil {
				return err
			}
		}
	}
	for i := range parts { // writing into a directory changed its time
		if parts[i].typ == driver.TypeDir {
			if err := t.exec("UPDATE node SET mtime = ? WHERE id = ?", parts[i].mtime, f.dirs[parts[i].path]); err != nil {
				return err
			}
		}
	}
	return t.checkDisk(rec)
}

// A partWriter writes parts in a transaction.
type partWriter struct {
	t    *tx
	rec  *record
	dirs map[string]int64 // by path
}

// ensureDir returns the id of a directory. It creates the directory, and replaces an entry
// of another type.
func (f *partWriter) ensureDir(path string) (int64, error) {
	if id, ok := f.dirs[path]; ok {
		return id, nil
	}
	above, name := splitPath(path)
	parent, err := f.ensureDir(above)
	if err != nil {
		return 0, err
	}
	n, err := f.clearName(parent, name, driver.TypeDir)
	if err != nil {
		return 0, err
	}
	if n == nil {
		n = &node{name: name, typ: driver.TypeDir, mode: 0o755}
		if err := f.t.insertNode(f.rec.id, parent, n); err != nil {
			return 0, err
		}
	}
	f.dirs[path] = n.id
	return n.id, nil
}

// clearName returns the entry of a name if it has the type, and removes it otherwise.
func (f *partWriter) clearName(dir int64, name string, typ driver.FileType) (*node, error) {
	n, err := f.t.child(dir, name)
	if err != nil || n == nil || n.typ == typ {
		return n, err
	}
	return nil, f.t.removeTree(n.id)
}

func (f *partWriter) removePath(path string) error {
	above, name := splitPath(path)
	parent, err := f.ensureDir(above)
	if err != nil {
		return err
	}
	n, err := f.t.child(parent, name)
	if err != nil || n == nil {
		return err
	}
	return f.t.removeTree(n.id)
}

func (f *partWriter) writePart(p *treePart) error {
	above, name := splitPath(p.path)
	parent, err := f.ensureDir(above)
	if err != nil {
		return err
	}
	n, err := f.clearName(parent, name, p.typ)
	if err != nil {
		return err
	}
	want := node{name: name, typ: p.typ, mode: p.mode, mtime: p.mtime, target: p.target}
	if p.content != nil {
		want.size, want.digest, want.object = p.content.size, p.content.digest, p.content.object
	}
	if p.typ == driver.TypeSymlink {
		want.size = int64(len(p.target))
	}
	if n == nil {
		err = f.t.insertNode(f.rec.id, parent, &want)
	} else {
		want.id = n.id
		err = f.t.exec("UPDATE node SET mode = ?, size = ?, mtime = ?, target = ?, digest = ?, object = ? WHERE id = ?",
			int64(want.mode), want.size, want.mtime, blobOrNull(want.target), textOrNull(want.digest), textOrNull(want.object), want.id)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	if p.typ == driver.TypeDir {
		f.dirs[p.path] = want.id
	}
	if p.content == nil {
		return nil
	}
	if p.content.object != "" {
		if err := f.t.exec("DELETE FROM pending WHERE object = ?", p.content.object); err != nil {
			return err
		}
	}
	return f.t.setData(want.id, p.content)
}

// splitPath splits a path into directory and name.
func splitPath(path string) (dir, name string) {
	if at := strings.LastIndexByte(path, '/'); at >= 0 {
		return path[:at], path[at+1:]
	}
	return ".", path
}
