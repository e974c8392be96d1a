package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/guest/supervise"
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
func (g *live) reach(rec *supervise.Record, u launchSpec) error {
	pid, err := u.pid(rec)
	if err != nil {
		return err
	}
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root%s", pid, u.inside), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	if !rec.Alive() {
		return fmt.Errorf("the guest has ended: %w", fault.Evicted)
	}
	id, err := mountID(int(root.Fd()))
	if err != nil {
		return err
	}
	if id != rec.Mount || rec.Mount == 0 {
		return fmt.Errorf("the mount is another one: %w", fault.Failed)
	}
	return g.use(root, rec, u)
}

// pid is the process of the guest itself: where bubblewrap started it, its child.
func (u launchSpec) pid(rec *supervise.Record) (int, error) {
	if u.level.name != driver.IsolationBubblewrap {
		return rec.PID, nil
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", rec.PID, rec.PID))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(data)))
}

// use makes the files below root, of which it takes a copy, those of the guest. Where
// mounts in a directory in place keep files read-only, those come apart with the
// namespace that they are in; so that is kept open, too.
func (g *live) use(root *os.File, rec *supervise.Record, u launchSpec) error {
	if u.inPlace {
		pid, err := u.pid(rec)
		if err != nil {
			return err
		}
		if g.world, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err != nil {
			return err
		}
		if !rec.Alive() {
			return fmt.Errorf("the guest has ended: %w", fault.Evicted)
		}
	}
	fd, err := unix.FcntlInt(root.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	gate := u.gate
	if g.owner != 0 {
		gate = files.GuardAsProcess(gate)
	}
	r, err := files.FromFD(fd, &files.Options{ReadOnly: u.policy.ReadOnly, Sync: u.policy.Durable, KeepMounts: u.inPlace, Commit: gate})
	if err != nil {
		return err
	}
	g.root, g.files = r, g.as(r.Module())
	return nil
}

// as returns a module whose changes are made by the user that the workload is.
func (g *live) as(module *driver.FS) *driver.FS {
	if g.owner == 0 {
		return module
	}
	return files.AsUser(module, g.owner)
}
