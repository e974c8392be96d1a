package snapshot

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// utimensFD is futimens(3), which package unix lacks: a nil name makes utimensat(2)
// act on the descriptor.
func utimensFD(fd int, ts *[2]unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
