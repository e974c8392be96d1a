package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A bodyContent is the content of a body: data for the database, or the key of an object.
type bodyContent struct {
	data   []byte
	object string
	size   int64
	digest string
}

// Write creates or replaces a file. The body is read before the database is locked.
// Whether the write is allowed is checked before that, to avoid a useless upload, and
// again in the transaction, which decides.
func (w *space) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	if err := checkWrite(opts); err != nil {
		return driver.WriteResult{}, opError("write", name, err)
	}
	var rec *record
	err := w.view(ctx, func(t *tx, r *record, root *node) error {
		if rec = r; r.policy.ReadOnly {
			return errReadOnly
		}
		_, err := t.mayWrite(root, name, opts, walkOptions{})
		if opts.Parents && errors.Is(err, errGone) {
			return nil
		}
		return err
	})
	if err != nil {
		return driver.WriteResult{}, opError("write", name, err)
	}
	c, err := w.receiveBody(ctx, rec, body, opts)
	if err != nil {
		return driver.WriteResult{}, opError("write", name, err)
	}
	res, err := w.commitContent(ctx, name, c, opts)
	if err != nil {
		if c.object != "" {
			err = errors.Join(err, w.s.abandonObject(ctx, c.object))
		}
		return driver.WriteResult{}, opError("write", name, err)
	}
	w.s.tryCollectGarbage(ctx)
	return res, nil
}

func checkWrite(o *driver.WriteOptions) error {
	switch {
	case o.IfMatch != "" && !driver.ValidDigest(o.IfMatch):
		return fmt.Errorf("%w: IfMatch is not a digest, %q and 64 hex digits", fault.InvalidArgument, driver.DigestPrefix)
	case o.CreateOnly && o.IfMatch != "":
		return fmt.Errorf("%w: CreateOnly and IfMatch exclude each other", fault.InvalidArgument)
	}
	return driver.CheckMode(o.Mode)
}

// mayWrite resolves the path and checks the existing entry.
func (t *tx) mayWrite(root *node, name string, opts *driver.WriteOptions, how walkOptions) (*resolvedPath, error) {
	how.follow = !opts.CreateOnly
	p, err := t.resolvePath(root, name, how)
	switch {
	case err != nil:
		return nil, err
	case p.node == nil && opts.IfMatch != "":
		return nil, errConflict
	case p.node == nil:
		return p, nil
	case opts.CreateOnly:
		return nil, errExists
	case p.node.typ != driver.TypeFile:
		return nil, errIsDir
	case opts.IfMatch != "" && opts.IfMatch != p.node.digest:
		return nil, errConflict
	}
	return p, nil
}

// receiveBody reads the body into memory if it is small, or else into an object.
func (w *space) receiveBody(ctx context.Context, rec *record, body io.Reader, opts *driver.WriteOptions) (*bodyContent, error) {
	return w.receiveUpTo(ctx, rec, body, max(w.s.threshold, 0), opts)
}

// receiveUpTo is receiveBody with another memory bound.
func (w *space) receiveUpTo(ctx context.Context, rec *record, body io.Reader, inline int64, opts *driver.WriteOptions) (*bodyContent, error) {
	in := &bodyReader{r: body, ctx: ctx, max: opts.MaxSize, hash: driver.NewDigest()}
	head, err := io.ReadAll(io.LimitReader(in, inline+1))
	if err != nil {
		return nil, err
	}
	if int64(len(head)) <= inline {
		return &bodyContent{data: head, size: in.n, digest: driver.SumDigest(in.hash)}, nil
	}
	c := &bodyContent{object: w.s.objectKey(rec.namespace, rec.id)}
	if err := w.s.announceObject(ctx, c.object, rec.id); err != nil {
		return nil, err
	}
	driver.Step(ctx, "object announced")
	if err := w.s.uploadObject(ctx, c.object, io.MultiReader(bytes.NewReader(head), in), rec.policy.Durable || opts.Sync); err != nil {
		return nil, errors.Join(err, w.s.abandonObject(ctx, c.object))
	}
	driver.Step(ctx, "object written")
	c.size, c.digest = in.n, driver.SumDigest(in.hash)
	return c, nil
}

// A bodyReader is a reader that counts, limits and hashes.
type bodyReader struct {
	r    io.Reader
	ctx  context.Context
	max  int64 // 0 is no limit
	n    int64
	hash hash.Hash
}

func (m *bodyReader) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	m.hash.Write(p[:n])
	m.n += int64(n)
	if m.max > 0 && m.n > m.max {
		return 0, fmt.Errorf("%w: the body has more than %d bytes", fault.ResourceExhausted, m.max)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // a Reader returns io.EOF unwrapped
		err = fmt.Errorf("read the body: %w", err)
	}
	return n, err
}

// commitContent makes c the content of a file, in one transaction.
func (w *space) commitContent(ctx context.Context, name string, c *bodyContent, opts *driver.WriteOptions) (res driver.WriteResult, err error) {
	err = w.change(ctx, opts.Sync, func(t *tx, rec *record, root *node) error {
		how := walkOptions{}
		if opts.Parents {
			how.make = t.dirMaker(rec.id)
		}
		p, err := t.mayWrite(root, name, opts, how)
		if err != nil {
			return err
		}
		res = driver.WriteResult{Digest: c.digest, Created: p.node == nil}
		n, err := t.writeFile(rec.id, p, c, opts)
		if err != nil {
			return err
		}
		res.Info = n.info(name)
		if c.object == "" {
			return nil
		}
		return t.exec("DELETE FROM pending WHERE object = ?", c.object)
	})
	return res, err
}

// writeFile writes the rows of a file.
func (t *tx) writeFile(ws string, p *resolvedPath, c *bodyContent, opts *driver.WriteOptions) (*node, error) {
	n := &node{name: p.base, typ: driver.TypeFile, mode: 0o644, size: c.size, digest: c.digest, object: c.object}
	n.mtime = time.Now().UnixNano()
	if !opts.ModTime.IsZero() {
		n.mtime = opts.ModTime.UnixNano()
	}
	if opts.Mode != 0 {
		n.mode = opts.Mode
	}
	if p.node == nil {
		if err := t.insertNode(ws, p.parent().id, n); err != nil {
			return nil, err
		}
		return n, errors.Join(t.touchDir(p.parent().id), t.setData(n.id, c))
	}
	n.id = p.node.id
	if !opts.SetMode {
		n.mode = p.node.mode
	}
	err := t.exec("UPDATE node SET mode = ?, size = ?, mtime = ?, digest = ?, object = ? WHERE id = ?",
		int64(n.mode), n.size, n.mtime, n.digest, textOrNull(n.object), n.id)
	if err != nil {
		return nil, err
	}
	return n, t.setData(n.id, c)
}

func (t *tx) setData(id int64, c *bodyContent) error {
	if c.object != "" || c.size == 0 {
		return t.exec("DELETE FROM content WHERE node = ?", id)
	}
	return t.exec("INSERT INTO content VALUES (?, ?) ON CONFLICT (node) DO UPDATE SET data = excluded.data", id, c.data)
}
