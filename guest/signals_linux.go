package guest

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Signals that end or stop a Go program which does not ask for them. All others its
// runtime takes and drops.
var (
	// sent come from other processes alone.
	sent = []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	}
	// raised are those of the program's own mistakes, of which the runtime must hear.
	raised = []os.Signal{
		syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSTKFLT, syscall.SIGSYS,
	}
)

// deafen makes every signal that someone sends do nothing: where the guest is the
// same user as its children, they may send it any. The host ends it by a call, or by
// SIGKILL, which reaches the first process of a namespace from outside alone.
//
// Package signal could take them, and would hold a thread for that, and switch between
// threads for each one that it is asked for: a good part of what a guest takes to start.
// Without a handler the first process of a namespace would not get them either, but for
// those that come while its first thread blocks them and another does not.
func deafen() error {
	var a sigaction
	if err := act(syscall.SIGTERM, nil, &a); err != nil { // the runtime has a handler for it, with all that belongs to one
		return setupError("look at a signal", err)
	}
	a.handler = whereNothing()
	for _, sig := range sent {
		if err := act(sig, &a, nil); err != nil {
			return setupError("take a signal", err)
		}
	}
	signal.Ignore(raised...) // if they are sent; the runtime keeps its handlers of them
	return nil
}

// nothing is a handler of signals. It is no function of Go, which could not be called
// by the kernel.
func nothing() //nolint:unused // whereNothing uses it

// whereNothing is its address.
func whereNothing() uintptr

// A sigaction is that of the kernel, on all architectures.
type sigaction struct {
	handler               uintptr
	flags, restorer, mask uint64
}

// act sets what a signal does, and gets what it did; nil is neither.
func act(sig syscall.Signal, set, get *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)),
		unsafe.Sizeof(get.mask), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
