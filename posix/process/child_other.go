//go:build !linux

package process

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// statuses holds what wait4 said, for those who ask later.
var statuses sync.Map // pid -> waited

type waited struct {
	ws  syscall.WaitStatus
	ru  syscall.Rusage
	err error
}

func firstThread() bool { return false }

func prepare() {}

func forkExec(spec *Spec) (Child, error) {
	pid, err := syscall.ForkExec(spec.Path, spec.Argv, &syscall.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: spec.Files, Sys: spec.Sys,
	})
	return Child{PID: pid, PIDFD: -1}, err
}

func (c Child) exited() bool {
	_, ok := statuses.Load(c.PID)
	return ok
}

// exitFD waits by reaping: this system has no wait that leaves the status. A
// group outlives its leader as long as it has a member, so what is sent to it
// afterwards still finds the right one, or nobody.
func (c Child) exitFD() (int, func(), error) {
	return pipeAtEnd(func() {
		ws, ru, err := wait4(c.PID)
		statuses.Store(c.PID, waited{ws, ru, err})
	})
}

func (c Child) reap() (syscall.WaitStatus, syscall.Rusage, error) {
	v, _ := statuses.LoadAndDelete(c.PID)
	w, _ := v.(waited)
	return w.ws, w.ru, w.err
}

func maxRSS(ru syscall.Rusage) int64 { return ru.Maxrss }

func cloexecPipe(p *[2]int) error {
	syscall.ForkLock.RLock() // or a child inherits it by accident
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(p[:]); err != nil {
		return err
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	return nil
}
