package guestd

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreSignals makes every signal that is sent to the guest do nothing: where it
// has the same user as its children, they may send it any. The host ends it by a
// call, or by SIGKILL, which reaches the first process of a namespace from outside
// alone.
//
// Nothing reads the channel, so signals are dropped. signal.Ignore would not do:
// children inherit what is ignored. Signals of the list that the guest raises itself,
// by a fault, still end it, and the runtime of Go drops those that are not listed.
func ignoreSignals() {
	signal.Notify(make(chan os.Signal, 1),
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
		syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSTKFLT, syscall.SIGSYS)
}
