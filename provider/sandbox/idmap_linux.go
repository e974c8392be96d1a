package sandbox

import (
	"fmt"
	"os"
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
// files belong to the same user outside, whatever sandbox they were made in.
func mapOwner(tree *os.File, uid, gid int, ids ids) error {
	users, err := userNamespace(
		[]syscall.SysProcIDMap{{ContainerID: uid, HostID: ids.base + workloadUID, Size: 1}},
		[]syscall.SysProcIDMap{{ContainerID: gid, HostID: ids.base + workloadUID, Size: 1}})
	if err != nil {
		return err
	}
	defer users.Close()
	err = unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())})
	if err != nil {
		return fmt.Errorf("map the owner of %s: %w", tree.Name(), err)
	}
	return nil
}

// userNamespace makes a user namespace with the given maps and nobody in it.
// The kernel makes one only for a process, so there is one for a moment: it is
// stopped before its first instruction, and killed.
func userNamespace(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
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
