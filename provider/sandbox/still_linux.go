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
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/guest/supervise"
)

// A process that keeps the processes of a workspace frozen for a moment holds a
// shared flock meanwhile. The last one thaws them. Where it died, the next process
// that meets the guest finds a frozen group without a lock, which is not paused, and
// thaws it. The lock of the guest is held by whoever takes the flock or looks at it.
const stillName = "still"

// A still is a hold on the processes of a workspace.
type still struct {
	frozen bool         // they are frozen, or there are none
	lock   *flock.Flock // nil where there is nothing to thaw
}

// hold keeps the processes of the workspace frozen until done is called, if that
// can be; where there are none they are.
func (h *handle) hold(ctx context.Context) (frozen bool, done func(), err error) {
	lock, err := supervise.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		if cerr := h.plot.Current(); cerr != nil {
			return false, nil, cerr
		}
		return false, nil, fmt.Errorf("sandbox: freeze: lock the guest: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	s, err := h.holdLocked(ctx)
	if err != nil || s.lock == nil {
		return s.frozen, nil, err
	}
	return s.frozen, func() { h.letGo(ctx, s) }, nil
}

// holdLocked is hold while the lock of the guest is held.
func (h *handle) holdLocked(ctx context.Context) (s still, err error) {
	rec := supervise.ReadRecord(h.att.Dir)
	if rec == nil {
		return still{frozen: true}, nil
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return s, nil
	}
	if _, err := h.thaw(ctx, rec); err != nil {
		return s, err
	}
	if rec.Paused {
		return still{frozen: true}, nil
	}
	s = still{frozen: true, lock: h.stillLock()}
	if _, err := s.lock.TryRLock(); err != nil {
		return still{}, fmt.Errorf("sandbox: freeze: %w: %w", fault.Of(err), err)
	}
	if err := cgroup.SetFrozen(ctx, group, true); err != nil {
		h.letGoLocked(ctx, s)
		// Either the guest has ended, or it is not frozen, and the snapshot says so.
		return still{frozen: errors.Is(err, os.ErrNotExist)}, nil
	}
	return s, nil
}

func (h *handle) stillLock() *flock.Flock {
	return flock.New(filepath.Join(h.att.Dir.Path, stillName), flock.SetPermissions(0o600))
}

// letGo ends a hold; the last one thaws.
func (h *handle) letGo(ctx context.Context, s still) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervise.EndTimeout)
	defer cancel()
	lock, err := supervise.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		s.lock.Close() //nolint:errcheck // the workspace is gone, and its processes with it
		return
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	h.letGoLocked(ctx, s)
}

func (h *handle) letGoLocked(ctx context.Context, s still) {
	if s.lock == nil {
		return
	}
	s.lock.Close() //nolint:errcheck // the lock ends with the descriptor
	if _, err := h.thaw(ctx, supervise.ReadRecord(h.att.Dir)); err != nil {
		h.p.log.Warn("sandbox: a workspace stays frozen", "workspace", h.id, "error", err)
	}
}

// thaw thaws the processes of a guest that are not paused and that no process keeps
// frozen, and reports whether one does. The lock of the guest is held.
func (h *handle) thaw(ctx context.Context, rec *supervise.Record) (held bool, err error) {
	if rec == nil {
		return false, nil
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return false, nil
	}
	lock := h.stillLock()
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
