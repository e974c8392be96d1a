package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/posix/plot"
	"github.com/croft-run/croft/workspace/driver"
)

// A handle is a live workspace: its files, and its guest once that was needed.
type handle struct {
	p    *Provider
	id   string
	caps driver.Capabilities
	plot *plot.Handle

	turn   chan struct{} // held by who uses the fields below; waiting ends with the context
	client *live         // nil until the guest was needed
	closed bool

	stages bool // directories may be brought in by mounts, where nothing lies below the files

	proxied bool // this handle takes part in the proxy of the workspace
	looking looking
	handed  bool // files are reached through the guest whatever they lie over

	mu   sync.Mutex
	opts options // +checklocks:mu
}

// shape is what the workspace is made of, which Seal changes.
func (h *handle) shape() options {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opts
}

// mounted reports whether the files are what a mount of the guest shows.
func (h *handle) mounted() bool {
	o := h.shape()
	return h.handed || len(o.lower()) > 0 || h.staged()
}

// via is the module that calls for files go to.
func (h *handle) via(ctx context.Context) (*driver.FS, error) {
	switch {
	case h.staged():
		return h.through(ctx)
	case h.mounted():
		return h.files(ctx)
	}
	return h.plot.Direct(), nil
}

func (h *handle) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("sandbox: %w", ctx.Err())
	}
}

// guest returns the guest of the workspace, which it finds or starts. One that
// has died since it was last used is Evicted, once.
func (h *handle) guest(ctx context.Context) (*live, error) {
	if err := h.plot.Current(); err != nil {
		return nil, err
	}
	return h.attached(ctx)
}

// attached is guest for who has just asked whether the workspace is current.
func (h *handle) attached(ctx context.Context) (*live, error) {
	unlock, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if h.closed {
		return nil, fmt.Errorf("sandbox: the workspace is closed: %w", fault.WrongState)
	}
	if h.client == nil {
		h.client, err = h.meet(ctx)
		return h.client, err
	}
	select {
	case <-h.client.Gone():
		h.client.close()
		h.client = nil
		return nil, fmt.Errorf("sandbox: the guest of the workspace has ended: %w", fault.Evicted)
	default:
		return h.client, nil
	}
}

// files is the module for files that are reached through the guest's mount. The
// plot has asked whether the workspace is current before it goes this way.
func (h *handle) files(ctx context.Context) (*driver.FS, error) {
	g, err := h.attached(ctx)
	if err != nil {
		return nil, err
	}
	if g.files == nil { // in place: what must not be changed is held by the guest's mounts
		return g.inPlace(h.plot.Direct()), nil
	}
	return g.files, nil
}

// meet attaches to the guest of the workspace, or starts it, while no other
// process does either.
func (h *handle) meet(ctx context.Context) (*live, error) {
	alone, err := keep.Lock(ctx, h.p.ground.Path(h.id))
	if err != nil {
		if cerr := h.plot.Current(); cerr != nil {
			return nil, cerr
		}
		return nil, fmt.Errorf("sandbox: lock the guest: %w", err)
	}
	defer alone.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	// Who changes or ends the workspace does so before it takes the lock to end
	// the guest. So what is current now stays so until that one's turn.
	if err := h.plot.Current(); err != nil {
		return nil, err
	}
	m := h.plot.Meta()
	l, err := h.p.checkPolicy(ctx, m.Policy)
	if err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w", err)
	}
	want, err := h.p.plan(l, &m, h.shape())
	if err != nil {
		return nil, err
	}
	want.unit.gate = h.plot.Gate(&m)
	if !l.plain { // which has no port to reach it by
		if err := h.wayOut(ctx, m.Policy.Network); err != nil {
			return nil, err
		}
	}
	if _, err := h.p.thawLeft(ctx, h.id); err != nil {
		return nil, err
	}
	g, err := h.find(ctx, want)
	if err != nil {
		return nil, err
	}
	if err := h.completeRollback(ctx, g); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// find adopts the guest, or starts it. The lock of the guest is held.
func (h *handle) find(ctx context.Context, want *plan) (*live, error) {
	if !h.shape().Throwaway {
		if c := h.p.adopt(ctx, h.p.ground.Path(h.id), want); c != nil {
			return h.complete(c)
		}
	}
	c, err := h.p.start(ctx, h.p.ground.Path(h.id), want, !want.level.plain)
	if err != nil {
		return nil, err
	}
	if h.shape().Throwaway {
		h.looking.keep(c.watched)
	}
	return h.complete(c)
}

// complete gives a guest the mounts of what was imported.
func (h *handle) complete(c *live) (*live, error) {
	if !h.staged() {
		return c, nil
	}
	if err := h.remount(c); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// wayOut takes part in the proxy of the workspace, in place of what the handle
// had of it.
func (h *handle) wayOut(ctx context.Context, n driver.Network) error {
	if err := h.p.ways().Hold(h.id, h.p.places(h.id), n); err != nil {
		return fmt.Errorf("sandbox: start the proxy: %w: %w", fault.Of(err), err)
	}
	h.leaveProxy(ctx)
	h.proxied = true
	return nil
}

func (h *handle) leaveProxy(ctx context.Context) {
	if !h.proxied {
		return
	}
	h.proxied = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := h.p.ways().Release(ctx, h.id); err != nil {
		h.p.log.Warn("sandbox: the proxy of a workspace does not end", "workspace", h.id, "error", err)
	}
}

// update changes the policy. A guest that does not run under the new one ends.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	l, err := h.p.checkPolicy(ctx, policy)
	if now := h.plot.Meta(); err == nil {
		if err = checkLeast(policy.Limits); err == nil {
			err = checkDisk(&now, policy)
		}
	}
	if err != nil {
		return driver.Ref{}, fmt.Errorf("sandbox: update: %w", err)
	}
	m, err := h.plot.Update(ctx, policy, nil)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("sandbox: update: %w", err)
	}
	if err := h.renew(ctx, l, m); err != nil {
		return driver.Ref{}, fmt.Errorf("sandbox: update: %w", err)
	}
	return newRef(m, h.caps)
}

// renew ends the guest if it does not run as m says.
func (h *handle) renew(ctx context.Context, l *level, m *plot.Meta) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := h.p.ways().Update(h.id, m.Policy.Network); err != nil {
		return err
	}
	want, err := h.p.plan(l, m, h.shape())
	if err != nil {
		return err
	}
	dir := h.p.ground.Path(h.id)
	if rec, err := keep.Read(dir); err == nil && rec != nil && rec.Key == want.key {
		return nil
	}
	if err := h.p.endGuest(ctx, dir); err != nil {
		return err
	}
	if h.client != nil {
		h.client.close()
		h.client = nil
	}
	return nil
}

// close lets go of the workspace, and of its guest, which lives on.
func (h *handle) close(ctx context.Context) error {
	h.planted(true)
	return errors.Join(h.release(context.WithoutCancel(ctx)), h.plot.Close())
}

func (h *handle) release(ctx context.Context) error {
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	h.closed = true
	h.leaveProxy(ctx)
	if h.client == nil {
		return nil
	}
	h.client.close()
	h.client = nil
	return nil
}

// destroy ends the workspace and its guest. A directory in place stays.
func (h *handle) destroy(ctx context.Context) error {
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	client := h.client
	unlock()
	h.planted(true)
	if client != nil {
		client.Ends() // what it runs is ended on purpose from here on
	}
	if err := h.plot.Destroy(ctx, h.p.endGuest); err != nil {
		return fmt.Errorf("sandbox: destroy: %w", err)
	}
	return h.release(ctx)
}

// noPause says why nothing of the workspace can be frozen, "" where it can.
func (h *handle) noPause(l *level) string {
	switch err := cgroup.Find(cgroup.Freezer).Err; {
	case l.kernel:
		return "what runs in gVisor is not frozen"
	case h.opts.Throwaway:
		return "the workspace is for one command"
	case err != nil:
		return "this user has no control group to freeze processes in: " + err.Error()
	}
	return ""
}

// pause freezes all that runs in the workspace. Files can still be used.
func (h *handle) pause(ctx context.Context) error { return h.freeze(ctx, "pause", true) }

// resume lets it go on.
func (h *handle) resume(ctx context.Context) error { return h.freeze(ctx, "resume", false) }

// alone takes the lock of the guest once nobody keeps the workspace still for a
// moment: who did would let it go on.
func (h *handle) alone(ctx context.Context, verb string) (io.Closer, error) {
	for {
		lock, err := keep.Lock(ctx, h.p.ground.Path(h.id))
		if err != nil {
			return nil, fmt.Errorf("sandbox: %s: lock the guest: %w", verb, err)
		}
		held, err := h.p.thawLeft(ctx, h.id)
		if err == nil && !held {
			return lock, nil
		}
		lock.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("sandbox: %s: %w", verb, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (h *handle) freeze(ctx context.Context, verb string, frozen bool) error {
	if err := h.plot.Current(); err != nil {
		return err
	}
	dir := h.p.ground.Path(h.id)
	alone, err := h.alone(ctx, verb)
	if err != nil {
		return err
	}
	defer alone.Close()
	rec, err := keep.Read(dir)
	if err != nil || rec == nil {
		return nil //nolint:nilerr // nothing runs
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return nil
	}
	if err := cgroup.SetFrozen(ctx, group, frozen); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sandbox: %s: %w: %w", verb, fault.Of(err), err)
	}
	return nil
}
