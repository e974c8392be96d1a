package files

import (
	"context"
	"io"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// withContext returns a reader that fails when the context ends.
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

// Edit replaces text in a file. If another writer changes the file between read and write,
// Edit starts over, unless opts.IfMatch names the expected content.
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
