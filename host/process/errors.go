package process

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/croft-run/croft/fault"
)

// errorCode gives an error of the system its code, also those that package fault
// leaves open because they mean something only where processes are started.
func errorCode(err error) fault.Code {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case syscall.ENOEXEC, syscall.E2BIG, syscall.ENXIO:
			return fault.InvalidArgument
		case syscall.EAGAIN:
			return fault.ResourceExhausted // no process can be made
		case syscall.ETXTBSY, syscall.EBUSY, syscall.EIO, syscall.ESTALE:
			return fault.Unavailable
		case syscall.EPIPE, syscall.ESRCH:
			return fault.WrongState
		}
	}
	return fault.Of(err)
}

// ctxErr says that the caller gave up on verb.
func ctxErr(ctx context.Context, verb, id string) error {
	err := context.Cause(ctx)
	code := fault.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = fault.DeadlineExceeded
	}
	return fmt.Errorf("process: %s %s: %w: %w", verb, id, code, err)
}
