package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// Files returns the module for files that are where this host can't reach them,
// such as on a volume of an engine on another host: every call of it goes to the
// guest, which must have been started with Config.Files. What the guest answers is
// hearsay about its own workspace.
func (c *Client) Files() *driver.FS {
	return c.Changes(&driver.FS{
		Files: remoteFiles{c},
		List: func(ctx context.Context, name string, opts *driver.ListOptions) (res driver.Listing, err error) {
			err = c.fileCall(ctx, "list", name, opts.After, opts, &res)
			return res, c.checkPaths("list", err, res.Entries)
		},
		Glob: func(ctx context.Context, pattern string, opts *driver.GlobOptions) (res driver.GlobResult, err error) {
			err = c.fileCall(ctx, "glob", opts.Path, pattern, opts, &res)
			return res, c.checkPaths("glob", err, res.Entries)
		},
		Grep: func(ctx context.Context, pattern string, opts *driver.GrepOptions) (res driver.GrepResult, err error) {
			err = c.fileCall(ctx, "grep", opts.Path, pattern, opts, &res)
			if err == nil && slices.ContainsFunc(res.Matches, func(m driver.Match) bool { return !driver.ValidName(m.Path) }) {
				err = c.invalidAnswer("grep")
			}
			return res, err
		},
		Digest: func(ctx context.Context, name string) (sum string, err error) {
			err = c.fileCall(ctx, "digest", name, "", nil, &sum)
			return sum, err
		},
		Watch: c.watchFiles,
	})
}

// checkPaths refuses entries whose paths are none of the workspace: whoever copies them
// to this host uses them as names.
func (c *Client) checkPaths(what string, err error, infos []driver.Info) error {
	if err == nil && slices.ContainsFunc(infos, func(i driver.Info) bool { return !driver.ValidName(i.Path) }) {
		return c.invalidAnswer(what)
	}
	return err
}

// remoteFiles is the core of such a module; Changes replaces what changes.
type remoteFiles struct{ c *Client }

var _ driver.Files = remoteFiles{}

func (f remoteFiles) Stat(ctx context.Context, name string, opts *driver.StatOptions) (info driver.Info, err error) {
	err = f.c.fileCall(ctx, "stat", name, "", opts, &info)
	return info, err
}

// ReadDir asks for a directory that is too large for one answer page by page.
func (f remoteFiles) ReadDir(ctx context.Context, name string) (infos []driver.Info, err error) {
	err = f.c.fileCall(ctx, "readdir", name, "", nil, &infos)
	if fault.Of(err) != fault.ResourceExhausted {
		return infos, f.c.checkPaths("list", err, infos)
	}
	infos = nil
	for opts := (driver.ListOptions{Depth: 1, Limit: dirPage}); ; {
		var page driver.Listing
		if err := f.c.fileCall(ctx, "list", name, opts.After, &opts, &page); err != nil {
			return nil, err
		}
		if err := f.c.checkPaths("list", nil, page.Entries); err != nil {
			return nil, err
		}
		infos = append(infos, page.Entries...)
		if page.Next == "" {
			return infos, nil
		}
		if page.Next == opts.After {
			return nil, f.c.invalidAnswer("list a directory")
		}
		opts.After = page.Next
	}
}

// dirPage is how many entries of a directory surely fit into one answer.
const dirPage = 2000

// Write, Mkdir and Remove are those of changedFiles.
func (f remoteFiles) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	return changedFiles{f, f.c}.Write(ctx, name, body, opts)
}

func (f remoteFiles) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return changedFiles{f, f.c}.Mkdir(ctx, name, opts)
}

func (f remoteFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return changedFiles{f, f.c}.Remove(ctx, name, opts)
}

// Read opens a file and brings its first piece along: most have no second one.
func (f remoteFiles) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	if err := f.c.checkCallable(ctx); err != nil {
		return nil, driver.Info{}, err
	}
	resp, err := f.c.files.Read(ctx, &guestpb.FileReadRequest{Name: []byte(name), Offset: opts.Offset, Limit: opts.Limit})
	if err != nil {
		return nil, driver.Info{}, f.c.callError("read", err)
	}
	var info driver.Info
	if json.Unmarshal(resp.Info, &info) != nil || len(resp.Data) > guestproto.MaxChunk {
		return nil, driver.Info{}, f.c.invalidAnswer("read")
	}
	return &remoteBody{c: f.c, ctx: ctx, handle: resp.Handle, data: resp.Data, eof: resp.Eof}, info, nil
}

// A remoteBody is a file that is read in pieces.
type remoteBody struct {
	c      *Client
	ctx    context.Context // of the call that opened it, as long as which it may be read
	handle string
	data   []byte
	eof    bool // the guest has closed it
	closed bool
}

// Read reads the file on.
func (b *remoteBody) Read(p []byte) (int, error) {
	switch {
	case b.closed:
		return 0, fmt.Errorf("guest: read: %w: the file is closed", fault.WrongState)
	case len(p) == 0:
		return 0, nil
	}
	if len(b.data) == 0 && !b.eof {
		if err := b.readChunk(); err != nil {
			return 0, err
		}
	}
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (b *remoteBody) readChunk() error {
	resp, err := b.c.files.Read(b.ctx, &guestpb.FileReadRequest{Handle: b.handle})
	if err != nil {
		b.eof = guestproto.FromStatus(err) != nil // the guest has closed it
		return b.c.callError("read", err)
	}
	if len(resp.Data) > guestproto.MaxChunk || len(resp.Data) == 0 && !resp.Eof {
		return b.c.invalidAnswer("read")
	}
	b.data, b.eof = resp.Data, resp.Eof
	return nil
}

// Close lets go of the file.
func (b *remoteBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if !b.eof && b.c.checkConnected() == nil {
		//nolint:errcheck // a guest that is gone has closed it as well
		b.c.files.Read(context.WithoutCancel(b.ctx), &guestpb.FileReadRequest{Handle: b.handle, Close: true})
	}
	return nil
}

// watchFiles watches files inside.
func (c *Client) watchFiles(ctx context.Context, name string, opts *driver.WatchOptions) (driver.Watcher, error) {
	if err := c.checkCallable(ctx); err != nil {
		return nil, err
	}
	data, err := json.Marshal(opts)
	if err != nil {
		return nil, fmt.Errorf("guest: watch %s: %w: %w", name, fault.InvalidArgument, err)
	}
	resp, err := c.files.Watch(ctx, &guestpb.WatchRequest{Name: []byte(name), Options: data})
	if err != nil {
		return nil, c.callError("watch", err)
	}
	if resp.Id == "" {
		return nil, c.invalidAnswer("watch")
	}
	w := &remoteWatcher{c: c, id: resp.Id, sem: make(chan struct{}, 1)}
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	return w, nil
}

// A remoteWatcher is a watch that goes on inside.
type remoteWatcher struct {
	c    *Client
	id   string
	life context.Context // until Close
	end  context.CancelFunc

	sem  chan struct{}   // held by who uses the field below
	next chan watchReply // of the call that is under way; nil is none
}

type watchReply struct {
	resp *guestpb.WatchResponse
	err  error
}

// Next waits for a batch. A guest does not hear of a caller who gives up, so the
// call goes on, and what it answers is for the next one.
func (w *remoteWatcher) Next(ctx context.Context) (driver.Changes, error) {
	select {
	case w.sem <- struct{}{}:
		defer func() { <-w.sem }()
	case <-ctx.Done():
		return driver.Changes{}, ctx.Err()
	}
	if w.life.Err() != nil {
		return driver.Changes{}, io.EOF
	}
	if w.next == nil {
		w.next = make(chan watchReply, 1)
		go func(reply chan<- watchReply) { // ends with the watch, or with the connection
			resp, err := w.c.files.WatchNext(w.life, &guestpb.WatchRequest{Id: w.id})
			reply <- watchReply{resp, err}
		}(w.next)
	}
	select {
	case <-ctx.Done():
		return driver.Changes{}, ctx.Err()
	case <-w.life.Done():
		return driver.Changes{}, io.EOF
	case r := <-w.next:
		w.next = nil
		return w.decodeBatch(r.resp, r.err)
	}
}

func (w *remoteWatcher) decodeBatch(resp *guestpb.WatchResponse, err error) (driver.Changes, error) {
	switch {
	case w.life.Err() != nil, err == nil && resp.Eof, err != nil && isClosed(err):
		return driver.Changes{}, io.EOF
	case err != nil:
		return driver.Changes{}, w.c.callError("watch", err)
	}
	var batch driver.Changes
	if json.Unmarshal(resp.Changes, &batch) != nil || slices.ContainsFunc(batch.Changes, func(c driver.Change) bool { return !driver.ValidName(c.Path) }) {
		return driver.Changes{}, w.c.invalidAnswer("watch")
	}
	return batch, nil
}

// Close stops to watch.
func (w *remoteWatcher) Close() error {
	if w.life.Err() != nil {
		return nil
	}
	if w.c.checkConnected() == nil {
		//nolint:errcheck // a guest that is gone watches nothing
		w.c.files.WatchClose(w.life, &guestpb.WatchRequest{Id: w.id})
	}
	w.end()
	return nil
}
