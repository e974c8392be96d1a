package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// Changes returns direct with every change made by the guest instead, inside its mounts:
// for files that this host can read, but may change only as far as the guest's mounts
// allow. The guest must have been started with Config.Files.
func (c *Client) Changes(direct *driver.FS) *driver.FS {
	own := *direct
	own.Files = changedFiles{direct.Files, c}
	own.Edit = func(ctx context.Context, name string, edits []driver.Edit, opts *driver.EditOptions) (res driver.EditResult, err error) {
		err = c.fileCall(ctx, "edit", name, "", guestproto.NewEditArgs(edits, opts), &res)
		return res, err
	}
	own.Rename = func(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
		return c.fileCall(ctx, "rename", from, to, opts, nil)
	}
	own.Copy = func(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
		return c.fileCall(ctx, "copy", from, to, opts, nil)
	}
	own.Chmod = func(ctx context.Context, name string, mode fs.FileMode) error {
		return c.fileCall(ctx, "chmod", name, "", mode, nil)
	}
	own.Import = nil
	own.Symlink = func(ctx context.Context, target, name string) error {
		return c.fileCall(ctx, "symlink", name, target, nil, nil)
	}
	return &own
}

// fileCall calls an operation whose request and answer fit into one message.
func (c *Client) fileCall(ctx context.Context, op, name, other string, opts, answer any) error {
	if err := c.checkCallable(ctx); err != nil {
		return err
	}
	r := &guestpb.FileRequest{Op: op, Name: []byte(name), Other: []byte(other)}
	if opts != nil {
		data, err := json.Marshal(opts)
		if err != nil {
			return fmt.Errorf("guest: %s %s: %w: %w", op, name, fault.InvalidArgument, err)
		}
		r.Options = data
	}
	resp, err := c.files.File(ctx, r)
	if err != nil {
		return c.callError(op, err)
	}
	return c.decodeAnswer(op, resp, answer)
}

// checkCallable is checkConnected that also fails if ctx has ended: ttrpc would send the call nevertheless.
func (c *Client) checkCallable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("guest of %s: %w", c.workspace, err)
	}
	return c.checkConnected()
}

// decodeAnswer decodes the answer to a call.
func (c *Client) decodeAnswer(op string, resp *guestpb.FileResponse, answer any) error {
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(resp.Answer, answer); err != nil {
		return c.invalidAnswer(op)
	}
	return nil
}

type changedFiles struct {
	driver.Files
	c *Client
}

func (f changedFiles) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return f.c.fileCall(ctx, "mkdir", name, "", opts, nil)
}

func (f changedFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return f.c.fileCall(ctx, "remove", name, "", opts, nil)
}

// writeBuffers are buffers for chunks of writes; most files have one small chunk.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, guestproto.MaxChunk); return &b }}

// Write sends the body in chunks; the last puts the file in place.
func (f changedFiles) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	if err := f.c.checkCallable(ctx); err != nil {
		return driver.WriteResult{}, err
	}
	data, err := json.Marshal(opts)
	if err != nil {
		return driver.WriteResult{}, fmt.Errorf("guest: write %s: %w: %w", name, fault.InvalidArgument, err)
	}
	var ans guestproto.WriteAnswer
	pooled := writeBuffers.Get().(*[]byte)
	defer writeBuffers.Put(pooled)
	buf := *pooled
	for {
		n, rerr := io.ReadFull(body, buf)
		last := rerr == io.EOF || rerr == io.ErrUnexpectedEOF // ReadFull answers just these
		r := &guestpb.FileWriteRequest{Name: []byte(name), Options: data, Handle: ans.Handle, Data: buf[:n], Commit: last, Abort: rerr != nil && !last}
		if r.Abort && r.Handle == "" {
			return driver.WriteResult{}, rerr
		}
		resp, err := f.c.files.Write(ctx, r)
		switch {
		case r.Abort:
			return driver.WriteResult{}, rerr
		case err != nil:
			f.abortWrite(ctx, ans.Handle)
			return driver.WriteResult{}, f.c.callError("write", err)
		}
		if err := f.c.decodeAnswer("write", resp, &ans); err != nil {
			return driver.WriteResult{}, err
		}
		if ans.Result != nil {
			return *ans.Result, nil
		}
		if last || ans.Handle == "" {
			return driver.WriteResult{}, f.c.invalidAnswer("write")
		}
	}
}

// abortWrite cancels a write at the guest.
func (f changedFiles) abortWrite(ctx context.Context, handle string) {
	if handle == "" {
		return
	}
	//nolint:errcheck // the write ends with the guest
	f.c.files.Write(context.WithoutCancel(ctx), &guestpb.FileWriteRequest{Handle: handle, Abort: true})
}
