package process

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstThread reports whether the calling thread is the main thread of the process.
func firstThread() bool { return unix.Gettid() == os.Getpid() }

func (c Child) hasExited() bool { return c.waitid(unix.WNOHANG) }

// waitExit blocks until the child has exited.
func (c Child) waitExit() { c.waitid(0) }

// waitid waits with WNOWAIT, which does not reap the child: its pid is not reused until the
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

// reap collects the exit status of a child that has exited.
func (c Child) reap() (syscall.WaitStatus, syscall.Rusage, error) { return wait4(c.PID) }

func maxRSS(ru syscall.Rusage) int64 { return ru.Maxrss * 1024 }
