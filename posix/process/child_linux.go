package process

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// pidfds reports whether the kernel has descriptors of processes. Package os would
// start a child to find out.
var pidfds = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	closeRaw(fd)
	return true
})

// prepare finds out what forkExec uses, which a thread that is confined may not be
// allowed to.
func prepare() { pidfds() }

// forkExec starts spec from the calling thread.
func forkExec(spec *Spec) (Child, error) {
	if !pidfds() {
		return forkWith(spec, nil)
	}
	pidfd := -1
	child, err := forkWith(spec, &pidfd)
	if errors.Is(err, syscall.EINVAL) { // as a kernel says that makes such descriptors in other ways alone
		return forkWith(spec, nil)
	}
	return child, err
}

// forkWith starts spec, and puts a descriptor of the process into pidfd; nil is no wish
// for one.
func forkWith(spec *Spec, pidfd *int) (Child, error) {
	sys := *spec.Sys
	sys.PidFD = pidfd
	pid, err := syscall.ForkExec(spec.Path, spec.Argv, &syscall.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: spec.Files, Sys: &sys,
	})
	if err != nil {
		return Child{}, err
	}
	child := Child{PID: pid, PIDFD: -1}
	if pidfd != nil {
		child.PIDFD = *pidfd
	}
	return child, nil
}

// firstThread reports whether the calling thread is the one that its process
// began with.
func firstThread() bool { return unix.Gettid() == os.Getpid() }

// exited reports whether the child has ended, and leaves it to be reaped, so
// that its number stays its own.
func (c Child) exited() bool { return c.peek(unix.WNOHANG) }

func (c Child) peek(flags int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, c.PID, &info, unix.WEXITED|unix.WNOWAIT|flags, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err != nil || info.Signo != 0
	}
}

// exitFD returns a descriptor that can be read once the child has ended.
func (c Child) exitFD() (fd int, release func(), err error) {
	if c.PIDFD >= 0 {
		return c.PIDFD, func() { closeRaw(c.PIDFD) }, nil
	}
	return pipeAtEnd(func() { c.peek(0) })
}

// reap takes the status of a child that has ended.
func (c Child) reap() (syscall.WaitStatus, syscall.Rusage, error) { return wait4(c.PID) }

func maxRSS(ru syscall.Rusage) int64 { return ru.Maxrss * 1024 }

func cloexecPipe(p *[2]int) error { return unix.Pipe2(p[:], unix.O_CLOEXEC) }
