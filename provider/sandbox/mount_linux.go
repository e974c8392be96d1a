package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/workspace/driver"
)

// Where the files of a workspace are what a mount of the guest shows, such as an
// overlay, they are reached through a descriptor of that mount. It is handed out
// when the guest starts, before any process of the workload; who adopts the guest
// later gets it from the kernel, and holds it against the id that was noted.

// mountID is the id of the mount that a descriptor is on; the kernel never gives
// it to another.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	const unique = 0x4000 // STATX_MNT_ID_UNIQUE
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unique, &st); err != nil {
		return 0, err
	}
	if st.Mask&unique == 0 {
		// A kernel before 6.8: the id may be used again, after the mount's end.
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
			return 0, err
		}
	}
	return st.Mnt_id, nil
}

// reach opens the files of a workspace whose guest another process started.
func (p *Provider) reach(g *live, rec *keep.Record, u unit) error {
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root%s", rec.PID, u.inside), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	if start, err := keep.StartTime(rec.PID); err != nil || start != rec.Start {
		return fmt.Errorf("the guest has ended: %w", fault.Evicted)
	}
	id, err := mountID(int(root.Fd()))
	if err != nil {
		return err
	}
	if id != rec.Mount || rec.Mount == 0 {
		return fmt.Errorf("the mount is another one: %w", fault.Failed)
	}
	if !u.mounted() {
		return g.hold(root, rec, p.ids, u)
	}
	return g.use(root, p.ids, u)
}

// use makes the files below root, of which it takes a copy, those of the guest.
func (g *live) use(root *os.File, i ids, u unit) (err error) {
	g.root, g.files, err = view(root, i, u, false)
	return err
}

// view returns the files below root, of which it takes a copy, as the workload has
// them.
func view(root *os.File, i ids, u unit, keepMounts bool) (*boundary.Root, *driver.FS, error) {
	fd, err := unix.FcntlInt(root.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	opts := &boundary.Options{ReadOnly: u.policy.ReadOnly, Sync: u.policy.Durable, KeepMounts: keepMounts, Commit: guest.Elsewhere(u.gate)}
	r, err := boundary.FromFD(fd, opts)
	if err != nil {
		return nil, nil, err
	}
	if i.root {
		return r, guest.AsUser(r.Module(), i.base+workloadUID), nil
	}
	return r, r.Module(), nil
}

// A holding is the files of a directory in place, as the mounts of its guest show
// them. What of them must not be changed is held by mounts, which come apart with
// the namespace that they are in; so that is held, too.
type holding struct {
	root  *boundary.Root
	world *os.File // the namespace of the mounts
	files *driver.FS
}

// hold lets files be written through the guest's mounts by this process, which
// saves two exchanges with the guest.
func (g *live) hold(root *os.File, rec *keep.Record, i ids, u unit) error {
	world, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", rec.PID))
	if err != nil {
		return err
	}
	if start, err := keep.StartTime(rec.PID); err != nil || start != rec.Start {
		return errors.Join(fmt.Errorf("the guest has ended: %w", fault.Evicted), world.Close())
	}
	r, files, err := view(root, i, u, true)
	if err != nil {
		return errors.Join(err, world.Close())
	}
	g.held = &holding{r, world, files}
	return nil
}

func (h *holding) close() {
	if h != nil {
		h.root.Close() //nolint:errcheck // nothing was written through the descriptor
		h.world.Close()
	}
}

// inPlace is the module for a directory in place: what is read is read directly,
// files are written through the mounts of the guest, by this process where it
// reaches them, and any other change is made by the guest.
func (g *live) inPlace(direct *driver.FS) *driver.FS {
	if last := g.module.Load(); last != nil && last.direct == direct {
		return last.own
	}
	own := g.Changes(direct)
	if g.held != nil {
		own.Files = heldFiles{own.Files, g.held.files}
	}
	g.module.Store(&placed{direct, own})
	return own
}

// placed is what inPlace made of a module.
type placed struct{ direct, own *driver.FS }

// heldFiles writes through what is held.
type heldFiles struct {
	driver.Files
	held *driver.FS
}

func (f heldFiles) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	return f.held.Write(ctx, name, body, opts)
}
