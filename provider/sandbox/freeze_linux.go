package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/workspace/driver"
)

// The cgroup freezer stops the processes of a workspace for a moment, such as for a
// snapshot. Freezes are counted across processes by a shared flock on the file
// "freeze". A process that gets the flock exclusively is the last user, and thaws. The
// kernel drops the flock of a process that dies. Then a process that is connected to the
// guest, or the next one that connects, finds a frozen cgroup that is neither paused nor
// locked, and thaws it. Taking or testing the flock requires the guest lock.
const freezeName = "freeze"

// A freezeRef is one reference on the cgroup freeze of a workspace.
type freezeRef struct {
	frozen bool         // the processes are frozen, or there are no processes
	lock   *flock.Flock // nil where there is nothing to thaw
}

// acquireFreeze freezes the cgroup of the workspace until done is called. frozen is
// false where the workspace has no freezer, and true where no guest runs. A nil done
// means that there is nothing to thaw.
func (h *handle) acquireFreeze(ctx context.Context) (frozen bool, done func(), err error) {
	lock, err := supervise.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		if cerr := h.dir.Current(); cerr != nil {
			return false, nil, cerr
		}
		return false, nil, fmt.Errorf("sandbox: freeze: lock the guest: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	s, err := h.acquireFreezeLocked(ctx)
	if err != nil || s.lock == nil {
		return s.frozen, nil, err
	}
	return s.frozen, func() { h.unfreeze(ctx, s) }, nil
}

// acquireFreezeLocked is acquireFreeze for a caller that has the guest lock.
func (h *handle) acquireFreezeLocked(ctx context.Context) (s freezeRef, err error) {
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return freezeRef{frozen: true}, nil
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return s, nil
	}
	if rec.Paused {
		return freezeRef{frozen: true}, nil
	}
	s = freezeRef{frozen: true, lock: h.freezeLock()}
	if _, err := s.lock.TryRLock(); err != nil {
		return freezeRef{}, fmt.Errorf("sandbox: freeze: %w: %w", fault.Of(err), err)
	}
	if err := cgroup.SetFrozen(ctx, group, true); err != nil {
		h.unfreezeLocked(ctx, s)
		// The guest has ended, or its cgroup can't be frozen: the snapshot records which.
		return freezeRef{frozen: errors.Is(err, os.ErrNotExist)}, nil
	}
	driver.Step(ctx, "frozen")
	return s, nil
}

func (h *handle) freezeLock() *flock.Flock {
	return flock.New(filepath.Join(h.att.Dir.Path, freezeName), flock.SetPermissions(0o600))
}

// unfreeze drops a reference. The last one thaws the cgroup.
func (h *handle) unfreeze(ctx context.Context, s freezeRef) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervise.EndTimeout)
	defer cancel()
	lock, err := supervise.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		s.lock.Close()                       //nolint:errcheck // the lock ends with the descriptor
		if !errors.Is(err, os.ErrNotExist) { // a workspace that was removed has no processes
			h.p.log.Warn("sandbox: a workspace stays frozen until a connected process finds the freeze", "workspace", h.id, "error", err)
		}
		return
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	h.unfreezeLocked(ctx, s)
}

func (h *handle) unfreezeLocked(ctx context.Context, s freezeRef) {
	if s.lock == nil {
		return
	}
	s.lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if _, err := h.thawUnused(ctx, supervise.ReadRecord(h.att.Dir)); err != nil {
		h.p.log.Warn("sandbox: a workspace stays frozen", "workspace", h.id, "error", err)
	}
}

// thawUnused thaws the cgroup of a guest, unless the workspace is paused or another
// process has a reference on the freeze, which inUse reports. It requires the guest lock.
func (h *handle) thawUnused(ctx context.Context, rec *supervise.Record) (inUse bool, err error) {
	if rec == nil {
		return false, nil
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return false, nil
	}
	lock := h.freezeLock()
	alone, err := lock.TryLock()
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	switch {
	case err != nil:
		return false, fmt.Errorf("sandbox: thaw the workspace: %w: %w", fault.Of(err), err)
	case !alone:
		return true, nil
	case rec.Paused:
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := cgroup.SetFrozen(ctx, group, false); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("sandbox: thaw the workspace: %w: %w", fault.Of(err), err)
	}
	return false, nil
}

// watchFreeze thaws the workspace when a process that froze it dies, until the connection
// ends.
func (h *handle) watchFreeze(g *guestConn) {
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return
	}
	w := &supervise.FreezeWatch{
		Dir: h.att.Dir, Log: h.p.log,
		Frozen: func() bool { return cgroup.IsFrozen(group) },
		Thaw:   func(ctx context.Context) error { return h.recoverFreeze(ctx, g) },
	}
	go w.Run(h.p.ctx, g) // ends with the connection
}

// recoverFreeze completes the rollback of a process that died, and only then thaws the
// cgroup: processes of the workload don't see half of a rollback. It requires the guest
// lock.
func (h *handle) recoverFreeze(ctx context.Context, g *guestConn) error {
	m := h.dir.State()
	if err := h.p.recoverRollback(ctx, &m); err != nil {
		return err
	}
	if g.root != nil {
		if err := h.completeRollback(ctx, g); err != nil {
			return err
		}
	}
	_, err := h.thawUnused(ctx, supervise.ReadRecord(h.att.Dir))
	return err
}
