package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// cloneTree returns a detached copy of the mounts at and below path, which can
// be put in place in another mount namespace.
func cloneTree(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return nil, fmt.Errorf("clone the mount of %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// mapOwner makes a detached mount show what is owned by uid:gid on disk as owned
// by the workload, and store what the workload makes as owned by uid:gid. So
// files belong to the same user outside, whatever sandbox they were made in. With
// kernel, root inside may own files, too, as it does for the moment in which
// gVisor makes them.
func (p *Provider) mapOwner(tree *os.File, uid, gid int, kernel bool) error {
	err := p.userns.withUserns(owner{uid, gid, kernel}, p.ids.base, func(users *os.File) error {
		return unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())})
	})
	if err != nil {
		return fmt.Errorf("map the owner of %s: %w", tree.Name(), err)
	}
	return nil
}

// owner is who files belong to outside, and whether root inside may own some.
type owner struct {
	uid, gid int
	root     bool
}

// usernsCache keeps a user namespace for each owner that was mapped to the workload:
// to make one takes a process, and nearly all files belong to the same few.
type usernsCache struct {
	mu    sync.Mutex
	users map[owner]*os.File
}

// maxOwners bounds the descriptors that are kept.
const maxOwners = 64

// withUserns calls f with a namespace in which an owner is the workload, whose ids begin
// at base outside.
func (o *usernsCache) withUserns(who owner, base int, f func(users *os.File) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if users := o.users[who]; users != nil {
		return f(users)
	}
	uids := []syscall.SysProcIDMap{{ContainerID: who.uid, HostID: base + workloadUID, Size: 1}}
	gids := []syscall.SysProcIDMap{{ContainerID: who.gid, HostID: base + workloadUID, Size: 1}}
	if who.root {
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
	o.users[who] = users
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

// userNamespace makes a user namespace with the given maps and nobody in it.
// The kernel makes one only for a process, so there is one for a moment: it is
// stopped before its first instruction, and killed.
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
