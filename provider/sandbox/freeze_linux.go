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
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/host/cgroup"
)

// A process that keeps the processes of a workspace frozen for a moment holds a
// shared flock meanwhile. The last one thaws them. Where it died, the next process
// that meets the guest finds a frozen group without a lock, which is not paused, and
// thaws it. The lock of the guest is held by whoever takes the flock or looks at it.
const freezeName = "still"

// A freezeRef is a hold on the processes of a workspace.
type freezeRef struct {
	frozen bool         // they are frozen, or there are none
	lock   *flock.Flock // nil where there is nothing to thaw
}

// acquireFreeze keeps the processes of the workspace frozen until done is called, if that
// can be; where there are none they are.
func (h *handle) acquireFreeze(ctx context.Context) (frozen bool, done func(), err error) {
	lock, err := keep.Lock(ctx, h.att.Dir.Path)
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

// acquireFreezeLocked is hold while the lock of the guest is held.
func (h *handle) acquireFreezeLocked(ctx context.Context) (s freezeRef, err error) {
	rec := keep.Read(h.att.Dir)
	if rec == nil {
		return freezeRef{frozen: true}, nil
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return s, nil
	}
	if _, err := h.thawUnused(ctx, rec); err != nil {
		return s, err
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
		// Either the guest has ended, or it is not frozen, and the snapshot says so.
		return freezeRef{frozen: errors.Is(err, os.ErrNotExist)}, nil
	}
	return s, nil
}

func (h *handle) freezeLock() *flock.Flock {
	return flock.New(filepath.Join(h.att.Dir.Path, freezeName), flock.SetPermissions(0o600))
}

// unfreeze ends a hold; the last one thaws.
func (h *handle) unfreeze(ctx context.Context, s freezeRef) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keep.EndTimeout)
	defer cancel()
	lock, err := keep.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		s.lock.Close() //nolint:errcheck // the workspace is gone, and its processes with it
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
	if _, err := h.thawUnused(ctx, keep.Read(h.att.Dir)); err != nil {
		h.p.log.Warn("sandbox: a workspace stays frozen", "workspace", h.id, "error", err)
	}
}

// thawUnused thaws the processes of a guest that are not paused and that no process keeps
// frozen, and reports whether one does. The lock of the guest is held.
func (h *handle) thawUnused(ctx context.Context, rec *keep.Record) (held bool, err error) {
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
