//go:build unix

package stage

import "syscall"

// nonBlocking keeps an open from waiting where a file has become a FIFO.
const nonBlocking = syscall.O_NONBLOCK
