package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// control calls f with the descriptor of a terminal.
func control(tty *os.File, f func(fd int) error) error {
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

// veof is the key that means end-of-file on a terminal.
func veof(tty *os.File) byte {
	key := byte(4)
	control(tty, func(fd int) error { //nolint:errcheck // the default will do
		t, err := unix.IoctlGetTermios(fd, getTermios)
		if err == nil && t.Cc[unix.VEOF] != 0 {
			key = t.Cc[unix.VEOF]
		}
		return err
	})
	return key
}

// foreground is the process group that the terminal's keys reach.
func foreground(tty *os.File) (int, error) {
	var pgid int
	err := control(tty, func(fd int) (err error) {
		pgid, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return pgid, err
}
