package process

import (
	"errors"
	"syscall"
)

// pipeAtEnd stands in for a descriptor of a process: a pipe whose other end is
// closed when block returns. The returned function waits for that.
func pipeAtEnd(block func()) (int, func(), error) {
	var p [2]int
	if err := cloexecPipe(&p); err != nil {
		return -1, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		block()
		closeRaw(p[1])
	}()
	return p[0], func() { <-done; closeRaw(p[0]) }, nil
}

// closeRaw closes a descriptor that nothing was written to, so that there is
// nothing to learn from it.
func closeRaw(fd int) { syscall.Close(fd) } //nolint:errcheck // see above

func wait4(pid int) (ws syscall.WaitStatus, ru syscall.Rusage, err error) {
	for {
		if _, err = syscall.Wait4(pid, &ws, 0, &ru); !errors.Is(err, syscall.EINTR) {
			return ws, ru, err
		}
	}
}
