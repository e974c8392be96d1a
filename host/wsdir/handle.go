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

// A OpenRoot opens the files of a workspace, with options that hold its policy. dir
// is Ground.Files.
type OpenRoot func(dir string, opts *files.Options) (*files.Root, error)

// OpenDirectory is the fence of files that are plainly in their directory.
func OpenDirectory(dir string, opts *files.Options) (*files.Root, error) {
	return files.Open(dir, opts)
}

// A Handle is a live workspace. Its methods may be called from many goroutines.
type Handle struct {
	store    *Store
	id       string
	dir      string      // where the files are
	info     fs.FileInfo // of dir, unless it is in place
	identity files.Identity
	openFunc OpenRoot

	// Via, where it is set before the first call, gives the module that calls go
	// to, for files that are not plainly in their directory.
	Via func(ctx context.Context) (*driver.FS, error)

	mu       sync.RWMutex
	pin      *os.File    // the state that was last read; see look
	seen     fs.FileInfo // of pin; nil is another state than meta
	state    State       // that the handle was bound to
	root     *files.Root // under the policy of meta
	module   *driver.FS
	presence *presence
	closed   bool
}

// Attach builds the live workspace that m describes: Open and Resolve of a
// provider both end here.
func (s *Store) Attach(ctx context.Context, m *State, open OpenRoot) (*Handle, error) {
	h := &Handle{store: s, id: m.ID, dir: s.Files(m), openFunc: open}
	root, err := h.openRoot(m)
	if err == nil {
		err = h.recordIdentity(m, root)
	}
	if err == nil {
		err = h.bindRoot(m, root)
	}
	if err == nil {
		h.presence, err = acquirePresence(ctx, s.Path(m.ID, InUseName), root, m.Policy.ReadOnly, m.Dir != "")
	}
	if err != nil {
		if fault.Of(err) == fault.NotFound { // destroyed since it was looked at
			err = s.Gone()
		}
		return nil, errors.Join(s.OpenFailed(ctx, "attach", err), h.Close())
	}
	return h, nil
}

// recordIdentity keeps what tells the directory from another one. A root that it can't be
// told of is closed.
func (h *Handle) recordIdentity(m *State, root *files.Root) (err error) {
	if m.Dir != "" {
		h.identity, err = root.Identity()
	} else {
		h.info, err = os.Lstat(h.dir)
	}
	if err != nil {
		return errors.Join(err, root.Close())
	}
	return nil
}

// bindRoot makes calls go to root, which obeys the policy of m, the state on disk.
// Calls under way on the root before end on that.
func (h *Handle) bindRoot(m *State, root *files.Root) error {
	now, err := h.readState()
	if err == nil && now.Revision != m.Revision {
		err = fault.Transient(fmt.Errorf("%w: the policy was changed meanwhile", fault.Failed))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = h.store.Gone()
	}
	if err != nil {
		return errors.Join(err, root.Close())
	}
	if h.root != nil {
		h.root.Close() //nolint:errcheck // nothing was written through the descriptor
	}
	h.state, h.root, h.module = *m, root, root.Module()
	return nil
}

// readState reads the state on disk, and remembers which file it is. The file stays open,
// so that its inode is not used again. h.mu is held.
func (h *Handle) readState() (*State, error) {
	pin, err := os.Open(h.store.Dir(h.id).statePath())
	if err != nil {
		return nil, err
	}
	var m *State
	seen, err := pin.Stat()
	if err == nil {
		var data []byte
		if data, err = io.ReadAll(pin); err == nil {
			m, err = parseState(data, h.store.kind)
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
	_, err := h.currentFS()
	return err
}

// State is the state as the last call of Current found it.
func (h *Handle) State() State {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.state
}

// Direct is the module of the files in their directory, without Via and without
// a look at whether the handle still stands for the workspace.
func (h *Handle) Direct() *driver.FS {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.module
}

// activeFS returns the module that calls go to, or why there is none.
func (h *Handle) activeFS(ctx context.Context) (*driver.FS, error) {
	fs, err := h.currentFS()
	if err != nil || h.Via == nil {
		return fs, err
	}
	return h.Via(ctx)
}

// currentFS is files without Via.
func (h *Handle) currentFS() (*driver.FS, error) {
	h.mu.RLock()
	module, err, changed := h.module, h.checkUsable(), !h.closed && !h.stateUnchanged()
	h.mu.RUnlock()
	if changed {
		return h.refreshState()
	}
	return module, err
}

// checkUsable says why no call may be made, whatever the state on disk says. h.mu is held.
func (h *Handle) checkUsable() error {
	switch {
	case h.closed:
		return fmt.Errorf("%s: the workspace is closed: %w", h.store.kind, fault.WrongState)
	case !h.dirUnchanged():
		return fmt.Errorf("%s: the directory of the workspace is another one now, or none: %w", h.store.kind, fault.Evicted)
	}
	return nil
}

// stateUnchanged reports whether the state on disk is the file that was last read. h.mu
// is held.
func (h *Handle) stateUnchanged() bool {
	now, err := os.Lstat(h.store.Dir(h.id).statePath())
	return err == nil && h.seen != nil && os.SameFile(now, h.seen)
}

// refreshState looks at a state that was written since: another policy or another shape
// of the workspace evicts the handle.
func (h *Handle) refreshState() (*driver.FS, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h.checkUsable()
	}
	m, err := h.readState()
	if err != nil || m.ID != h.id || m.Revision != h.state.Revision || !bytes.Equal(m.Own, h.state.Own) {
		h.seen = nil // each call looks again, and finds the same
		return nil, fmt.Errorf("%s: the workspace was destroyed or its policy changed: %w", h.store.kind, fault.Evicted)
	}
	h.state = *m
	return h.module, h.checkUsable()
}

// Update changes the policy, which the caller has checked, and returns the state
// of the new revision. The handle obeys it from then on; others are evicted.
func (h *Handle) Update(ctx context.Context, policy driver.Policy) (*State, error) {
	unlock, err := h.store.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := h.store.Read(h.id)
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
	root, err := h.openRoot(&next)
	if err != nil {
		return nil, err
	}
	if err := h.store.setPolicy(ctx, m, policy); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return m, h.bindRoot(m, root)
}

// ChangeState changes what the provider keeps in the state, together with what change
// does to the files: their directory may be another one after it. No change of a file
// is committed meanwhile. The handle stands for what there is then; others are
// evicted where Own is another one.
func (h *Handle) ChangeState(ctx context.Context, change func(*State) error) error {
	unlock, err := h.store.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("the workspace is closed: %w", fault.WrongState)
	}
	m, err := h.store.changeStateLocked(ctx, h.id, change)
	if err != nil {
		return err
	}
	root, err := h.openRoot(m)
	if err != nil {
		return err
	}
	if err := h.recordIdentity(m, root); err != nil {
		return err
	}
	return h.bindRoot(m, root)
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
	if h.presence != nil {
		errs = append(errs, h.presence.release())
	}
	return errors.Join(errs...)
}

// Destroy ends the workspace; a directory in place stays. end, which may be nil,
// is called with the path of the workspace's directory once that has the name of
// a dead one, and before it is removed; after an error of it the directory
// stays, for a second try or a sweep.
func (h *Handle) Destroy(ctx context.Context, end func(ctx context.Context, dir string) error) error {
	h.removeStaleTemps(ctx)
	if err := h.Close(); err != nil {
		return err
	}
	dead, err := h.store.lockAndRenameDead(ctx, h.id)
	if err != nil {
		return err
	}
	if err := h.store.callEnd(ctx, dead, end); err != nil {
		return err
	}
	if err := files.RemoveTree(h.store.Path(dead)); err != nil {
		return err
	}
	driver.Step(ctx, "removed")
	return nil
}

// removeStaleTemps removes from a directory in place the temporary files that nobody writes
// any more: there is no later moment to do so. It asks for no sign of a crash,
// since one that happened while others held the workspace left none.
func (h *Handle) removeStaleTemps(ctx context.Context) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed || h.dir == h.store.Path(h.id, FilesName) || h.state.Policy.ReadOnly {
		return
	}
	if err := h.root.CleanTemps(ctx); err != nil {
		h.store.log.Warn(h.store.kind+": temporary files stay in a directory in place", "workspace", h.id, "error", err)
	}
}
