package guestd

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
)

// confineThread confines the calling OS thread, and every process that it starts, as the
// workload: cgroup, no_new_privs, capabilities, user, Landlock, seccomp. The thread must
// be locked and serves for nothing else afterwards. Other threads of the guest keep their
// rights. The order matters: a step that needs a right comes before that right is
// dropped, and seccomp, which forbids most of these system calls, comes last.
//
// Not confined by it: CPU, memory and processes, which only cgroups limit, and what the
// user may read in the rootfs, where no Landlock paths are given.
func confineThread(cfg *guestproto.Config) error {
	for _, name := range cfg.Groups {
		if err := joinGroup(cfg.Descriptors[name]); err != nil {
			return setupError("join the limit group "+name, err)
		}
	}
	if cfg.Confine.NoNewPrivs || cfg.Confine.Seccomp || usesLandlock(cfg.Confine) {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return setupError("give up new privileges", err)
		}
	}
	if cfg.Confine.DropCaps {
		if err := dropBoundingSet(); err != nil {
			return setupError("empty the bounding set", err)
		}
	}
	if err := setThreadUser(cfg.UID, cfg.GID); err != nil {
		return setupError(fmt.Sprintf("become user %d", cfg.UID), err)
	}
	if cfg.Confine.DropCaps {
		if err := dropCaps(); err != nil {
			return setupError("give up capabilities", err)
		}
	}
	if usesLandlock(cfg.Confine) {
		if err := applyLandlock(descriptorPaths(cfg, cfg.Confine.ReadWrite), descriptorPaths(cfg, cfg.Confine.ReadOnly)); err != nil {
			return setupError("restrict paths with Landlock", err)
		}
	}
	if cfg.Confine.Seccomp {
		return startSeccomp(cfg)
	}
	return nil
}

// needsConfine reports whether confineThread does anything.
func needsConfine(cfg *guestproto.Config) bool {
	c := cfg.Confine
	return len(cfg.Groups) > 0 || cfg.UID >= 0 || c.NoNewPrivs || c.DropCaps || c.Seccomp || usesLandlock(c)
}

func usesLandlock(c guestproto.Confine) bool { return len(c.ReadWrite)+len(c.ReadOnly) > 0 }

// descriptorPaths replaces names with the prefix "fd:" by /proc paths of the descriptors.
func descriptorPaths(cfg *guestproto.Config, paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		if name, ok := strings.CutPrefix(p, "fd:"); ok {
			p = fmt.Sprintf("/proc/self/fd/%d", cfg.Descriptors[name]) // an unknown name is descriptor 0, which is /dev/null
		}
		out = append(out, p)
	}
	return out
}

// joinGroup moves the calling thread into a cgroup v1 group through a descriptor of its
// tasks file. The kernel checks the rights of the host, which opened the file.
func joinGroup(fd int) error {
	if fd <= 0 {
		return fault.InvalidArgument
	}
	_, err := unix.Write(fd, []byte("0"))
	return err
}

// capLast is above the last capability of any kernel today.
const capLast = 63

// dropBoundingSet empties the capability bounding set of the thread.
func dropBoundingSet() error {
	for c := uintptr(0); c <= capLast; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // above the last capability of this kernel
		}
		if errors.Is(err, unix.EPERM) {
			return nil // not permitted, and not needed: no_new_privs is set
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setThreadUser sets the ids of the calling thread alone; package syscall would set them
// for all threads.
func setThreadUser(uid, gid int) error {
	if uid < 0 {
		return nil
	}
	// A user namespace that an unprivileged user created may forbid setgroups(2); the
	// process has no supplementary groups then.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 && errno != unix.EPERM {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		return errno
	}
	return nil
}

// dropCaps drops all capabilities of the thread.
func dropCaps() error {
	// gVisor has no ambient set and answers EINVAL.
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&hdr, &none[0])
}

// Access rights of Landlock. A readable path may be executed, too; a writable tree allows
// everything but device nodes.
const (
	llRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	llWrite = llRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	llFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockRights returns the rights that a kernel with the given ABI can restrict.
func landlockRights(abi int) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: 1<<13 - 1} // ABI 1
	if abi >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}

// applyLandlock restricts the calling thread to the given paths; paths that do not exist
// are skipped. Landlock then denies opening, creating, renaming and removing files
// elsewhere. It does not deny stat(2), chmod(2) and the use of descriptors that are open
// already. The three system calls are made here because libraries restrict the whole
// process, and the guest must not be.
func applyLandlock(readWrite, readOnly []string) error {
	abi, err := guestproto.LandlockABI()
	if err != nil {
		return err
	}
	attr := landlockRights(abi)
	set, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(set)) //nolint:errcheck // nothing is lost with it
	for access, paths := range map[uint64][]string{llWrite: readWrite, llRead: readOnly} {
		for _, p := range paths {
			if err := allowPath(int(set), p, access&attr.Handled_access_fs); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func allowPath(set int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= llFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// makeUndumpable sets PR_SET_DUMPABLE to 0, so that processes of the same user, such as
// the workload, can't ptrace the guest or read its memory and descriptors in /proc. It also
// sets the limit of core files to 0, for the guest and the workload: the host's
// core_pattern may name a directory of the host.
func makeUndumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return setupError("become undumpable", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return setupError("limit core files", err)
	}
	return nil
}
