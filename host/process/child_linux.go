package process

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstThread reports whether the calling thread is the one that its process
// began with.
func firstThread() bool { return unix.Gettid() == os.Getpid() }

// hasExited reports whether the child has ended.
func (c Child) hasExited() bool { return c.waitid(unix.WNOHANG) }

// waitExit returns when the child has ended.
func (c Child) waitExit() { c.waitid(0) }

// waitid leaves the child to be reaped, so that its number stays its own until the
// rest of its tree is killed. os.Process.Wait would reap it.
func (c Child) waitid(flags int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, c.PID, &info, unix.WEXITED|unix.WNOWAIT|flags, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0
		}
	}
}

// reap takes the status of a child that has ended.
func (c Child) reap() (syscall.WaitStatus, syscall.Rusage, error) { return wait4(c.PID) }

func maxRSS(ru syscall.Rusage) int64 { return ru.Maxrss * 1024 }
