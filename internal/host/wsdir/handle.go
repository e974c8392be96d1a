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
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// OpenRoot opens the files of a workspace with options that enforce its policy. dir is
// Store.Files.
type OpenRoot func(dir string, opts *files.Options) (*files.Root, error)

// OpenDirectory is the OpenRoot of a workspace whose files are in dir itself, without
// overlayfs layers.
func OpenDirectory(dir string, opts *files.Options) (*files.Root, error) {
	return files.Open(dir, opts)
}

// A Handle is an open workspace. It is safe for concurrent use.
type Handle struct {
	store    *Store
	id       string
	dir      string      // Store.Files
	info     fs.FileInfo // of dir, if the workspace is not in place
	identity files.Identity
	openFunc OpenRoot

	// Via, if set before the first call, returns the files module for all calls, for
	// workspaces whose files are not in their directory itself.
	Via func(ctx context.Context) (*driver.FS, error)

	mu       sync.RWMutex
	pin      *os.File    // the state file that was last read; see readState
	seen     fs.FileInfo // of pin; nil if the file on disk does not match state
	state    State       // that root was opened for
	root     *files.Root // enforces the policy of state
	module   *driver.FS
	presence *presence
	closed   bool
}

// Attach opens a handle of the workspace that m describes. Open and Resolve of a provider
// both end here.
func (s *Store) Attach(ctx context.Context, m *State, open OpenRoot) (*Handle, error) {
	h := &Handle{store: s, id: m.ID, dir: s.Files(m), openFunc: open}
	if m.Dir == "" {
		MakeUsable(h.dir)
	}
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
		if fault.Of(err) == fault.NotFound { // destroyed since its state was read
			err = s.Gone()
		}
		return nil, errors.Join(s.OpenFailed(ctx, "attach", err), h.Close())
	}
	return h, nil
}

// MakeUsable gives the owner of a directory that a provider has made for the files of a
// workspace the rights back that a command in it took away (chmod 000 .): without them no
// command starts there, and an ordinary user can't open it. A failure shows when it is opened.
func MakeUsable(dir string) {
	const owner = 0o700
	info, err := os.Lstat(dir)
	if err == nil && info.IsDir() && info.Mode()&owner != owner {
		os.Chmod(dir, info.Mode()|owner) //nolint:errcheck // as documented
	}
}

// AfterCrash reports whether the process that last had the workspace open crashed. Of several
// handles that are opened after a crash one reports it.
func (h *Handle) AfterCrash() bool { return h.presence.crashed }

// recordIdentity records the identity of the directory, by which dirUnchanged recognizes
// it. It closes root on an error.
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

// bindRoot makes root, which enforces the policy of m, the root of all further calls, if m
// is still the state on disk. Calls under way end on the former root.
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

// readState reads the state file and keeps it open, so that its inode number is not reused
// while it is compared. h.mu is held.
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

// Current returns an error if the handle is closed, or if the workspace was destroyed or
// its policy changed.
func (h *Handle) Current() error {
	_, err := h.currentFS()
	return err
}

// State returns the state that the last call read.
func (h *Handle) State() State {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.state
}

// Direct returns the module of the files in their directory, without Via and without the
// check of Current.
func (h *Handle) Direct() *driver.FS {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.module
}

// activeFS returns the module for a call, or the error of Current.
func (h *Handle) activeFS(ctx context.Context) (*driver.FS, error) {
	fs, err := h.currentFS()
	if err != nil || h.Via == nil {
		return fs, err
	}
	return h.Via(ctx)
}

// currentFS is activeFS without Via.
func (h *Handle) currentFS() (*driver.FS, error) {
	h.mu.RLock()
	module, err, changed := h.module, h.checkUsable(), !h.closed && !h.stateUnchanged()
	h.mu.RUnlock()
	if changed {
		return h.refreshState()
	}
	return module, err
}

// checkUsable returns an error if the handle is closed or its directory was replaced. h.mu
// is held.
func (h *Handle) checkUsable() error {
	switch {
	case h.closed:
		return fmt.Errorf("%s: the workspace is closed: %w", h.store.kind, fault.WrongState)
	case !h.dirUnchanged():
		return fmt.Errorf("%s: the directory of the workspace was replaced or removed: %w", h.store.kind, fault.Evicted)
	}
	return nil
}

// stateUnchanged reports whether the state on disk is the file that was last read. h.mu is
// held.
func (h *Handle) stateUnchanged() bool {
	now, err := os.Lstat(h.store.Dir(h.id).statePath())
	return err == nil && h.seen != nil && os.SameFile(now, h.seen)
}

// refreshState reads a state file that was replaced. Another policy or another
// configuration of the provider evicts the handle.
func (h *Handle) refreshState() (*driver.FS, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h.checkUsable()
	}
	m, err := h.readState()
	if err != nil || m.ID != h.id || m.Revision != h.state.Revision || !bytes.Equal(m.Own, h.state.Own) {
		h.seen = nil // each further call reads the file again
		return nil, fmt.Errorf("%s: the workspace was destroyed or its policy changed: %w", h.store.kind, fault.Evicted)
	}
	h.state = *m
	return h.module, h.checkUsable()
}

// Update changes the policy, which the caller has checked, and returns the state of the new
// revision. The handle enforces the new policy at once; other handles are evicted.
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

// ChangeState changes the provider's part of the state, together with what change does to
// the files, which may move to another directory. No change of a file commits meanwhile.
// The handle follows the new state; other handles are evicted if Own changed.
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

// Close releases the workspace. A second Close does nothing.
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

// Destroy removes the workspace; a directory in place stays. end, which may be nil, is
// called with the workspace directory after it got its .dead- name and before it is
// removed. If end fails, the directory stays for a second Destroy or for Sweep.
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

// removeStaleTemps removes unlocked temporary files from a directory in place, since no
// later call does. It does so without a presence marker, because a crash while another
// handle was open leaves no mark.
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
