//go:build !linux

package process

import (
	"sync"
	"syscall"
)

// waitStatuses holds the results of wait4 for hasExited and reap.
var waitStatuses sync.Map // pid -> waited

type waited struct {
	ws  syscall.WaitStatus
	ru  syscall.Rusage
	err error
}

func firstThread() bool { return false }

func (c Child) hasExited() bool {
	_, ok := waitStatuses.Load(c.PID)
	return ok
}

// waitExit reaps the child, because this system has no wait that leaves the status. A
// process group outlives its leader while it has a member, so a later signal to the group
// reaches the right processes or none.
func (c Child) waitExit() {
	ws, ru, err := wait4(c.PID)
	waitStatuses.Store(c.PID, waited{ws, ru, err})
}

func (c Child) reap() (syscall.WaitStatus, syscall.Rusage, error) {
	v, _ := waitStatuses.LoadAndDelete(c.PID)
	w, _ := v.(waited)
	return w.ws, w.ru, w.err
}

func maxRSS(ru syscall.Rusage) int64 { return ru.Maxrss }
