//go:build unix

package workspace

import "syscall"

const nonBlocking = syscall.O_NONBLOCK
