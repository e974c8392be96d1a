package guestproto

import "golang.org/x/sys/unix"

// LandlockABI returns the ABI version of Landlock in the running kernel.
func LandlockABI() (int, error) {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}
