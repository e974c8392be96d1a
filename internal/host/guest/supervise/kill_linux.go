package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// Alive reports whether the guest's process runs; another process with its id does not count.
func (r *Record) Alive() bool {
	start, err := StartTime(r.PID)
	return err == nil && start == r.Start
}

// Kill waits for the end of the guest's process, and kills it by its pidfd when wait is over.
// The kernel then kills all processes of its PID namespace; without such a namespace they
// are not killed.
func (r *Record) Kill(ctx context.Context, wait time.Duration) error {
	if r.PID <= 0 {
		return nil // it never started
	}
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil // it has ended; with the last two, the id is now that of a thread
	}
	if err != nil {
		return fmt.Errorf("find the guest: %w: %w", fault.Of(err), err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	if !r.Alive() {
		return nil
	}
	if wait > 0 && waitForExit(ctx, fd, wait) {
		return nil
	}
	// The process is bubblewrap or the guest; the guest is a child of bubblewrap.
	for _, one := range append(childPidfds(r.PID), fd) {
		if err := unix.PidfdSendSignal(one, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill the guest: %w: %w", fault.Of(err), err)
		}
		gone := waitForExit(ctx, one, EndTimeout)
		if one != fd {
			unix.Close(one) //nolint:errcheck // nothing is lost with it
		}
		if !gone {
			return fmt.Errorf("the guest was killed and does not end: %w", fault.Unavailable)
		}
	}
	return nil
}

// childPidfds returns pidfds of the children of a process.
func childPidfds(pid int) []int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var fds []int
	for _, field := range strings.Fields(string(data)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			continue
		}
		if fd, err := unix.PidfdOpen(child, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

// waitForExit waits for the end of a process, and reports whether it has ended.
func waitForExit(ctx context.Context, pidfd int, wait time.Duration) bool {
	till := time.Now().Add(wait)
	for ctx.Err() == nil && time.Now().Before(till) {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		const look = 100 // milliseconds between checks of the context
		n, err := unix.Poll(fds, look)
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
	return false
}
