package guestd

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// confineThread turns the calling OS thread, and all that is started from it, into
// the workload. The thread must be locked, and is good for nothing else
// afterwards. Every step is of the thread alone: the guest's other threads keep
// what they need to hold the fence up. The order matters: what needs a right
// comes before the right is given up, and the filter, which forbids most of
// these calls, comes last.
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
		filter, err := seccompFilter(filterOptions{
			noNetwork: cfg.Confine.NoNetwork, noSetID: cfg.Confine.NoSetID, ids: []int{os.Getpid(), unix.Gettid()},
			killable: os.Getpid() != 1 || cfg.Level == driver.IsolationGVisor,
		})
		if err != nil {
			return err
		}
		if err := installSeccomp(filter); err != nil {
			return setupError("install the seccomp filter", err)
		}
	}
	return nil
}

// needsConfine reports whether confine does anything.
func needsConfine(cfg *guestproto.Config) bool {
	c := cfg.Confine
	return len(cfg.Groups) > 0 || cfg.UID >= 0 || c.NoNewPrivs || c.DropCaps || c.Seccomp || usesLandlock(c)
}

func usesLandlock(c guestproto.Confine) bool { return len(c.ReadWrite)+len(c.ReadOnly) > 0 }

// descriptorPaths replaces names of descriptors by paths that lead to what they are open on.
func descriptorPaths(cfg *guestproto.Config, paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		if name, ok := strings.CutPrefix(p, "fd:"); ok {
			p = fmt.Sprintf("/proc/self/fd/%d", cfg.Descriptors[name]) // 0, which is /dev/null, where there is none
		}
		out = append(out, p)
	}
	return out
}

// joinGroup moves the calling thread into a cgroup v1 group through the
// descriptor of its tasks file, which the host opened: the right to do so is
// the opener's.
func joinGroup(fd int) error {
	if fd <= 0 {
		return fault.InvalidArgument
	}
	_, err := unix.Write(fd, []byte("0"))
	return err
}

// capLast is beyond the last capability that any kernel has today.
const capLast = 63

func dropBoundingSet() error {
	for c := uintptr(0); c <= capLast; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // past the kernel's last one
		}
		if errors.Is(err, unix.EPERM) {
			return nil // without the right to drop there is nothing to gain: no-new-privs is set
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setThreadUser changes the ids of this thread alone, which package syscall
// would change for all of them.
func setThreadUser(uid, gid int) error {
	if uid < 0 {
		return nil
	}
	// A namespace that an ordinary user made may forbid it, and then there are
	// no further groups to lose.
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

func dropCaps() error {
	// A kernel that knows no ambient set, such as gVisor, has nothing to clear.
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&hdr, &none[0])
}

// Rights of Landlock. Files opened for reading may be executed; writable trees
// allow everything but making devices.
const (
	llRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	llWrite = llRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	llFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockRights returns what a kernel with the given ABI can restrict.
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

// applyLandlock restricts the calling thread to the given paths; those that do not
// exist are left out. It makes the three calls itself, because libraries for it
// restrict the whole process, and here the guest must stay free.
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

// makeUndumpable protects the guest from its own children: nothing can trace it or look
// into its memory, its descriptors or its root.
func makeUndumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return setupError("become undumpable", err)
	}
	return nil
}
