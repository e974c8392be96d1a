package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/workspace/driver"
)

// A handle is a live workspace.
type handle struct {
	p    *Provider
	id   string
	dir  string      // where the files are
	info fs.FileInfo // of dir
	held *holder

	mu     sync.RWMutex
	pin    *os.File       // the meta that the handle was built from; open, so that its inode is not used again
	seen   fs.FileInfo    // of pin
	root   *boundary.Root // under the policy of that meta
	module *driver.FS
	closed bool
}

// attach builds the live workspace: Open and Resolve both end here.
func (p *Provider) attach(ctx context.Context, m *meta) (*driver.Workspace, error) {
	h := &handle{p: p, id: m.ID, dir: p.dir(m)}
	var err error
	if h.info, err = os.Stat(h.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, gone()
	}
	if err == nil && !h.info.IsDir() {
		err = fmt.Errorf("%w: the path of the workspace is not a directory", fault.Failed)
	}
	var root *boundary.Root
	if err == nil {
		root, err = h.fence(m.Policy)
	}
	if err == nil {
		err = h.bind(m, root)
	}
	if err == nil {
		h.held, err = hold(ctx, p.path(m.ID, heldName), h.root, m.Policy.ReadOnly)
	}
	if err != nil {
		if fault.Of(err) == fault.NotFound { // destroyed since it was looked at
			err = gone()
		}
		return nil, errors.Join(openFailed(ctx, "attach", err), h.release())
	}
	ref, err := m.ref()
	if err != nil {
		return nil, errors.Join(err, h.release())
	}
	return &driver.Workspace{
		Ref:    ref,
		Traits: p.traits(m),
		Life:   driver.Life{Close: h.close, Destroy: h.destroy, Update: h.update},
		FS:     h.fs(),
	}, nil
}

func (m *meta) ref() (driver.Ref, error) {
	return driver.NewRef(Kind, payload{ID: m.ID}, capabilities.Clone(), m.Revision)
}

func (p *Provider) traits(m *meta) driver.Traits {
	t := traits()
	t.Root = p.dir(m)
	if m.Dir != "" {
		t.Root = m.Dir
	}
	if p.damaged(m) {
		t.Damaged = "the host has started anew since the workspace was opened, and its policy was not durable: recent changes may be lost or torn"
	}
	return t
}

// fence opens the directory under a policy.
func (h *handle) fence(policy driver.Policy) (*boundary.Root, error) {
	return boundary.Open(h.dir, &boundary.Options{ReadOnly: policy.ReadOnly, Sync: policy.Durable})
}

// bind makes calls go to root, which obeys the policy of m, the meta on disk.
func (h *handle) bind(m *meta, root *boundary.Root) error {
	pin, seen, err := pinMeta(h.p.path(h.id, metaName), m)
	if err != nil {
		return errors.Join(err, root.Close())
	}
	h.swap(pin, seen, root)
	return nil
}

// pinMeta opens the meta on disk and makes sure that it is still m.
func pinMeta(path string, m *meta) (*os.File, fs.FileInfo, error) {
	pin, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, gone()
	}
	if err != nil {
		return nil, nil, err
	}
	var now meta
	err = json.NewDecoder(pin).Decode(&now)
	if err == nil && now.Revision != m.Revision {
		err = fault.Transient(fmt.Errorf("%w: the policy was changed meanwhile", fault.Failed))
	}
	var seen fs.FileInfo
	if err == nil {
		seen, err = pin.Stat()
	}
	if err != nil {
		pin.Close()
		return nil, nil, err
	}
	return pin, seen, nil
}

// swap replaces what the handle is bound to. Calls under way on the old root end
// on it.
func (h *handle) swap(pin *os.File, seen fs.FileInfo, root *boundary.Root) {
	if h.root != nil {
		h.root.Close() //nolint:errcheck // nothing was written through the descriptor
		h.pin.Close()
	}
	h.pin, h.seen, h.root, h.module = pin, seen, root, root.Module()
}

// current returns the module that calls go to, or why there is none.
func (h *handle) current() (*driver.FS, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed {
		return nil, fmt.Errorf("local: the workspace is closed: %w", fault.WrongState)
	}
	if now, err := os.Lstat(h.p.path(h.id, metaName)); err != nil || !os.SameFile(now, h.seen) {
		return nil, fmt.Errorf("local: the workspace was destroyed or its policy changed: %w", fault.Evicted)
	}
	if now, err := os.Stat(h.dir); err != nil || !os.SameFile(now, h.info) {
		return nil, fmt.Errorf("local: the directory of the workspace is another one now, or none: %w", fault.Evicted)
	}
	return h.module, nil
}

// update changes the policy.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	if err := policy.Check(traits()); err != nil {
		return driver.Ref{}, fmt.Errorf("local: update: %w", err)
	}
	m, err := h.change(ctx, policy)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("local: update: %w", err)
	}
	return m.ref()
}

func (h *handle) change(ctx context.Context, policy driver.Policy) (*meta, error) {
	unlock, err := h.p.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := h.p.readMeta(h.id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the workspace is gone: %w", fault.Evicted)
	}
	if err != nil {
		return nil, err
	}
	h.mu.Lock() // no call may see the new meta with the old policy
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("the workspace is closed: %w", fault.WrongState)
	}
	root, err := h.fence(policy)
	if err != nil {
		return nil, err
	}
	if err := h.p.setPolicy(ctx, m, policy); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return m, h.bind(m, root)
}

// close lets go of the workspace.
func (h *handle) close(context.Context) error {
	return h.release()
}

func (h *handle) release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	var errs []error
	if h.root != nil {
		errs = append(errs, h.root.Close(), h.pin.Close())
	}
	if h.held != nil {
		errs = append(errs, h.held.release())
	}
	return errors.Join(errs...)
}

// destroy ends the workspace. A directory in place stays.
func (h *handle) destroy(ctx context.Context) error {
	h.tidy(ctx)
	if err := h.release(); err != nil {
		return fmt.Errorf("local: destroy: %w", err)
	}
	dead, err := h.p.end(ctx, h.id)
	if err == nil {
		err = removeTree(h.p.path(dead))
	}
	if err != nil {
		return fmt.Errorf("local: destroy: %w", err)
	}
	driver.Step(ctx, "removed")
	return nil
}

// tidy removes from a directory in place what a crash left there, as far as that
// can be told by now.
func (h *handle) tidy(ctx context.Context) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed || h.dir == h.p.path(h.id, filesName) || !h.held.suspected() {
		return
	}
	if err := h.root.CleanTemps(ctx); err != nil {
		h.p.log.Warn("local: temporary files stay in a directory in place", "workspace", h.id, "error", err)
	}
}

// end renames the directory of a workspace to a dead one's.
func (p *Provider) end(ctx context.Context, id string) (dead string, err error) {
	unlock, err := p.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if dead, err = p.kill(id); err == nil {
		driver.Step(ctx, "buried")
	}
	return dead, err
}
