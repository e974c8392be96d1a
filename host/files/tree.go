package files

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// withContext is a reader that ends with the context.
func withContext(ctx context.Context, r io.Reader) io.Reader { return &ctxReader{ctx, r} }

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(buf []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(buf)
}

// Edit replaces text in a file. It is applied to the content that is there when
// it is written: where another writer comes between, it starts
// over, unless opts.IfMatch says which content was meant.
func (r *Root) Edit(ctx context.Context, name string, edits []driver.Edit, opts *driver.EditOptions) (driver.EditResult, error) {
	opts = orZero(opts)
	const tries = 100
	for try := 1; ; try++ {
		res, raced, err := r.editOnce(ctx, name, edits, opts)
		if !raced || try == tries || opts.IfMatch != "" {
			return res, opError("edit", name, err)
		}
	}
}

func (r *Root) editOnce(ctx context.Context, name string, edits []driver.Edit, opts *driver.EditOptions) (res driver.EditResult, raced bool, err error) {
	if _, err := r.beginCall(ctx, changes, "edit", name); err != nil {
		return res, false, err
	}
	defer r.endCall()
	body, info, err := r.Read(ctx, name, nil)
	if err != nil {
		return res, false, err
	}
	err = driver.CheckEdit(info.Size)
	var content []byte
	if err == nil {
		content, err = io.ReadAll(io.LimitReader(withContext(ctx, body), driver.MaxEdit+1))
	}
	body.Close()
	if err == nil {
		err = driver.CheckEdit(int64(len(content)))
	}
	if err != nil {
		return res, false, err
	}
	digest := driver.DigestBytes(content)
	if opts.IfMatch != "" && opts.IfMatch != digest {
		return res, false, errConflict
	}
	content, res.Replaced, err = driver.ApplyEdits(content, edits)
	if err != nil {
		return driver.EditResult{}, false, err
	}
	res.Write, err = r.Write(ctx, name, strings.NewReader(string(content)), &driver.WriteOptions{IfMatch: digest, Sync: opts.Sync})
	if err != nil {
		return driver.EditResult{}, fault.Of(err) == fault.Conflict, err
	}
	return res, false, nil
}

// digest is the digest of a file, or of a tree in the order that
// driver.TreeDigest wants.
func (r *Root) digest(ctx context.Context, t cleanName) (string, error) {
	info, err := r.sys.stat(ctx, t, &driver.StatOptions{Digest: true})
	if err != nil || info.Type == driver.TypeFile {
		return info.Digest, err
	}
	if info.Type != driver.TypeDir {
		return "", errNotRegular
	}
	sum := driver.NewTreeDigest()
	err = r.digestDir(ctx, sum, t.name, "")
	return sum.Sum(), err
}

// digestDir adds the directory name, which is called rel in the tree.
func (r *Root) digestDir(ctx context.Context, sum *driver.TreeDigest, name, rel string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	infos, err := r.sys.readDir(cleanName{name: name}, false)
	if err != nil {
		return err
	}
	for _, info := range infos {
		path := strings.TrimPrefix(rel+"/"+info.Name(), "/")
		var content string
		if info.Type == driver.TypeFile {
			now, err := r.sys.stat(ctx, cleanName{name: info.Path}, &driver.StatOptions{NoFollow: true, Digest: true})
			if err != nil {
				return err
			}
			info, content = now, now.Digest
		}
		sum.Add(path, info, content)
		if info.Type == driver.TypeDir {
			if err := r.digestDir(ctx, sum, info.Path, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// defaultPage is how many entries a page of List has where nobody says.
const defaultPage = 1000

// List lists a directory, parents before children, siblings in byte order. The
// Next of a page is the last path in it: entries that come or go between two
// pages neither hide nor repeat others.
func (r *Root) List(ctx context.Context, name string, opts *driver.ListOptions) (driver.Listing, error) {
	t, err := r.beginCall(ctx, reads, "list", name)
	if err != nil {
		return driver.Listing{}, err
	}
	defer r.endCall()
	l := lister{sys: r.sys, opts: *orZero(opts)}
	if l.opts.Depth < -1 || l.opts.Limit < 0 {
		err := fmt.Errorf("%w: depth %d, limit %d; depth is -1 for all, and limit not negative", fault.InvalidArgument, l.opts.Depth, l.opts.Limit)
		return driver.Listing{}, opError("list", name, err)
	}
	if l.opts.Depth == 0 {
		l.opts.Depth = 1
	}
	if l.opts.Limit == 0 {
		l.opts.Limit = defaultPage
	}
	if err := l.listDir(ctx, t.name, l.opts.Depth, t.name); err != nil {
		return driver.Listing{}, opError("list", name, err)
	}
	return l.page, nil
}

type lister struct {
	sys  system
	opts driver.ListOptions
	page driver.Listing
	full bool // there is more than the page holds
}

func (l *lister) listDir(ctx context.Context, name string, depth int, top string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	infos, err := l.sys.readDir(cleanName{name: name}, l.opts.ChangeToken)
	if err != nil && name != top && fault.Of(err) != fault.ResourceExhausted {
		return nil // it went while we listed, or is not ours to read; it is listed itself
	}
	if err != nil {
		return err
	}
	for _, info := range infos {
		if order := treeOrder(info.Path, l.opts.After); l.opts.After == "" || order > 0 {
			if len(l.page.Entries) == l.opts.Limit {
				l.page.Next, l.full = l.page.Entries[l.opts.Limit-1].Path, true
				return nil
			}
			l.page.Entries = append(l.page.Entries, info)
		} else if order < 0 && !strings.HasPrefix(l.opts.After, info.Path+"/") {
			continue // it and all below it were in a page before
		}
		if info.Type == driver.TypeDir && depth != 1 {
			if err := l.listDir(ctx, info.Path, depth-1, top); err != nil || l.full {
				return err
			}
		}
	}
	return nil
}

// treeOrder compares two paths element by element: parents come before
// children, and siblings are in byte order.
func treeOrder(a, b string) int {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		switch {
		case x != y:
			return strings.Compare(x, y)
		case !moreA || !moreB:
			return boolOrder(moreA) - boolOrder(moreB)
		}
		a, b = restA, restB
	}
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}
