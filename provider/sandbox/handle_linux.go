package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/croft-run/croft/egress/proxies"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// A handle is a live workspace: its files, and its guest once that was needed.
type handle struct {
	p    *Provider
	id   string
	caps driver.Capabilities
	plot *wsdir.Handle

	att *supervise.Attachment[*live]

	stages  bool         // directories may be brought in by mounts, where nothing lies below the files
	handed  bool         // files are reached through the guest's mount whatever they lie over
	proxy   proxies.Part // used while att is locked
	looking looking

	mu   sync.Mutex
	opts options // guarded by mu
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

// via is the module that calls for files go to: see the package doc.
func (h *handle) via(ctx context.Context) (*driver.FS, error) {
	if !h.mounted() {
		return h.plot.Direct(), nil
	}
	g, err := h.att.Guest(ctx)
	if err != nil {
		return nil, err
	}
	if h.staged() {
		return h.over(g), nil
	}
	return g.files, nil
}

// connect attaches to the guest of the workspace, or starts it; see supervise.Attachment.
func (h *handle) connect(ctx context.Context) (*live, error) {
	m := h.plot.State()
	l, err := h.p.checkPolicy(ctx, m.Policy)
	if err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w", err)
	}
	want, err := h.p.plan(l, &m, h.shape())
	if err != nil {
		return nil, err
	}
	want.gate = h.plot.CommitGuard(&m)
	if !l.plain { // which has no port to reach it by
		if err := h.proxy.Take(ctx, h.p.ways(), h.id, h.p.places(h.id), m.Policy.Network); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	if _, err := h.thaw(ctx, supervise.ReadRecord(h.att.Dir)); err != nil {
		return nil, err
	}
	g, err := h.find(ctx, want)
	if err != nil {
		return nil, err
	}
	if err := h.completeRollback(ctx, g); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// find adopts the guest, or starts it, and gives it the mounts of what was imported.
// The lock of the guest is held.
func (h *handle) find(ctx context.Context, want *launchSpec) (g *live, err error) {
	if !want.throwaway {
		g = h.p.adopt(ctx, h.att.Dir, want)
	}
	if g == nil {
		if g, err = h.p.start(ctx, h.att.Dir, want); err != nil {
			return nil, err
		}
		if want.throwaway {
			h.looking.keep(g.watched)
		}
	}
	if h.staged() {
		if err := h.remount(ctx, g); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// update changes the policy. A guest that does not run under the new one ends.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	l, err := h.p.checkPolicy(ctx, policy)
	if now := h.plot.State(); err == nil {
		if err = checkLeast(policy.Limits); err == nil {
			err = checkDisk(&now, policy)
		}
	}
	if err != nil {
		return driver.Ref{}, fmt.Errorf("sandbox: update: %w", err)
	}
	m, err := h.plot.Update(ctx, policy)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("sandbox: update: %w", err)
	}
	if err := h.renew(ctx, l, m); err != nil {
		return driver.Ref{}, fmt.Errorf("sandbox: update: %w", err)
	}
	return newRef(m, h.caps)
}

// renew ends the guest if it does not run as m says.
func (h *handle) renew(ctx context.Context, l *level, m *wsdir.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervise.EndTimeout)
	defer cancel()
	unlock, err := h.att.Lock(ctx)
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
	return h.att.EndIfChanged(ctx, want.key, hooks)
}

// close lets go of the workspace, and of its guest, which lives on.
func (h *handle) close(ctx context.Context) error {
	h.planted(true)
	return errors.Join(h.release(context.WithoutCancel(ctx)), h.plot.Close())
}

func (h *handle) release(ctx context.Context) error {
	return h.att.Close(ctx, func() error {
		h.proxy.Leave(ctx)
		return nil
	})
}

// destroy ends the workspace and its guest. A directory in place stays.
func (h *handle) destroy(ctx context.Context) error {
	h.planted(true)
	if err := h.att.ExpectEnd(ctx); err != nil {
		return err
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

// alone takes the lock of the guest once no process keeps the workspace frozen for a
// moment: that one would thaw it.
func (h *handle) alone(ctx context.Context, verb string) (io.Closer, error) {
	for {
		lock, err := supervise.Lock(ctx, h.att.Dir.Path)
		if err != nil {
			return nil, fmt.Errorf("sandbox: %s: lock the guest: %w", verb, err)
		}
		held, err := h.thaw(ctx, supervise.ReadRecord(h.att.Dir))
		if err == nil && !held {
			return lock, nil
		}
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("sandbox: %s: %w", verb, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// freeze notes that the workload is paused, or that it is not, before that is so: a
// crash in between leaves a workload that runs, or one that the next process thaws.
func (h *handle) freeze(ctx context.Context, verb string, frozen bool) error {
	if err := h.plot.Current(); err != nil {
		return err
	}
	lock, err := h.alone(ctx, verb)
	if err != nil {
		return err
	}
	defer lock.Close()
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return nil // nothing runs
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return nil
	}
	rec.Paused = frozen
	if err := rec.Write(ctx, h.att.Dir); err != nil {
		return fmt.Errorf("sandbox: %s: %w: %w", verb, fault.Of(err), err)
	}
	if err := cgroup.SetFrozen(ctx, group, frozen); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sandbox: %s: %w: %w", verb, fault.Of(err), err)
	}
	return nil
}
