package process

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/croft-run/croft/fault"
)

// errorCode returns the code of an error. It also knows errnos that package fault leaves
// open because their meaning is specific to starting processes.
func errorCode(err error) fault.Code {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case syscall.ENOEXEC, syscall.E2BIG, syscall.ENXIO:
			return fault.InvalidArgument
		case syscall.EAGAIN:
			return fault.ResourceExhausted // no process can be created
		case syscall.ETXTBSY, syscall.EBUSY, syscall.EIO, syscall.ESTALE:
			return fault.Unavailable
		case syscall.EPIPE, syscall.ESRCH:
			return fault.WrongState
		}
	}
	return fault.Of(err)
}

// ctxErr returns the error of a call whose context ended.
func ctxErr(ctx context.Context, verb, id string) error {
	err := context.Cause(ctx)
	code := fault.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = fault.DeadlineExceeded
	}
	return fmt.Errorf("process: %s %s: %w: %w", verb, id, code, err)
}
