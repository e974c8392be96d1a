package process

import (
	"errors"
	"syscall"
)

// forkExec starts spec from the calling thread.
func forkExec(spec *Spec) (Child, error) {
	pid, err := syscall.ForkExec(spec.Path, spec.Argv, &syscall.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: spec.Files, Sys: spec.Sys,
	})
	return Child{PID: pid}, err
}

func wait4(pid int) (ws syscall.WaitStatus, ru syscall.Rusage, err error) {
	for {
		if _, err = syscall.Wait4(pid, &ws, 0, &ru); !errors.Is(err, syscall.EINTR) {
			return ws, ru, err
		}
	}
}
