package wsdir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// A Fence opens the files of a workspace, with options that hold its policy. dir
// is Ground.Files.
type Fence func(dir string, opts *files.Options) (*files.Root, error)

// Directory is the fence of files that are plainly in their directory.
func Directory(dir string, opts *files.Options) (*files.Root, error) {
	return files.Open(dir, opts)
}

// A Handle is a live workspace. Its methods may be called from many goroutines.
type Handle struct {
	g     *Ground
	id    string
	dir   string      // where the files are
	info  fs.FileInfo // of dir, unless it is in place
	is    files.Identity
	fence Fence

	// Via, where it is set before the first call, gives the module that calls go
	// to, for files that are not plainly in their directory.
	Via func(ctx context.Context) (*driver.FS, error)

	mu     sync.RWMutex
	pin    *os.File    // the state that was last read; see look
	seen   fs.FileInfo // of pin; nil is another state than meta
	meta   Meta        // that the handle was bound to
	root   *files.Root // under the policy of meta
	module *driver.FS
	held   *holder
	closed bool
}

// Attach builds the live workspace that m describes: Open and Resolve of a
// provider both end here.
func (g *Ground) Attach(ctx context.Context, m *Meta, fence Fence) (*Handle, error) {
	h := &Handle{g: g, id: m.ID, dir: g.Files(m), fence: fence}
	root, err := h.open(m)
	if err == nil {
		err = h.know(m, root)
	}
	if err == nil {
		err = h.bind(m, root)
	}
	if err == nil {
		h.held, err = hold(ctx, g.Path(m.ID, HeldName), root, m.Policy.ReadOnly, m.Dir != "")
	}
	if err != nil {
		if fault.Of(err) == fault.NotFound { // destroyed since it was looked at
			err = g.Gone()
		}
		return nil, errors.Join(g.OpenFailed(ctx, "attach", err), h.Close())
	}
	return h, nil
}

// know keeps what tells the directory from another one. A root that it can't be
// told of is closed.
func (h *Handle) know(m *Meta, root *files.Root) (err error) {
	if m.Dir != "" {
		h.is, err = root.Identity()
	} else {
		h.info, err = os.Lstat(h.dir)
	}
	if err != nil {
		return errors.Join(err, root.Close())
	}
	return nil
}

// bind makes calls go to root, which obeys the policy of m, the state on disk.
// Calls under way on the root before end on that.
func (h *Handle) bind(m *Meta, root *files.Root) error {
	now, err := h.look()
	if err == nil && now.Revision != m.Revision {
		err = fault.Transient(fmt.Errorf("%w: the policy was changed meanwhile", fault.Failed))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = h.g.Gone()
	}
	if err != nil {
		return errors.Join(err, root.Close())
	}
	if h.root != nil {
		h.root.Close() //nolint:errcheck // nothing was written through the descriptor
	}
	h.meta, h.root, h.module = *m, root, root.Module()
	return nil
}

// look reads the state on disk, and remembers which file it is. The file stays open,
// so that its inode is not used again. h.mu is held.
func (h *Handle) look() (*Meta, error) {
	pin, err := os.Open(h.g.Dir(h.id).state())
	if err != nil {
		return nil, err
	}
	var m *Meta
	seen, err := pin.Stat()
	if err == nil {
		var data []byte
		if data, err = io.ReadAll(pin); err == nil {
			m, err = parse(data, h.g.kind)
		}
	}
	if err != nil {
		return nil, errors.Join(err, pin.Close())
	}
	if h.pin != nil {
		h.pin.Close()
	}
	h.pin, h.seen = pin, seen
	return m, nil
}

// Current answers why no call may be made, if there is a reason: the handle is
// closed, or does not stand for the workspace any more.
func (h *Handle) Current() error {
	_, err := h.current()
	return err
}

// Meta is the state as the last call of Current found it.
func (h *Handle) Meta() Meta {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.meta
}

// Direct is the module of the files in their directory, without Via and without
// a look at whether the handle still stands for the workspace.
func (h *Handle) Direct() *driver.FS {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.module
}

// files returns the module that calls go to, or why there is none.
func (h *Handle) files(ctx context.Context) (*driver.FS, error) {
	fs, err := h.current()
	if err != nil || h.Via == nil {
		return fs, err
	}
	return h.Via(ctx)
}

// current is files without Via.
func (h *Handle) current() (*driver.FS, error) {
	h.mu.RLock()
	module, err, changed := h.module, h.usable(), !h.closed && !h.unchanged()
	h.mu.RUnlock()
	if changed {
		return h.refresh()
	}
	return module, err
}

// usable says why no call may be made, whatever the state on disk says. h.mu is held.
func (h *Handle) usable() error {
	switch {
	case h.closed:
		return fmt.Errorf("%s: the workspace is closed: %w", h.g.kind, fault.WrongState)
	case !h.stands():
		return fmt.Errorf("%s: the directory of the workspace is another one now, or none: %w", h.g.kind, fault.Evicted)
	}
	return nil
}

// unchanged reports whether the state on disk is the file that was last read. h.mu
// is held.
func (h *Handle) unchanged() bool {
	now, err := os.Lstat(h.g.Dir(h.id).state())
	return err == nil && h.seen != nil && os.SameFile(now, h.seen)
}

// refresh looks at a state that was written since: another policy or another shape
// of the workspace evicts the handle.
func (h *Handle) refresh() (*driver.FS, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h.usable()
	}
	m, err := h.look()
	if err != nil || m.ID != h.id || m.Revision != h.meta.Revision || !bytes.Equal(m.Own, h.meta.Own) {
		h.seen = nil // each call looks again, and finds the same
		return nil, fmt.Errorf("%s: the workspace was destroyed or its policy changed: %w", h.g.kind, fault.Evicted)
	}
	h.meta = *m
	return h.module, h.usable()
}

// Update changes the policy, which the caller has checked, and returns the state
// of the new revision. The handle obeys it from then on; others are evicted.
func (h *Handle) Update(ctx context.Context, policy driver.Policy) (*Meta, error) {
	unlock, err := h.g.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := h.g.Read(h.id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the workspace is gone: %w", fault.Evicted)
	}
	if err != nil {
		return nil, err
	}
	h.mu.Lock() // no call may see the new state with the old policy
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("the workspace is closed: %w", fault.WrongState)
	}
	next := *m
	next.Policy = policy
	root, err := h.open(&next)
	if err != nil {
		return nil, err
	}
	if err := h.g.setPolicy(ctx, m, policy); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return m, h.bind(m, root)
}

// Reshape changes what the provider keeps in the state, together with what change
// does to the files: their directory may be another one after it. No change of a file
// is committed meanwhile. The handle stands for what there is then; others are
// evicted where Own is another one.
func (h *Handle) Reshape(ctx context.Context, change func(*Meta) error) error {
	unlock, err := h.g.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("the workspace is closed: %w", fault.WrongState)
	}
	m, err := h.g.reshape(ctx, h.id, change)
	if err != nil {
		return err
	}
	root, err := h.open(m)
	if err != nil {
		return err
	}
	if err := h.know(m, root); err != nil {
		return err
	}
	return h.bind(m, root)
}

// Close lets go of the workspace. Closing twice is closing once.
func (h *Handle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	var errs []error
	if h.root != nil {
		errs = append(errs, h.root.Close())
	}
	if h.pin != nil {
		errs = append(errs, h.pin.Close())
	}
	if h.held != nil {
		errs = append(errs, h.held.release())
	}
	return errors.Join(errs...)
}

// Destroy ends the workspace; a directory in place stays. end, which may be nil,
// is called with the path of the workspace's directory once that has the name of
// a dead one, and before it is removed; after an error of it the directory
// stays, for a second try or a sweep.
func (h *Handle) Destroy(ctx context.Context, end func(ctx context.Context, dir string) error) error {
	h.tidy(ctx)
	if err := h.Close(); err != nil {
		return err
	}
	dead, err := h.g.buryOne(ctx, h.id)
	if err != nil {
		return err
	}
	if err := h.g.end(ctx, dead, end); err != nil {
		return err
	}
	if err := files.RemoveTree(h.g.Path(dead)); err != nil {
		return err
	}
	driver.Step(ctx, "removed")
	return nil
}

// tidy removes from a directory in place the temporary files that nobody writes
// any more: there is no later moment to do so. It asks for no sign of a crash,
// since one that happened while others held the workspace left none.
func (h *Handle) tidy(ctx context.Context) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed || h.dir == h.g.Path(h.id, FilesName) || h.meta.Policy.ReadOnly {
		return
	}
	if err := h.root.CleanTemps(ctx); err != nil {
		h.g.log.Warn(h.g.kind+": temporary files stay in a directory in place", "workspace", h.id, "error", err)
	}
}
