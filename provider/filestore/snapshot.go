package filestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// snapshotAdapter returns the snapshot adapter of a workspace.
func (w *space) snapshotAdapter(rec *record) *snapshot.Adapter {
	return &snapshot.Adapter{
		Store: w.p.cfg.Snapshots, Provider: Kind, Workspace: w.id, Session: rec.session, Origin: rec.origin,
		Now: w.presentView, Rollback: w.rollbackTo,
	}
}

// presentView returns the present tree, in one read transaction that lasts until the view is
// closed: concurrent writes do not change it.
func (w *space) presentView(ctx context.Context) (snapshot.View, error) {
	const attempts = 20
	for attempt := 1; ; attempt++ {
		m, err := w.openTreeView(ctx)
		if err == nil {
			return snapshot.View{Tree: m, Frozen: true, Done: m.end}, nil
		}
		if !errors.Is(err, errMoved) || attempt == attempts {
			return snapshot.View{}, opError("snapshot", w.id, err)
		}
	}
}

// errMoved means that objects were replaced before they could be pinned.
var errMoved = fmt.Errorf("%w: large files were replaced during the read; try again", fault.Unavailable)

// A treeView is the tree of a workspace at one time, in a read transaction.
type treeView struct {
	w    *space
	mu   sync.Mutex // a transaction is not safe for concurrent use
	t    *tx
	root int64
	pins int64 // root of the pins; 0 is none
	end  func()
}

// openTreeView begins the transaction, and pins the objects that it sees.
func (w *space) openTreeView(ctx context.Context) (m *treeView, err error) {
	own, cancel := context.WithCancel(ctx)
	sqltx, err := w.s.readers.BeginTx(own, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		cancel()
		return nil, contextError(ctx, err)
	}
	m = &treeView{w: w, t: &tx{Tx: sqltx, ctx: own}}
	m.end = func() {
		sqltx.Rollback()
		cancel()
		if m.pins != 0 {
			w.s.unpinObjects(ctx, m.pins)
		}
	}
	rec, err := m.t.readRecord(w.id)
	if err == nil && rec == nil {
		err = errEvicted
	}
	var objects []string
	if err == nil {
		m.root = rec.root
		objects, err = m.t.queryStrings("SELECT DISTINCT object FROM node WHERE ws = ? AND object IS NOT NULL", w.id)
	}
	if err == nil && len(objects) > 0 {
		m.pins, err = w.s.pinObjects(ctx, objects)
	}
	if err != nil {
		m.end()
		return nil, contextError(ctx, err)
	}
	return m, nil
}

// pinned is the prefix of the workspace of pins; the writer follows.
const pinned = "pin:"

// pinObjects prevents objects from becoming garbage: by files of a tree without a workspace,
// below a root whose id it returns.
func (s *store) pinObjects(ctx context.Context, objects []string) (int64, error) {
	writer, err := s.writerID(ctx)
	if err != nil {
		return 0, err
	}
	root := &node{typ: driver.TypeDir}
	err = s.change(ctx, false, func(t *tx) error {
		if err := t.insertNode(pinned+writer, 0, root); err != nil {
			return err
		}
		if err := t.exec("UPDATE node SET parent = -id WHERE id = ?", root.id); err != nil {
			return err
		}
		for _, key := range objects {
			var used bool
			if err := t.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM node WHERE object = ?)", key).Scan(&used); err != nil {
				return err
			}
			if !used {
				return errMoved
			}
			if err := t.insertNode(pinned+writer, root.id, &node{name: key, typ: driver.TypeFile, object: key}); err != nil {
				return err
			}
		}
		return nil
	})
	return root.id, err
}

// unpinObjects removes what pinObjects created; objects without another file become garbage.
func (s *store) unpinObjects(ctx context.Context, root int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	err := s.change(ctx, false, func(t *tx) error { return t.removeTree(root) })
	if err == nil {
		err = s.collectGarbage(ctx)
	}
	if err != nil {
		s.log.Warn("filestore: pins stay until this process ends", "error", err)
	}
}

// unpinDead removes the pins of dead processes.
func (s *store) unpinDead(ctx context.Context) error {
	var owners []string
	err := s.view(ctx, func(t *tx) (err error) {
		owners, err = t.queryStrings("SELECT DISTINCT ws FROM node WHERE ws >= ? AND ws < ?", pinned, pinned[:len(pinned)-1]+";")
		return err
	})
	for _, owner := range owners {
		dead, derr := s.isWriterDead(strings.TrimPrefix(owner, pinned))
		if err = errors.Join(err, derr); derr == nil && dead {
			err = errors.Join(err, s.change(ctx, false, func(t *tx) error { return t.exec("DELETE FROM node WHERE ws = ?", owner) }))
		}
	}
	return err
}

// Root returns the root directory.
func (m *treeView) Root(ctx context.Context) (snapshot.Directory, error) {
	return m.readDir(ctx, m.root)
}

// readDir reads a directory.
func (m *treeView) readDir(ctx context.Context, id int64) (*treeViewDir, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	list, err := m.t.children(id)
	if err != nil {
		return nil, opError("snapshot", ".", err)
	}
	return &treeViewDir{m: m, list: list}, nil
}

type treeViewDir struct {
	m    *treeView
	list []*node // sorted by name
}

func (d *treeViewDir) Nodes(context.Context) ([]snapshot.Node, error) {
	nodes := make([]snapshot.Node, 0, len(d.list))
	for _, c := range d.list {
		n := snapshot.Node{Name: c.name, Type: c.typ, Mode: c.mode & 0o7777, Size: c.size, ModTime: time.Unix(0, c.mtime).UTC(), Target: c.target}
		switch c.typ {
		case driver.TypeFile:
			if c.digest != "" {
				var err error
				if n.Content, err = snapshot.ParseID(c.digest); err != nil {
					return nil, opError("snapshot", c.name, err)
				}
			}
		case driver.TypeSymlink:
			n.Mode, n.Size = 0, 0
		default:
			n.Size = 0
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (d *treeViewDir) findNode(name string) (*node, error) {
	at, ok := slices.BinarySearchFunc(d.list, name, func(n *node, name string) int { return strings.Compare(n.name, name) })
	if !ok {
		return nil, fmt.Errorf("filestore: read %s: %w", name, fault.NotFound)
	}
	return d.list[at], nil
}

func (d *treeViewDir) Open(ctx context.Context, n *snapshot.Node) (io.ReadCloser, error) {
	c, err := d.findNode(n.Name)
	if err != nil {
		return nil, err
	}
	if c.object != "" {
		r, err := d.m.w.s.bucket.NewReader(ctx, c.object, nil)
		if err != nil {
			return nil, opError("read", n.Name, fmt.Errorf("%w: the bucket has lost the content of the file: %w", fault.Internal, err))
		}
		return &objectReader{ReadCloser: r, name: n.Name}, nil
	}
	var data []byte
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if c.size > 0 {
		if err := d.m.t.QueryRowContext(ctx, "SELECT data FROM content WHERE node = ?", c.id).Scan(&data); err != nil {
			return nil, opError("read", n.Name, fmt.Errorf("%w: %w", fault.Internal, err))
		}
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (d *treeViewDir) Dir(ctx context.Context, n *snapshot.Node) (snapshot.Directory, error) {
	c, err := d.findNode(n.Name)
	if err != nil {
		return nil, err
	}
	return d.m.readDir(ctx, c.id)
}

func (d *treeViewDir) Close() {}
