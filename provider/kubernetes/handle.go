package kubernetes

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress/proxies"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/workspace/driver"
)

// A handle is an open workspace: its connection to the guest, once one was needed.
type handle struct {
	p      *Provider
	id     string
	proof  *proof
	shared *openState // with the other handles of the workspace; guarded by Provider.mu

	sem      chan struct{} // semaphore for the fields below; a context ends the wait
	client   *guest.Client
	proxy    proxies.Ref
	revision int64 // of the policy that the handle applies
	closed   bool
	removed  bool // by this handle: another workspace may have the id by now
}

func (p *Provider) newHandle(st *state, f *proof) *handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.open[st.ID]
	if o == nil || o.destroyed { // a workspace that was destroyed, and one with its id
		o = &openState{}
		p.open[st.ID] = o
	}
	o.handles++
	o.revision = max(o.revision, st.Revision)
	return &handle{p: p, id: st.ID, proof: f, shared: o, sem: make(chan struct{}, 1), revision: st.Revision}
}

// lock waits until no other goroutine connects or disconnects.
func (h *handle) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case h.sem <- struct{}{}:
		return func() { <-h.sem }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("kubernetes: %w", ctx.Err())
	}
}

// checkCurrent returns an error if the handle is closed, or if the workspace was destroyed or
// its policy changed by another handle of this process. The handle is locked.
func (h *handle) checkCurrent() error {
	if h.closed {
		return fmt.Errorf("kubernetes: the workspace is closed: %w", fault.WrongState)
	}
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if h.shared.destroyed || h.shared.revision != h.revision {
		return fmt.Errorf("kubernetes: the workspace was destroyed or its policy changed: %w", fault.Evicted)
	}
	return nil
}

// guest returns the connection to the guest, and finds or starts the guest first if necessary.
// If the connection has ended since its last use, the error is Evicted, once.
func (h *handle) guest(ctx context.Context) (*guest.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	unlock, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := h.checkCurrent(); err != nil {
		return nil, err
	}
	if h.client == nil {
		return h.connect(ctx)
	}
	select {
	case <-h.client.Gone():
		h.disconnect()
		return nil, fmt.Errorf("kubernetes: the connection to the guest has ended: %w", fault.Evicted)
	default:
		return h.client, nil
	}
}

// connect connects to the guest. The handle is locked.
func (h *handle) connect(ctx context.Context) (*guest.Client, error) {
	unlock, err := h.p.locks.Lock(ctx, h.id)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	defer unlock()
	if err := h.checkCurrent(); err != nil {
		return nil, err
	}
	st, err := h.p.readState(ctx, h.id)
	if fault.Of(err) == fault.NotFound || err == nil && (st.Destroying || st.Revision != h.revision) {
		return nil, fmt.Errorf("kubernetes: the workspace was destroyed or its policy changed: %w", fault.Evicted)
	}
	if err != nil {
		return nil, err
	}
	l, err := h.p.newLaunch(st, h.proof.Level)
	if err != nil {
		return nil, err
	}
	if err := h.startProxy(ctx, st.Policy.Network); err != nil {
		return nil, err
	}
	c, err := h.p.connectGuest(ctx, l)
	if err != nil {
		return nil, h.connectError(ctx, err)
	}
	h.relay(c, st.Policy.Network)
	if err := h.p.completeRollback(ctx, st, c); err != nil {
		c.Close() //nolint:errcheck // nothing is lost with it
		return nil, err
	}
	h.client = c
	return c, nil
}

// connectError is Evicted if the workspace was destroyed while the handle connected, with
// another error than the one of that.
func (h *handle) connectError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if st, serr := h.p.readState(ctx, h.id); fault.Of(serr) == fault.NotFound || serr == nil && st.Destroying {
		return fmt.Errorf("kubernetes: the workspace was destroyed: %w", fault.Evicted)
	}
	return err
}

// disconnect closes the connection; the guest lives on. The handle is locked.
func (h *handle) disconnect() {
	if h.client != nil {
		h.client.Close() //nolint:errcheck // the guest notices by itself
		h.client = nil
	}
}

func (h *handle) files(ctx context.Context) (*driver.FS, error) {
	c, err := h.guest(ctx)
	if err != nil {
		return nil, err
	}
	return c.Files(), nil
}

func (h *handle) shell(ctx context.Context) (*driver.Shell, error) {
	c, err := h.guest(ctx)
	if err != nil {
		return nil, err
	}
	return h.withRefusals(c.Shell()), nil
}

// update changes the policy. It ends a pod that can't apply the new one.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	st, err := h.updateLocked(ctx, policy)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("kubernetes: update: %w", err)
	}
	return h.p.newRef(st)
}

func (h *handle) updateLocked(ctx context.Context, policy driver.Policy) (*state, error) {
	unlock, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := h.checkCurrent(); err != nil {
		return nil, err
	}
	old, err := h.p.readState(ctx, h.id)
	if fault.Of(err) == fault.NotFound {
		return nil, fmt.Errorf("the workspace is gone: %w", fault.Evicted)
	}
	if err != nil {
		return nil, err
	}
	f, err := h.p.checkPolicy(ctx, policy, old.Options)
	if err != nil {
		return nil, err
	}
	unlockID, err := h.p.locks.Lock(ctx, h.id)
	if err != nil {
		return nil, err
	}
	defer unlockID()
	st, err := h.p.applyPolicy(ctx, h.id, policy, f)
	if err != nil {
		return nil, err
	}
	h.revision = st.Revision
	if h.client != nil {
		l, err := h.p.newLaunch(st, f.Level)
		if err != nil {
			return nil, err
		}
		was, err := h.p.newLaunch(&state{ID: st.ID, Policy: old.Policy, Options: old.Options, secret: old.secret}, f.Level)
		if err != nil {
			return nil, err
		}
		if l.key != was.key { // its pod was ended
			h.disconnect()
		}
	}
	return st, nil
}

// close closes the workspace. Its guest lives on.
func (h *handle) close(ctx context.Context) error {
	unlock, err := h.lock(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	h.disconnect()
	h.proxy.Release(ctx)
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if h.shared.handles--; h.shared.handles == 0 && h.p.open[h.id] == h.shared {
		delete(h.p.open, h.id)
	}
	return nil
}

// destroy removes the workspace.
func (h *handle) destroy(ctx context.Context) error {
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	if h.client != nil {
		h.client.ExpectEnd()
	}
	removed := h.removed
	unlock()
	if removed {
		return nil
	}
	if err := h.remove(ctx); err != nil {
		return fmt.Errorf("kubernetes: destroy: %w", err)
	}
	if unlock, err = h.lock(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	h.removed = true
	unlock()
	return h.close(ctx)
}

func (h *handle) remove(ctx context.Context) error {
	unlock, err := h.p.locks.Lock(ctx, h.id)
	if err != nil {
		return err
	}
	defer unlock()
	h.p.mu.Lock()
	h.shared.destroyed = true
	h.p.mu.Unlock()
	return h.p.removeWorkspace(ctx, h.id)
}
