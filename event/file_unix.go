//go:build linux || darwin || freebsd || netbsd || openbsd

package event

import "syscall"

// openFlags refuse a symlink, and do not block on a FIFO.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
