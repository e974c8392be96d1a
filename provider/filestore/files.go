package filestore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"gocloud.dev/gcerrors"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var _ driver.Files = (*space)(nil)

// findNode resolves a path that must exist.
func (t *tx) findNode(root *node, name string, follow bool) (*node, error) {
	p, err := t.resolvePath(root, name, walkOptions{follow: follow})
	if err != nil {
		return nil, err
	}
	if p.node == nil {
		return nil, errGone
	}
	return p.node, nil
}

// Stat describes name. Digests are stored, so requesting one is cheap.
func (w *space) Stat(ctx context.Context, name string, opts *driver.StatOptions) (info driver.Info, err error) {
	err = w.view(ctx, func(t *tx, _ *record, root *node) error {
		n, err := t.findNode(root, name, !opts.NoFollow)
		if err != nil {
			return err
		}
		info = n.info(name)
		if opts.Digest {
			info.Digest = n.digest
		}
		return nil
	})
	return info, opError("stat", name, err)
}

// ReadDir lists a directory.
func (w *space) ReadDir(ctx context.Context, name string) (infos []driver.Info, err error) {
	err = w.view(ctx, func(t *tx, _ *record, root *node) error {
		dir, err := t.findNode(root, name, true)
		if err != nil {
			return err
		}
		if dir.typ != driver.TypeDir {
			return errNotDir
		}
		nodes, err := t.children(dir.id)
		infos = make([]driver.Info, 0, len(nodes))
		for _, n := range nodes {
			infos = append(infos, n.info(path.Join(name, n.name)))
		}
		return err
	})
	return infos, opError("list", name, err)
}

// Read opens a file. A large file is streamed from its object, which is not deleted
// while it is open, even if the file is replaced.
func (w *space) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	if opts.Offset < 0 || opts.Limit < 0 {
		err := fmt.Errorf("%w: offset %d, limit %d; neither may be negative", fault.InvalidArgument, opts.Offset, opts.Limit)
		return nil, driver.Info{}, opError("read", name, err)
	}
	const attempts = 10
	for attempt := 1; ; attempt++ {
		n, body, err := w.openContent(ctx, name, opts)
		if gcerrors.Code(err) == gcerrors.NotFound && attempt < attempts {
			continue // the file was replaced, and the old object deleted, after the lookup
		}
		if gcerrors.Code(err) == gcerrors.NotFound {
			err = fmt.Errorf("%w: the bucket has lost the content of the file", fault.Unavailable)
		}
		if err != nil {
			return nil, driver.Info{}, opError("read", name, err)
		}
		return body, n.info(name), nil
	}
}

// openContent looks up a file and opens its content.
func (w *space) openContent(ctx context.Context, name string, opts *driver.ReadOptions) (n *node, body io.ReadCloser, err error) {
	var data []byte
	err = w.view(ctx, func(t *tx, _ *record, root *node) (err error) {
		if n, err = t.findNode(root, name, true); err != nil {
			return err
		}
		if n.typ != driver.TypeFile {
			return errIsDir
		}
		if n.object != "" || n.size == 0 {
			return nil
		}
		// SQLite counts from 1, and a negative length counts backwards.
		length := n.size
		if opts.Limit > 0 {
			length = opts.Limit
		}
		return t.QueryRowContext(ctx, "SELECT substr(data, ?, ?) FROM content WHERE node = ?", min(opts.Offset, n.size)+1, length, n.id).Scan(&data)
	})
	if err != nil {
		return nil, nil, err
	}
	if n.object == "" || opts.Offset >= n.size {
		return n, io.NopCloser(bytes.NewReader(data)), nil
	}
	length := int64(-1)
	if opts.Limit > 0 {
		length = opts.Limit
	}
	r, err := w.s.bucket.NewRangeReader(ctx, n.object, opts.Offset, length, nil)
	if err != nil {
		return nil, nil, err
	}
	return n, &objectReader{ReadCloser: r, name: name}, nil
}

// An objectReader adds fault codes to the errors of a bucket.
type objectReader struct {
	io.ReadCloser
	name string
}

func (r *objectReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a Reader returns io.EOF unwrapped
		err = opError("read", r.name, err)
	}
	return n, err
}

// Mkdir creates a directory.
func (w *space) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	if err := driver.CheckMode(opts.Mode); err != nil {
		return opError("mkdir", name, err)
	}
	mode := opts.Mode
	if mode == 0 {
		mode = 0o755
	}
	err := w.change(ctx, false, func(t *tx, rec *record, root *node) error {
		how := walkOptions{}
		if opts.Parents {
			how = walkOptions{follow: true, make: t.dirMaker(rec.id)}
		}
		p, err := t.resolvePath(root, name, how)
		if err != nil {
			return err
		}
		if p.node == nil {
			return t.newDir(rec.id, p.parent(), p.base, mode)
		}
		if opts.Parents && p.node.typ == driver.TypeDir {
			return nil
		}
		return errExists
	})
	return opError("mkdir", name, err)
}

// dirMaker returns the function with which resolvePath creates missing directories.
func (t *tx) dirMaker(ws string) func(*node, string) (*node, error) {
	return func(dir *node, name string) (*node, error) {
		if err := t.newDir(ws, dir, name, 0o755); err != nil {
			return nil, err
		}
		return t.child(dir.id, name)
	}
}

func (t *tx) newDir(ws string, dir *node, name string, mode fs.FileMode) error {
	n := &node{name: name, typ: driver.TypeDir, mode: mode, mtime: time.Now().UnixNano()}
	if err := t.insertNode(ws, dir.id, n); err != nil {
		return err
	}
	return t.touchDir(dir.id)
}

// Remove removes an entry, never the target of a symlink.
func (w *space) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	err := w.changeBy(ctx, w.s.changeFreeing, false, func(t *tx, _ *record, root *node) error {
		p, err := t.resolvePath(root, name, walkOptions{})
		if err != nil {
			return err
		}
		if p.isRoot() {
			return errRoot
		}
		if p.node == nil {
			return errGone
		}
		if p.node.typ == driver.TypeDir && !opts.Recursive {
			if empty, err := t.isEmpty(p.node.id); err != nil {
				return err
			} else if !empty {
				return fmt.Errorf("%w: the directory is not empty", fault.AlreadyExists)
			}
		}
		if err := t.removeTree(p.node.id); err != nil {
			return err
		}
		return t.touchDir(p.parent().id)
	})
	if err == nil {
		w.s.tryCollectGarbage(ctx)
	}
	return opError("remove", name, err)
}
