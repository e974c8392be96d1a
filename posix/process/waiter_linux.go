package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
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

const (
	// spell is how long a loop stays in poll(2) before it moves to Go's poller.
	// Most commands end within it, and need no epoll descriptor then.
	spell = 20 * time.Millisecond

	// mostPollers bounds the threads that sit in poll(2) at a time.
	mostPollers = 4
)

// maxPollers leaves one processor of the Go runtime free: each that sits in
// poll(2) keeps its own for milliseconds, and with all taken a new command would
// wait for one of them.
var maxPollers = sync.OnceValue(func() int32 { return int32(max(1, min(mostPollers, runtime.GOMAXPROCS(0)-1))) })

var pollers atomic.Int32

// A waiter waits for output and end of one command at once, in one goroutine:
// waking one is what a short command costs most, so it must not be three.
type waiter struct {
	fds  [waits]unix.PollFd
	till time.Time // end of the spell in poll
	set  *os.File  // an epoll descriptor, itself in Go's poller
	raw  syscall.RawConn
	due  time.Time // the deadline that set has
	slow func()    // called once, when the spell in poll is over

	patient bool // nobody waits for output as it comes: the end may come first
}

// newWaiter waits for the given descriptors, of which -1 is none. It calls slow
// if that takes long.
func newWaiter(fds [waits]int, slow func()) *waiter {
	w := &waiter{till: time.Now().Add(spell), slow: slow}
	for i, fd := range fds {
		w.fds[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	return w
}

// ended is added to the bit of a descriptor that has nothing to read and never
// will have.
const ended = waits

// wait returns which descriptors can be read, as a set of bits; 0 is that the
// deadline has passed, where there is one.
func (w *waiter) wait(deadline time.Time) (ready uint, err error) {
	if w.set == nil && pollers.Add(1) <= maxPollers() {
		ready, err = w.poll(deadline)
		pollers.Add(-1)
		if ready != 0 || err != nil || passed(deadline) {
			return ready, err
		}
	} else if w.set == nil {
		pollers.Add(-1)
	}
	if w.set == nil {
		w.slow()
		if err := w.move(); err != nil {
			return 0, err
		}
	}
	return w.epoll(deadline)
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// hush is how long a command may run before its output is looked at, where nobody
// waits for that. What ends within it costs one wake-up: output ends, and so would
// wake, before the command does.
const hush = 1 // millisecond

// end waits for the end alone, for a moment.
func (w *waiter) end() {
	w.patient = false
	if w.fds[waitExit].Fd >= 0 {
		unix.Poll(w.fds[waitExit:], hush) //nolint:errcheck // poll looks again
	}
}

func (w *waiter) poll(deadline time.Time) (uint, error) {
	if w.patient {
		w.end()
	}
	till := w.till
	if !deadline.IsZero() && deadline.Before(till) {
		till = deadline
	}
	for {
		ms := int(time.Until(till).Milliseconds() + 1)
		n, err := unix.Poll(w.fds[:], max(ms, 0))
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return 0, fmt.Errorf("poll: %w", err)
		}
		if n > 0 {
			break
		}
		if !time.Now().Before(till) {
			return 0, nil
		}
	}
	var ready uint
	for i := range w.fds {
		if w.fds[i].Fd >= 0 && w.fds[i].Revents != 0 {
			ready |= 1 << i
			if w.fds[i].Revents == unix.POLLHUP {
				ready |= 1 << (i + ended)
			}
		}
	}
	return ready, nil
}

// move puts the descriptors into an epoll set, and that into Go's poller.
func (w *waiter) move() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for i := range w.fds {
		if w.fds[i].Fd < 0 {
			continue
		}
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, int(w.fds[i].Fd), &ev); err != nil {
			closeRaw(fd)
			return fmt.Errorf("epoll: %w", err)
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		closeRaw(fd)
		return fmt.Errorf("epoll: %w", err)
	}
	w.set = os.NewFile(uintptr(fd), "epoll")
	w.raw, err = w.set.SyscallConn()
	return err
}

func (w *waiter) epoll(deadline time.Time) (ready uint, err error) {
	if !deadline.Equal(w.due) {
		if err := w.set.SetReadDeadline(deadline); err != nil {
			return 0, fmt.Errorf("epoll: %w", err)
		}
		w.due = deadline
	}
	var events [waits]unix.EpollEvent
	var n int
	var waitErr error
	try := func(fd uintptr) bool {
		for {
			n, waitErr = unix.EpollWait(int(fd), events[:], 0)
			if !errors.Is(waitErr, unix.EINTR) {
				return n != 0 || waitErr != nil
			}
		}
	}
	err = w.raw.Read(try)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = w.raw.Control(func(fd uintptr) { try(fd) }) // what is ready counts, however late
	}
	if err = errors.Join(err, waitErr); err != nil {
		return 0, fmt.Errorf("epoll: %w", err)
	}
	for _, ev := range events[:max(n, 0)] {
		ready |= 1 << uint(ev.Fd)
	}
	return ready, nil
}

// drop stops waiting for one of them, before it is closed.
func (w *waiter) drop(i int) {
	if w.set != nil && w.fds[i].Fd >= 0 {
		w.raw.Control(func(fd uintptr) { //nolint:errcheck // a descriptor that is closed drops out by itself
			unix.EpollCtl(int(fd), unix.EPOLL_CTL_DEL, int(w.fds[i].Fd), nil) //nolint:errcheck // as above
		})
	}
	w.fds[i].Fd = -1
}

func (w *waiter) close() {
	if w.set != nil {
		w.set.Close()
	}
}
