package snapshot

import (
	"os"

	"golang.org/x/sys/unix"
)

func setTimeFD(fd int, n *Node) error {
	t, err := unix.TimeToTimespec(n.ModTime)
	if err != nil {
		return err
	}
	ts := [2]unix.Timespec{t, t}
	return utimensFD(fd, &ts)
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
