package snapshot

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setTimeFD is futimens(3), which package unix lacks: a nil name makes utimensat(2)
// act on the descriptor.
func setTimeFD(fd int, n *Node) error {
	t, err := unix.TimeToTimespec(n.ModTime)
	if err != nil {
		return err
	}
	ts := [2]unix.Timespec{t, t}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// makeWhiteout creates an overlayfs whiteout: a character device 0:0.
func makeWhiteout(dir int, name string) error {
	return unix.Mknodat(dir, name, unix.S_IFCHR, 0)
}

// setOpaque marks a directory of an upper layer as opaque. Which attribute the
// kernel reads depends on the mount option userxattr.
func setOpaque(fd int) error {
	if os.Geteuid() == 0 {
		if err := unix.Fsetxattr(fd, "trusted.overlay.opaque", []byte("y"), 0); ignoreNoXattr(err) != nil {
			return err
		}
	}
	return ignoreNoXattr(unix.Fsetxattr(fd, "user.overlay.opaque", []byte("y"), 0))
}

// exchangeNames swaps two entries atomically.
func exchangeNames(dir int, name string, otherDir int, other string) error {
	return unix.Renameat2(dir, name, otherDir, other, unix.RENAME_EXCHANGE)
}
