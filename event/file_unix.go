//go:build linux || darwin || freebsd || netbsd || openbsd

package event

import "syscall"

// openFlags keep a link or a pipe from being taken for the file.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
