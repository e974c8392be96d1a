package guestd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// A fileServer serves the files of a workspace that the host can't reach, such as on a
// volume of a remote engine.
type fileServer struct {
	fs *driver.FS

	mu   sync.Mutex
	next int
	open map[string]io.Closer // reads, writes and watches under way, by handle
}

var _ guestpb.FilesService = (*fileServer)(nil)

// maxHandles bounds the open handles of all hosts together.
const maxHandles = 1024

func newFileServer(module *driver.FS) *fileServer {
	return &fileServer{fs: module, open: map[string]io.Closer{}}
}

// close closes all handles: when the guest ends, and when the last client has
// disconnected, perhaps in the middle of a read or write.
func (f *fileServer) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.open {
		c.Close()
	}
	clear(f.open)
}

// addHandle returns a handle for c, or closes c and returns an error.
func (f *fileServer) addHandle(c io.Closer) (handle string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.open) >= maxHandles {
		err := fmt.Errorf("guest: %d files are open: %w: close some first", maxHandles, fault.ResourceExhausted)
		return "", errors.Join(err, c.Close())
	}
	f.next++
	handle = strconv.Itoa(f.next)
	f.open[handle] = c
	return handle, nil
}

// lookupHandle returns what has a handle, if its type is T.
func lookupHandle[T io.Closer](f *fileServer, handle string) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.open[handle].(T)
	if !ok {
		return c, fmt.Errorf("guest: handle %q: %w", handle, fault.NotFound)
	}
	return c, nil
}

// closeHandle closes what has a handle, if the handle exists.
func (f *fileServer) closeHandle(handle string) {
	f.mu.Lock()
	c := f.open[handle]
	delete(f.open, handle)
	f.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// File performs an operation whose request and answer fit in one message.
func (f *fileServer) File(ctx context.Context, r *guestpb.FileRequest) (*guestpb.FileResponse, error) {
	answer, err := f.dispatch(ctx, r)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(answer)
	if err == nil && len(data) > guestproto.MaxStream*2 {
		err = fmt.Errorf("guest: %s: the answer has %d bytes: %w: ask for less at a time", r.Op, len(data), fault.ResourceExhausted)
	}
	return &guestpb.FileResponse{Answer: data}, err
}

func (f *fileServer) dispatch(ctx context.Context, r *guestpb.FileRequest) (any, error) {
	name, other := string(r.Name), string(r.Other)
	switch r.Op {
	case "stat":
		return withOptions(r, func(o *driver.StatOptions) (any, error) { return f.fs.Stat(ctx, name, o) })
	case "readdir":
		return f.fs.ReadDir(ctx, name)
	case "list":
		return withOptions(r, func(o *driver.ListOptions) (any, error) { o.After = other; return f.fs.List(ctx, name, o) })
	case "edit":
		return withOptions(r, func(o *guestproto.EditArgs) (any, error) { return f.fs.Edit(ctx, name, o.DriverEdits(), &o.Options) })
	case "mkdir":
		return withOptions(r, func(o *driver.MkdirOptions) (any, error) { return nil, f.fs.Mkdir(ctx, name, o) })
	case "remove":
		return withOptions(r, func(o *driver.RemoveOptions) (any, error) { return nil, f.fs.Remove(ctx, name, o) })
	case "rename":
		return withOptions(r, func(o *driver.RenameOptions) (any, error) { return nil, f.fs.Rename(ctx, name, other, o) })
	case "copy":
		return withOptions(r, func(o *driver.CopyOptions) (any, error) { return nil, f.fs.Copy(ctx, name, other, o) })
	case "chmod":
		return withOptions(r, func(o *fs.FileMode) (any, error) { return nil, f.fs.Chmod(ctx, name, *o) })
	case "symlink":
		return nil, f.fs.Symlink(ctx, other, name)
	case "glob":
		return withOptions(r, func(o *driver.GlobOptions) (any, error) { o.Path = name; return f.fs.Glob(ctx, other, o) })
	case "grep":
		return withOptions(r, func(o *driver.GrepOptions) (any, error) { o.Path = name; return f.fs.Grep(ctx, other, o) })
	case "digest":
		return f.fs.Digest(ctx, name)
	}
	return nil, fmt.Errorf("guest: unknown file operation %q: %w", r.Op, fault.InvalidArgument)
}

// withOptions decodes the options of a request and calls f with them.
func withOptions[T any](r *guestpb.FileRequest, f func(*T) (any, error)) (any, error) {
	opts := new(T)
	if len(r.Options) > 0 {
		if err := json.Unmarshal(r.Options, opts); err != nil {
			return nil, fmt.Errorf("guest: options of %s: %w: %w", r.Op, fault.InvalidArgument, err)
		}
	}
	return f(opts)
}

// Read reads a file in chunks. A handle stays on the file that was opened, also if its
// name is given to another file.
func (f *fileServer) Read(ctx context.Context, r *guestpb.FileReadRequest) (*guestpb.FileReadResponse, error) {
	resp := &guestpb.FileReadResponse{Handle: r.Handle}
	if r.Close {
		f.closeHandle(r.Handle)
		return resp, nil
	}
	if r.Handle == "" {
		// The open file outlives this call.
		body, info, err := f.fs.Read(context.WithoutCancel(ctx), string(r.Name), &driver.ReadOptions{Offset: r.Offset, Limit: r.Limit})
		if err != nil {
			return nil, err
		}
		if resp.Handle, err = f.addHandle(body); err != nil {
			return nil, err
		}
		if resp.Info, err = json.Marshal(info); err != nil {
			f.closeHandle(resp.Handle)
			return nil, err
		}
	}
	body, err := lookupHandle[io.ReadCloser](f, resp.Handle)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, guestproto.MaxChunk)
	n, err := io.ReadFull(body, buf)
	resp.Data = buf[:n]
	if err == nil {
		return resp, nil
	}
	f.closeHandle(resp.Handle)
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	resp.Eof = true
	return resp, nil
}

// A pendingWrite is a write whose body arrives in chunks.
type pendingWrite struct {
	body   *io.PipeWriter
	done   chan struct{}
	result driver.WriteResult
	err    error
}

// Close cancels the write.
func (w *pendingWrite) Close() error { return w.body.CloseWithError(fault.Canceled) }

// Write writes a file in chunks. The chunk with Commit puts the file in place.
func (f *fileServer) Write(ctx context.Context, r *guestpb.FileWriteRequest) (*guestpb.FileResponse, error) {
	answer, err := f.writeChunk(ctx, r)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(answer)
	return &guestpb.FileResponse{Answer: data}, err
}

func (f *fileServer) writeChunk(ctx context.Context, r *guestpb.FileWriteRequest) (guestproto.WriteAnswer, error) {
	var opts driver.WriteOptions
	if r.Handle == "" {
		if err := json.Unmarshal(r.Options, &opts); err != nil {
			return guestproto.WriteAnswer{}, fmt.Errorf("guest: options of write: %w: %w", fault.InvalidArgument, err)
		}
	}
	if r.Handle == "" && r.Commit { // one chunk is the whole body
		res, err := f.fs.Write(ctx, string(r.Name), bytes.NewReader(r.Data), &opts)
		return guestproto.WriteAnswer{Result: &res}, err
	}
	handle, err := r.Handle, error(nil)
	if handle == "" {
		if handle, err = f.addHandle(f.startWrite(ctx, string(r.Name), &opts)); err != nil {
			return guestproto.WriteAnswer{}, err
		}
	}
	w, err := lookupHandle[*pendingWrite](f, handle)
	if err != nil {
		return guestproto.WriteAnswer{}, err
	}
	if !r.Abort {
		if _, err := w.body.Write(r.Data); err == nil && !r.Commit {
			return guestproto.WriteAnswer{Handle: handle}, nil
		}
		w.body.Close() //nolint:errcheck // it always answers nil
		<-w.done
	}
	f.closeHandle(handle)
	<-w.done
	if r.Abort {
		return guestproto.WriteAnswer{}, nil
	}
	return guestproto.WriteAnswer{Result: &w.result}, w.err
}

// startWrite starts a write whose body comes later.
func (f *fileServer) startWrite(ctx context.Context, name string, opts *driver.WriteOptions) *pendingWrite {
	body, writer := io.Pipe()
	w := &pendingWrite{body: writer, done: make(chan struct{})}
	go func() { // ends with the body, which Close ends as well
		defer close(w.done)
		w.result, w.err = f.fs.Write(context.WithoutCancel(ctx), name, body, opts)
		body.CloseWithError(io.ErrClosedPipe) // it always answers nil
	}()
	return w
}

// Watch starts a watch.
func (f *fileServer) Watch(ctx context.Context, r *guestpb.WatchRequest) (*guestpb.WatchResponse, error) {
	var opts driver.WatchOptions
	if err := json.Unmarshal(r.Options, &opts); err != nil {
		return nil, fmt.Errorf("guest: options of watch: %w: %w", fault.InvalidArgument, err)
	}
	w, err := f.fs.Watch(context.WithoutCancel(ctx), string(r.Name), &opts)
	if err != nil {
		return nil, err
	}
	id, err := f.addHandle(w)
	return &guestpb.WatchResponse{Id: id}, err
}

// WatchNext waits for changes.
func (f *fileServer) WatchNext(ctx context.Context, r *guestpb.WatchRequest) (*guestpb.WatchResponse, error) {
	w, err := lookupHandle[driver.Watcher](f, r.Id)
	if err != nil {
		return &guestpb.WatchResponse{Eof: true}, nil // it was closed
	}
	batch, err := w.Next(ctx)
	if err == io.EOF { //nolint:errorlint // as Watcher documents
		return &guestpb.WatchResponse{Eof: true}, nil
	}
	if err != nil {
		return nil, err
	}
	const most = 10_000
	if len(batch.Changes) > most {
		batch.Changes, batch.Overflow = nil, true
	}
	data, err := json.Marshal(batch)
	return &guestpb.WatchResponse{Changes: data}, err
}

// WatchClose ends a watch.
func (f *fileServer) WatchClose(_ context.Context, r *guestpb.WatchRequest) (*guestpb.Empty, error) {
	f.closeHandle(r.Id)
	return &guestpb.Empty{}, nil
}
