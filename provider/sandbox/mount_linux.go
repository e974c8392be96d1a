package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/posix/boundary"
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
	return g.use(root, p.ids, u)
}

// use makes the files below root, of which it takes a copy, those of the guest.
func (g *live) use(root *os.File, i ids, u unit) error {
	fd, err := unix.FcntlInt(root.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if g.root, err = boundary.FromFD(fd, &boundary.Options{ReadOnly: u.policy.ReadOnly, Sync: u.policy.Durable, Commit: guest.Elsewhere(u.gate)}); err != nil {
		return err
	}
	g.files = g.root.Module()
	if i.root {
		g.files = guest.AsUser(g.files, i.base+workloadUID)
	}
	return nil
}
