package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// Files returns the module for files that this host can't reach, such as on a volume of a
// remote engine: every call goes to the guest, which must have been started with
// Config.Files. Answers are untrusted data about the guest's own workspace.
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

// checkPaths refuses entries whose paths leave the workspace: a caller that copies entries to
// this host uses the paths as names.
func (c *Client) checkPaths(what string, err error, infos []driver.Info) error {
	if err == nil && slices.ContainsFunc(infos, func(i driver.Info) bool { return !driver.ValidName(i.Path) }) {
		return c.invalidAnswer(what)
	}
	return err
}

// remoteFiles are the reading operations of Files.
type remoteFiles struct{ c *Client }

var _ driver.Files = remoteFiles{}

func (f remoteFiles) Stat(ctx context.Context, name string, opts *driver.StatOptions) (info driver.Info, err error) {
	err = f.c.fileCall(ctx, "stat", name, "", opts, &info)
	return info, err
}

// ReadDir lists a directory, in pages if it is too large for one answer.
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

// dirPage is a number of entries that fits into one answer.
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

// Read opens a file and reads its first chunk; most files have no second one.
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

// A remoteBody is a file that is read in chunks.
type remoteBody struct {
	c      *Client
	ctx    context.Context // of the call that opened the file; ends the reads
	handle string
	data   []byte
	eof    bool // the guest has closed it
	closed bool
}

// Read reads from the file.
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

// Close closes the file at the guest.
func (b *remoteBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if !b.eof && b.c.checkConnected() == nil {
		//nolint:errcheck // the file is closed when the guest ends
		b.c.files.Read(context.WithoutCancel(b.ctx), &guestpb.FileReadRequest{Handle: b.handle, Close: true})
	}
	return nil
}

// watchFiles starts a watch at the guest.
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

// A remoteWatcher is a watch at the guest.
type remoteWatcher struct {
	c    *Client
	id   string
	life context.Context // until Close
	end  context.CancelFunc

	sem  chan struct{}   // semaphore for next
	next chan watchReply // answer of the pending call; nil without one
}

type watchReply struct {
	resp *guestpb.WatchResponse
	err  error
}

// Next waits for a batch. If the caller gives up, the call to the guest goes on, and its
// answer is for the next Next.
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

// Close ends the watch.
func (w *remoteWatcher) Close() error {
	if w.life.Err() != nil {
		return nil
	}
	if w.c.checkConnected() == nil {
		//nolint:errcheck // the watch ends with the guest
		w.c.files.WatchClose(w.life, &guestpb.WatchRequest{Id: w.id})
	}
	w.end()
	return nil
}
