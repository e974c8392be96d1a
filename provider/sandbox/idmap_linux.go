package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

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
