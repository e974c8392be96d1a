// Package blobs maps errors of gocloud.dev/blob buckets to fault codes.
package blobs

import (
	"errors"

	"gocloud.dev/gcerrors"

	"github.com/croft-run/croft/fault"
)

// Code returns the code of a bucket's error. An error with a code keeps it; an unknown
// error is Unavailable, since it may be temporary.
func Code(err error) fault.Code {
	var code fault.Code
	if errors.As(err, &code) {
		return code
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return fault.NotFound
	case gcerrors.PermissionDenied:
		return fault.PermissionDenied
	case gcerrors.ResourceExhausted:
		return fault.ResourceExhausted
	case gcerrors.Canceled:
		return fault.Canceled
	case gcerrors.DeadlineExceeded:
		return fault.DeadlineExceeded
	case gcerrors.InvalidArgument:
		return fault.InvalidArgument
	}
	if code := fault.Of(err); code != fault.Internal {
		return code
	}
	return fault.Unavailable
}
