package guestd

import (
	"syscall"
	"time"

	"github.com/croft-run/croft/internal/host/guestproto"
	"golang.org/x/sys/unix"
)

// exhaustLimit makes croft-guest exceed a limit, for a host that probes whether the limit
// is enforced: it joins the cgroup whose cgroup.procs is descriptor 3, and allocates, forks
// or computes. It returns the exit status: 0 if nothing stopped it.
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
		syscall.Wait4(pid, nil, 0, nil) //nolint:errcheck // without a configuration it exits at once
	case guestproto.ExhaustCPU:
		for till := cpuTime() + 50*time.Millisecond; cpuTime() < till; { // CPU time, since wall time passes without CPU on a loaded machine
		}
	}
	return 0, true
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) //nolint:errcheck // every Linux has this clock
	return time.Duration(t.Nano())
}
