package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/host/cgroup"
)

// Who keeps the processes of a workspace still for a moment holds a file locked,
// shared with others who do; it has a byte in it while they stand still for that.
// So the last one lets them go on, and where it died, who comes next does. Whoever
// looks at the file or changes it has the lock of the guest.
const stillName = "still"

// A still is a hold on the processes of a workspace.
type still struct {
	frozen bool     // they stand still, or there are none
	file   *os.File // nil where there is nothing to let go
	group  string
}

// hold keeps the processes of the workspace still until done is called, if that
// can be; where there are none they are.
func (h *handle) hold(ctx context.Context) (frozen bool, done func(), err error) {
	alone, err := keep.Lock(ctx, h.p.ground.Path(h.id))
	if err != nil {
		if cerr := h.plot.Current(); cerr != nil {
			return false, nil, cerr
		}
		return false, nil, fmt.Errorf("sandbox: freeze: lock the guest: %w", err)
	}
	defer alone.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	s, err := h.holdLocked(ctx)
	if err != nil || s.file == nil {
		return s.frozen, nil, err
	}
	return s.frozen, func() { h.letGo(ctx, s) }, nil
}

// holdLocked is hold while the lock of the guest is held.
func (h *handle) holdLocked(ctx context.Context) (s still, err error) {
	rec, err := keep.Read(h.p.ground.Path(h.id))
	if errors.Is(err, fs.ErrNotExist) || err == nil && rec == nil {
		return still{frozen: true}, nil
	}
	if err != nil {
		return s, fmt.Errorf("sandbox: freeze: %w: %w", fault.Of(err), err)
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return s, nil
	}
	held, err := h.p.thaw(ctx, h.id, group)
	if err != nil {
		return s, err
	}
	if !held && cgroup.Frozen(group) {
		return still{frozen: true}, nil // it is paused, and stays so
	}
	f, err := os.OpenFile(h.p.ground.Path(h.id, stillName), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), f.Truncate(1))
	}
	if err != nil {
		return s, fmt.Errorf("sandbox: freeze: %w: %w", fault.Of(err), err)
	}
	s = still{frozen: true, file: f, group: group}
	if err := cgroup.SetFrozen(ctx, group, true); err != nil {
		h.letGoLocked(ctx, s)
		// Either the guest has ended, or it is not frozen, and the snapshot says so.
		return still{frozen: errors.Is(err, os.ErrNotExist)}, nil
	}
	return s, nil
}

// letGo ends a hold; the last one lets the processes go on.
func (h *handle) letGo(ctx context.Context, s still) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	alone, err := keep.Lock(ctx, h.p.ground.Path(h.id))
	if err != nil {
		s.file.Close() // the workspace is gone, and its processes with it
		return
	}
	defer alone.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	h.letGoLocked(ctx, s)
}

func (h *handle) letGoLocked(ctx context.Context, s still) {
	if s.file == nil {
		return
	}
	s.file.Close()
	if _, err := h.p.thaw(ctx, h.id, s.group); err != nil {
		h.p.log.Warn("sandbox: a workspace stays frozen", "workspace", h.id, "error", err)
	}
}

// thaw lets the processes of a workspace go on that nobody keeps still any more,
// and reports whether somebody does. The lock of the guest is held.
func (p *Provider) thaw(ctx context.Context, id, group string) (held bool, err error) {
	f, err := os.OpenFile(p.ground.Path(id, stillName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("sandbox: let the workspace go on: %w: %w", fault.Of(err), err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return true, nil //nolint:nilerr // it is held
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := cgroup.SetFrozen(ctx, group, false); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("sandbox: let the workspace go on: %w: %w", fault.Of(err), err)
	}
	return false, f.Truncate(0)
}

// thawLeft is thaw for whatever guest the workspace has.
func (p *Provider) thawLeft(ctx context.Context, id string) (held bool, err error) {
	rec, err := keep.Read(p.ground.Path(id))
	if err != nil || rec == nil {
		return false, nil //nolint:nilerr // nothing runs
	}
	group, ok := cgroup.FreezerOf(rec.Groups)
	if !ok {
		return false, nil
	}
	return p.thaw(ctx, id, group)
}
