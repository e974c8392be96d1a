// Package blobs has what packages that keep things in buckets of gocloud.dev/blob
// share.
package blobs

import (
	"errors"

	"gocloud.dev/gcerrors"

	"github.com/croft-run/croft/fault"
)

// Code is the code of an error of a bucket. One that has a code keeps it; what
// nothing more is known of may pass.
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
