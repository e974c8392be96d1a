package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/workspace/driver"
)

// Where the files of a workspace are visible only through a mount of the guest, such as an
// overlayfs, they are reached by a descriptor of that mount. The guest sends it when it
// starts, before any process of the workload. A process that adopts the guest opens the
// mount through /proc/PID/root and compares its id with the recorded one.

// mountID returns the id of the mount of a descriptor. From Linux 6.8 on the kernel never
// reuses it.
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
	id, err := mountID(int(root.Fd()))
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

// cloneTree returns a detached, recursive clone of the mount at path (open_tree), which
// can be attached in another mount namespace.
func cloneTree(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return nil, fmt.Errorf("clone the mount of %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// mapOwner makes a detached mount an idmapped mount: files of uid:gid on disk are owned by
// the workload inside, and files that the workload creates are stored as uid:gid. So
// files have the same owner on the host, whichever sandbox created them. With gvisor,
// root inside is mapped as well: gVisor creates files as root before it changes their
// owner.
func (i ids) mapOwner(tree *os.File, uid, gid int, gvisor bool) error {
	err := i.userns.withUserns(owner{uid, gid, gvisor}, i.base, func(users *os.File) error {
		return unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())})
	})
	if err != nil {
		return fmt.Errorf("map the owner of %s: %w", tree.Name(), err)
	}
	return nil
}

// An owner is a key of usernsCache: the owner of files on the host, which the user
// namespace maps to the workload.
type owner struct {
	uid, gid int
	root     bool // root inside is mapped as well: see mapOwner
}

// usernsCache keeps a user namespace for each owner that was mapped to the workload:
// creating one takes a process, and nearly all files belong to the same few owners.
type usernsCache struct {
	mu    sync.Mutex
	users map[owner]*os.File
}

// maxOwners bounds the cached descriptors.
const maxOwners = 64

// withUserns calls f with a user namespace that maps key to the workload, whose ids on the
// host begin at base.
func (o *usernsCache) withUserns(key owner, base int, f func(users *os.File) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if users := o.users[key]; users != nil {
		return f(users)
	}
	uids := []syscall.SysProcIDMap{{ContainerID: key.uid, HostID: base + workloadUID, Size: 1}}
	gids := []syscall.SysProcIDMap{{ContainerID: key.gid, HostID: base + workloadUID, Size: 1}}
	if key.root {
		root := syscall.SysProcIDMap{ContainerID: base, HostID: base, Size: 1}
		uids, gids = append(uids, root), append(gids, root)
	}
	users, err := userNamespace(uids, gids)
	if err != nil {
		return err
	}
	if len(o.users) >= maxOwners {
		o.closeAllLocked()
	}
	if o.users == nil {
		o.users = map[owner]*os.File{}
	}
	o.users[key] = users
	return f(users)
}

func (o *usernsCache) closeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closeAllLocked()
}

func (o *usernsCache) closeAllLocked() {
	for _, users := range o.users {
		users.Close()
	}
	o.users = nil
}

// userNamespace creates a user namespace with the given id maps and no process in it.
// The kernel creates namespaces only with a process, so one is started under ptrace,
// which stops it before its first instruction, and killed.
func userNamespace(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	runtime.LockOSThread() // the process ends with the thread that made it
	defer runtime.UnlockOSThread()
	proc, err := os.StartProcess("/proc/self/exe", []string{"croft-userns"}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: uids, GidMappings: gids, Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	defer func() {
		proc.Kill() //nolint:errcheck // it never ran
		proc.Wait() //nolint:errcheck // likewise
	}()
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", proc.Pid))
}
