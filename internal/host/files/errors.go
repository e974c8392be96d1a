package files

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/croft-run/croft/fault"
)

// ErrClosed is the error of a call on a root that was closed before: the call did nothing.
var ErrClosed = fmt.Errorf("%w: the root is closed", fault.WrongState)

// Errors that several operations share. They carry their code, which opError keeps.
var (
	errReadOnly   = fmt.Errorf("%w: the root is read-only", fault.PermissionDenied)
	errIsDir      = fmt.Errorf("%w: it is a directory", fault.InvalidArgument)
	errNotDir     = fmt.Errorf("%w: it is not a directory", fault.InvalidArgument)
	errNotRegular = fmt.Errorf("%w: it is neither a regular file nor a directory; FIFOs, sockets and devices are refused", fault.InvalidArgument)
	errMountPoint = fmt.Errorf("%w: it is a mount point, which can't be replaced or removed", fault.PermissionDenied)
	errRoot       = fmt.Errorf("%w: the root itself can't be changed; name something in it", fault.InvalidArgument)
	errLeaves     = fmt.Errorf("%w: the path leaves the root", fault.SandboxViolation)
	errConflict   = fmt.Errorf("%w: the content is not what IfMatch says", fault.Conflict)
	errExists     = fmt.Errorf("%w: the name exists", fault.AlreadyExists)
)

// opError adds the operation and the name to an error, and gives an errno its code.
func opError(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	var code fault.Code
	if errors.As(err, &code) {
		return fmt.Errorf("files: %s %s: %w", verb, quoteName(name), err)
	}
	if code = fault.Of(err); code == fault.Internal {
		code = errnoCode(err)
	}
	if err.Error() == code.Error() {
		return fmt.Errorf("files: %s %s: %w", verb, quoteName(name), code)
	}
	return fmt.Errorf("files: %s %s: %w: %w", verb, quoteName(name), code, err)
}

// errnoCode returns the code of the errnos that package fault leaves open, because their
// meaning is specific to files.
func errnoCode(err error) fault.Code {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fault.Internal
	}
	switch errno {
	case syscall.ENXIO, syscall.ENODEV:
		return fault.InvalidArgument // a socket, a FIFO or a device
	case syscall.EXDEV:
		return fault.Unsupported // across a mount; resolvePath handles EXDEV of openat2
	case syscall.EBUSY, syscall.ETXTBSY, syscall.EAGAIN, syscall.EINTR, syscall.EIO, syscall.ESTALE:
		return fault.Unavailable
	case syscall.EMLINK, syscall.EOVERFLOW:
		return fault.ResourceExhausted
	}
	return fault.Internal
}
