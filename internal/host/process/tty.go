package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// withTTYDescriptor calls f with the descriptor of a terminal.
func withTTYDescriptor(tty *os.File, f func(fd int) error) error {
	raw, err := tty.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// eofKey returns the end-of-file key (VEOF) of a terminal.
func eofKey(tty *os.File) byte {
	key := byte(4)
	withTTYDescriptor(tty, func(fd int) error { //nolint:errcheck // the default applies then
		t, err := unix.IoctlGetTermios(fd, getTermios)
		if err == nil && t.Cc[unix.VEOF] != 0 {
			key = t.Cc[unix.VEOF]
		}
		return err
	})
	return key
}

// foregroundGroup returns the foreground process group of a terminal.
func foregroundGroup(tty *os.File) (int, error) {
	var pgid int
	err := withTTYDescriptor(tty, func(fd int) (err error) {
		pgid, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return pgid, err
}
