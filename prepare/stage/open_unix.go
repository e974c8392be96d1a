//go:build unix

package stage

import "syscall"

// nonBlocking prevents open from blocking on a FIFO.
const nonBlocking = syscall.O_NONBLOCK
