//go:build !linux

package process

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// What a waiter waits for.
const (
	waitStdout = iota
	waitStderr
	waitExit
	waits
)

// A waiter waits for output and end of one command at once, in poll(2).
type waiter struct {
	fds     [waits]unix.PollFd
	patient bool // which saves nothing here
}

func newWaiter(fds [waits]int, slow func()) *waiter {
	slow() // nobody can tell
	w := &waiter{}
	for i, fd := range fds {
		w.fds[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	return w
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// ended is added to the bit of a descriptor that has nothing to read and never
// will have; here, reading tells.
const ended = waits

// wait returns which descriptors can be read, as a set of bits; 0 is that the
// deadline has passed, where there is one.
func (w *waiter) wait(deadline time.Time) (ready uint, err error) {
	for ready == 0 {
		ms := -1
		if !deadline.IsZero() {
			ms = max(int(time.Until(deadline).Milliseconds()+1), 0)
		}
		_, err := unix.Poll(w.fds[:], ms)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, fmt.Errorf("poll: %w", err)
		}
		for i := range w.fds {
			if w.fds[i].Fd >= 0 && w.fds[i].Revents != 0 {
				ready |= 1 << i
			}
		}
		if passed(deadline) {
			break
		}
	}
	return ready, nil
}

func (w *waiter) drop(i int) { w.fds[i].Fd = -1 }

func (w *waiter) close() {}
