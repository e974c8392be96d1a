package guestd

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreSignals makes every signal to the guest have no effect: the workload may have the
// user of the guest, and could send any. The host ends a guest by a call, or by SIGKILL,
// which PID 1 of a namespace can receive only from outside.
//
// Nothing reads the channel, so signals are dropped. signal.Ignore would not do: children
// inherit ignored signals. A signal of the list that the guest raises by a fault of its own
// still ends it; Go's runtime drops signals that are not listed. SIGPIPE is listed because
// the runtime otherwise raises it when a write to standard error fails: the guest logs there,
// and outlives a host that was killed.
func ignoreSignals() {
	signal.Notify(make(chan os.Signal, 1),
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE,
		syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSTKFLT, syscall.SIGSYS)
}
