package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/workspace/driver"
)

// Where the files of a workspace are visible only through a mount of the guest, such as an
// overlayfs, they are reached by a descriptor of that mount. The guest sends it when it
// starts, before any process of the workload. A process that adopts the guest opens the
// mount through /proc/PID/root and compares its id with the recorded one.

// openFiles opens the files through the mount of a guest that another process started.
func (g *guestConn) openFiles(rec *supervise.Record, u launchSpec) error {
	pid, err := u.guestPID(rec)
	if err != nil {
		return err
	}
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root%s", pid, u.guestDir), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	if !rec.Alive() {
		return fmt.Errorf("the guest has ended: %w", fault.Evicted)
	}
	id, err := mount.ID(int(root.Fd()))
	if err != nil {
		return err
	}
	if id != rec.Mount || rec.Mount == 0 {
		return fmt.Errorf("the mount id is %d, the recorded one is %d: %w", id, rec.Mount, fault.Failed)
	}
	return g.setRoot(root, rec, u)
}

// guestPID returns the process id of the guest itself: with bubblewrap, of the child of
// the recorded process.
func (u launchSpec) guestPID(rec *supervise.Record) (int, error) {
	if u.level.name != driver.IsolationBubblewrap {
		return rec.PID, nil
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", rec.PID, rec.PID))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(data)))
}

// setRoot makes a duplicate of root the root of the files. For a directory in place it
// also keeps the guest's mount namespace open: the kernel removes the mounts that protect
// autorun files when the last reference to their namespace goes.
func (g *guestConn) setRoot(root *os.File, rec *supervise.Record, u launchSpec) error {
	if u.hostDir {
		pid, err := u.guestPID(rec)
		if err != nil {
			return err
		}
		if g.pinnedNS, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err != nil {
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
	guard := u.commitGuard
	if g.owner != 0 {
		guard = files.GuardAsProcess(guard)
	}
	r, err := files.FromFD(fd, &files.Options{ReadOnly: u.policy.ReadOnly, Sync: u.policy.Durable, KeepMounts: u.hostDir, Commit: guard})
	if err != nil {
		return err
	}
	g.root, g.files = r, g.asOwner(r.Module())
	return nil
}

// asOwner returns a module that makes changes as the user of the workload.
func (g *guestConn) asOwner(module *driver.FS) *driver.FS {
	if g.owner == 0 {
		return module
	}
	return files.AsUser(module, g.owner)
}
