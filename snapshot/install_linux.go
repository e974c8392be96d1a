package snapshot

import (
	"os"

	"golang.org/x/sys/unix"
)

// setTimeFD sets the time of an open file.
func setTimeFD(fd int, n *Node) error {
	t, err := unix.TimeToTimespec(n.ModTime)
	if err != nil {
		return err
	}
	ts := [2]unix.Timespec{t, t}
	return utimensFD(fd, &ts)
}

// makeWhiteout makes what hides a name of the layers below.
func makeWhiteout(dir int, name string) error {
	return unix.Mknodat(dir, name, unix.S_IFCHR, 0)
}

// setOpaque hides all that the layers below have in a directory. Which of the two
// attributes the kernel looks at depends on how the overlay is mounted.
func setOpaque(fd int) error {
	if os.Geteuid() == 0 {
		if err := unix.Fsetxattr(fd, "trusted.overlay.opaque", []byte("y"), 0); ignoreNoXattr(err) != nil {
			return err
		}
	}
	return ignoreNoXattr(unix.Fsetxattr(fd, "user.overlay.opaque", []byte("y"), 0))
}

// exchangeNames swaps what is at two names, at once.
func exchangeNames(dir int, name string, otherDir int, other string) error {
	return unix.Renameat2(dir, name, otherDir, other, unix.RENAME_EXCHANGE)
}
