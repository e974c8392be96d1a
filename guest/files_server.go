package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// A fileServer serves the files of a workspace where the host can't reach them
// itself: on a volume of a remote engine, in a pod.
type fileServer struct {
	fs *driver.FS

	mu       sync.Mutex
	next     int
	reads    map[string]io.ReadCloser
	writes   map[string]*pendingWrite
	watchers map[string]driver.Watcher
}

// maxHandles bounds what a host can leave open.
const maxHandles = 1024

func newFileServer(module *driver.FS) *fileServer {
	return &fileServer{fs: module, reads: map[string]io.ReadCloser{}, writes: map[string]*pendingWrite{}, watchers: map[string]driver.Watcher{}}
}

// close ends what is still open: when the guest ends, and when the last of its
// hosts is gone, who may have died in the middle.
func (f *fileServer) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.reads {
		r.Close()
	}
	for _, w := range f.writes {
		w.body.CloseWithError(fault.Canceled) // it always answers nil
	}
	for _, w := range f.watchers {
		w.Close() //nolint:errcheck // nothing is lost with it
	}
	clear(f.reads)
	clear(f.writes)
	clear(f.watchers)
}

// handle returns a new name for something that stays open.
func (f *fileServer) handleLocked() (string, error) {
	if len(f.reads)+len(f.writes)+len(f.watchers) >= maxHandles {
		return "", fmt.Errorf("guest: %d files are open: %w", maxHandles, fault.ResourceExhausted)
	}
	f.next++
	return strconv.Itoa(f.next), nil
}

// File does what needs no stream of bytes.
func (s *server) File(ctx context.Context, r *guestpb.FileRequest) (*guestpb.FileResponse, error) {
	if s.files == nil {
		return &guestpb.FileResponse{Error: toError(errNoFiles)}, nil
	}
	answer, err := s.files.do(ctx, r)
	if err != nil {
		return &guestpb.FileResponse{Error: toError(err)}, nil
	}
	data, err := json.Marshal(answer)
	if err == nil && len(data) > maxStream*2 {
		err = fmt.Errorf("guest: %s: the answer has %d bytes: %w: ask for less at a time", r.Op, len(data), fault.ResourceExhausted)
	}
	if err != nil {
		return &guestpb.FileResponse{Error: toError(err)}, nil
	}
	return &guestpb.FileResponse{Answer: data}, nil
}

var errNoFiles = fmt.Errorf("guest: the files of this workspace are not served from inside: %w", fault.Unsupported)

func (f *fileServer) do(ctx context.Context, r *guestpb.FileRequest) (any, error) {
	name, other := string(r.Name), string(r.Other)
	switch r.Op {
	case "stat":
		return with(r, func(o *driver.StatOptions) (any, error) { return f.fs.Stat(ctx, name, o) })
	case "readdir":
		return f.fs.ReadDir(ctx, name)
	case "list":
		return with(r, func(o *driver.ListOptions) (any, error) { o.After = other; return f.fs.List(ctx, name, o) })
	case "edit":
		return with(r, func(o *editArgs) (any, error) { return f.fs.Edit(ctx, name, o.edits(), &o.Options) })
	case "mkdir":
		return with(r, func(o *driver.MkdirOptions) (any, error) { return nil, f.fs.Mkdir(ctx, name, o) })
	case "remove":
		return with(r, func(o *driver.RemoveOptions) (any, error) { return nil, f.fs.Remove(ctx, name, o) })
	case "rename":
		return with(r, func(o *driver.RenameOptions) (any, error) { return nil, f.fs.Rename(ctx, name, other, o) })
	case "copy":
		return with(r, func(o *driver.CopyOptions) (any, error) { return nil, f.fs.Copy(ctx, name, other, o) })
	case "chmod":
		return with(r, func(o *fs.FileMode) (any, error) { return nil, f.fs.Chmod(ctx, name, *o) })
	case "symlink":
		return nil, f.fs.Symlink(ctx, other, name)
	case "glob":
		return with(r, func(o *driver.GlobOptions) (any, error) { o.Path = name; return f.fs.Glob(ctx, other, o) })
	case "grep":
		return with(r, func(o *driver.GrepOptions) (any, error) { o.Path = name; return f.fs.Grep(ctx, other, o) })
	case "digest":
		return f.fs.Digest(ctx, name)
	}
	return nil, fmt.Errorf("guest: unknown file operation %q: %w", r.Op, fault.InvalidArgument)
}

// editArgs are what Edit takes, with the texts as bytes: JSON keeps no others.
type editArgs struct {
	Edits   []editBytes
	Options driver.EditOptions
}

type editBytes struct {
	Old, New []byte
	All      bool
}

func newEditArgs(edits []driver.Edit, opts *driver.EditOptions) editArgs {
	a := editArgs{Options: *opts}
	for _, e := range edits {
		a.Edits = append(a.Edits, editBytes{[]byte(e.Old), []byte(e.New), e.All})
	}
	return a
}

func (a *editArgs) edits() []driver.Edit {
	var edits []driver.Edit
	for _, e := range a.Edits {
		edits = append(edits, driver.Edit{Old: string(e.Old), New: string(e.New), All: e.All})
	}
	return edits
}

// with decodes the options of a request.
func with[T any](r *guestpb.FileRequest, f func(*T) (any, error)) (any, error) {
	opts := new(T)
	if len(r.Options) > 0 {
		if err := json.Unmarshal(r.Options, opts); err != nil {
			return nil, fmt.Errorf("guest: options of %s: %w: %w", r.Op, fault.InvalidArgument, err)
		}
	}
	return f(opts)
}

// FileRead reads a file in chunks. The handle keeps the very file that was
// opened, whatever becomes of its name.
func (s *server) FileRead(ctx context.Context, r *guestpb.FileReadRequest) (*guestpb.FileReadResponse, error) {
	if s.files == nil {
		return &guestpb.FileReadResponse{Error: toError(errNoFiles)}, nil
	}
	resp, err := s.files.read(ctx, r)
	if err != nil {
		return &guestpb.FileReadResponse{Error: toError(err)}, nil
	}
	return resp, nil
}

func (f *fileServer) read(ctx context.Context, r *guestpb.FileReadRequest) (*guestpb.FileReadResponse, error) {
	resp := &guestpb.FileReadResponse{Handle: r.Handle}
	var body io.ReadCloser
	if r.Handle == "" {
		// The file outlives this call, so its context must not.
		opened, info, err := f.fs.Read(context.WithoutCancel(ctx), string(r.Name), &driver.ReadOptions{Offset: r.Offset, Limit: r.Limit})
		if err != nil {
			return nil, err
		}
		if resp.Info, err = json.Marshal(info); err != nil {
			opened.Close()
			return nil, err
		}
		f.mu.Lock()
		resp.Handle, err = f.handleLocked()
		if err == nil {
			f.reads[resp.Handle] = opened
		}
		f.mu.Unlock()
		if err != nil {
			opened.Close()
			return nil, err
		}
		body = opened
	} else {
		f.mu.Lock()
		body = f.reads[r.Handle]
		f.mu.Unlock()
		if body == nil {
			return nil, fmt.Errorf("guest: read %q: %w", r.Handle, fault.NotFound)
		}
	}
	if !r.Close {
		buf := make([]byte, maxChunk)
		n, err := io.ReadFull(body, buf)
		resp.Data = buf[:n]
		if err == nil {
			return resp, nil
		}
		resp.Eof = true
		if err != io.EOF && err != io.ErrUnexpectedEOF { // ReadFull answers just these
			return nil, f.closeRead(resp.Handle, err)
		}
	}
	return resp, f.closeRead(resp.Handle, nil)
}

func (f *fileServer) closeRead(handle string, err error) error {
	f.mu.Lock()
	body := f.reads[handle]
	delete(f.reads, handle)
	f.mu.Unlock()
	if body != nil {
		body.Close()
	}
	return err
}

// A pendingWrite is a write whose body arrives in pieces.
type pendingWrite struct {
	body   *io.PipeWriter
	done   chan struct{}
	result driver.WriteResult
	err    error
}

// FileWrite writes a file in chunks; it is in place with the one that commits.
func (s *server) FileWrite(ctx context.Context, r *guestpb.FileWriteRequest) (*guestpb.FileResponse, error) {
	if s.files == nil {
		return &guestpb.FileResponse{Error: toError(errNoFiles)}, nil
	}
	answer, err := s.files.write(ctx, r)
	if err != nil {
		return &guestpb.FileResponse{Error: toError(err)}, nil
	}
	data, err := json.Marshal(answer)
	return &guestpb.FileResponse{Error: toError(err), Answer: data}, nil
}

// writeAnswer is what a write answers: a handle while it is under way, the
// result at its end.
type writeAnswer struct {
	Handle string
	Result *driver.WriteResult
}

func (f *fileServer) write(ctx context.Context, r *guestpb.FileWriteRequest) (writeAnswer, error) {
	if r.Handle == "" && r.Commit { // all at once
		var opts driver.WriteOptions
		if err := json.Unmarshal(r.Options, &opts); err != nil {
			return writeAnswer{}, fmt.Errorf("guest: options of write: %w: %w", fault.InvalidArgument, err)
		}
		res, err := f.fs.Write(ctx, string(r.Name), bytes.NewReader(r.Data), &opts)
		return writeAnswer{Result: &res}, err
	}
	w, handle, err := f.pending(ctx, r)
	if err != nil {
		return writeAnswer{}, err
	}
	if r.Abort {
		f.endWrite(handle, w, fault.Canceled)
		return writeAnswer{}, nil
	}
	if _, err := w.body.Write(r.Data); err != nil || r.Commit {
		f.endWrite(handle, w, nil)
		return writeAnswer{Result: &w.result}, w.err
	}
	return writeAnswer{Handle: handle}, nil
}

func (f *fileServer) endWrite(handle string, w *pendingWrite, err error) {
	w.body.CloseWithError(err) // it always answers nil
	<-w.done
	f.mu.Lock()
	delete(f.writes, handle)
	f.mu.Unlock()
}

// pending returns the write that a request belongs to, starting it if need be.
func (f *fileServer) pending(ctx context.Context, r *guestpb.FileWriteRequest) (*pendingWrite, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Handle != "" {
		w := f.writes[r.Handle]
		if w == nil {
			return nil, "", fmt.Errorf("guest: write %q: %w", r.Handle, fault.NotFound)
		}
		return w, r.Handle, nil
	}
	var opts driver.WriteOptions
	if err := json.Unmarshal(r.Options, &opts); err != nil {
		return nil, "", fmt.Errorf("guest: options of write: %w: %w", fault.InvalidArgument, err)
	}
	handle, err := f.handleLocked()
	if err != nil {
		return nil, "", err
	}
	body, writer := io.Pipe()
	w := &pendingWrite{body: writer, done: make(chan struct{})}
	f.writes[handle] = w
	name := string(r.Name)
	go func() { // waited for in endWrite; close ends it through the pipe
		defer close(w.done)
		w.result, w.err = f.fs.Write(context.WithoutCancel(ctx), name, body, &opts)
		body.CloseWithError(io.ErrClosedPipe) // it always answers nil
	}()
	return w, handle, nil
}

// Watch starts to watch.
func (s *server) Watch(ctx context.Context, r *guestpb.WatchRequest) (*guestpb.WatchResponse, error) {
	if s.files == nil {
		return &guestpb.WatchResponse{Error: toError(errNoFiles)}, nil
	}
	var opts driver.WatchOptions
	if err := json.Unmarshal(r.Options, &opts); err != nil {
		return &guestpb.WatchResponse{Error: toError(fmt.Errorf("guest: options of watch: %w: %w", fault.InvalidArgument, err))}, nil
	}
	w, err := s.files.fs.Watch(context.WithoutCancel(ctx), string(r.Name), &opts)
	if err != nil {
		return &guestpb.WatchResponse{Error: toError(err)}, nil
	}
	s.files.mu.Lock()
	id, err := s.files.handleLocked()
	if err == nil {
		s.files.watchers[id] = w
	}
	s.files.mu.Unlock()
	if err != nil {
		w.Close() //nolint:errcheck // nothing is lost with it
	}
	return &guestpb.WatchResponse{Error: toError(err), Id: id}, nil
}

// WatchNext waits for changes.
func (s *server) WatchNext(ctx context.Context, r *guestpb.WatchRequest) (*guestpb.WatchResponse, error) {
	if s.files == nil {
		return &guestpb.WatchResponse{Error: toError(errNoFiles)}, nil
	}
	s.files.mu.Lock()
	w := s.files.watchers[r.Id]
	s.files.mu.Unlock()
	if w == nil {
		return &guestpb.WatchResponse{Eof: true}, nil
	}
	batch, err := w.Next(ctx)
	if err == io.EOF { //nolint:errorlint // as Watcher documents
		return &guestpb.WatchResponse{Eof: true}, nil
	}
	if err != nil {
		return &guestpb.WatchResponse{Error: toError(err)}, nil
	}
	const most = 10_000
	if len(batch.Changes) > most {
		batch.Changes, batch.Overflow = nil, true
	}
	data, err := json.Marshal(batch)
	return &guestpb.WatchResponse{Error: toError(err), Changes: data}, nil
}

// WatchClose stops to watch.
func (s *server) WatchClose(_ context.Context, r *guestpb.WatchRequest) (*guestpb.Status, error) {
	if s.files == nil {
		return &guestpb.Status{Error: toError(errNoFiles)}, nil
	}
	s.files.mu.Lock()
	w := s.files.watchers[r.Id]
	delete(s.files.watchers, r.Id)
	s.files.mu.Unlock()
	if w != nil {
		w.Close() //nolint:errcheck // nothing is lost with it
	}
	return &guestpb.Status{}, nil
}
