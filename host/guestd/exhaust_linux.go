package guestd

import (
	"syscall"
	"time"

	"github.com/croft-run/croft/host/guestproto"
	"golang.org/x/sys/unix"
)

// exhaustLimit is what croft-guest does where a host wants to know whether a limit
// holds: it joins the group whose cgroup.procs is its first descriptor beyond
// standard error, and goes to the limit. It returns its exit status, which is 0
// where nothing stopped it.
func exhaustLimit(what string) (status int, ok bool) {
	switch what {
	case guestproto.ExhaustMemory, guestproto.ExhaustPIDs, guestproto.ExhaustCPU:
	default:
		return 0, false
	}
	if _, err := unix.Write(fdConfig, []byte("0")); err != nil {
		return 1, true
	}
	switch what {
	case guestproto.ExhaustMemory:
		const most, page = 64 << 20, 4 << 10
		data := make([]byte, most)
		for i := 0; i < most; i += page {
			data[i] = 1
		}
	case guestproto.ExhaustPIDs:
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"croft-guest"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		if err != nil {
			return guestproto.Refused, true
		}
		syscall.Wait4(pid, nil, 0, nil) //nolint:errcheck // it ends by itself: it was given nothing to do
	case guestproto.ExhaustCPU:
		for till := cpuTime() + 50*time.Millisecond; cpuTime() < till; { // not by the clock: on a machine under load that goes on without it
		}
	}
	return 0, true
}

// cpuTime is how much time this process has had of a processor.
func cpuTime() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) //nolint:errcheck // there is that clock
	return time.Duration(t.Nano())
}
