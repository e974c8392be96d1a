package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gocloud.dev/gcerrors"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/blobs"
)

// Errors of several operations.
var (
	errReadOnly = fmt.Errorf("%w: the workspace is read-only", fault.PermissionDenied)
	errIsDir    = fmt.Errorf("%w: the path is a directory", fault.InvalidArgument)
	errNotDir   = fmt.Errorf("%w: the path is not a directory", fault.InvalidArgument)
	errRoot     = fmt.Errorf("%w: the root of the workspace can't be replaced or removed", fault.InvalidArgument)
	errLeaves   = fmt.Errorf("%w: the path leaves the workspace", fault.SandboxViolation)
	errConflict = fmt.Errorf("%w: the content is not what IfMatch says", fault.Conflict)
	errExists   = fmt.Errorf("%w: the name exists", fault.AlreadyExists)
	errGone     = fmt.Errorf("%w: the name does not exist", fault.NotFound)
	errLoop     = fmt.Errorf("%w: the path has too many symlinks", fault.InvalidArgument)
	errEvicted  = fmt.Errorf("the workspace does not exist any more: %w", fault.Evicted)
)

// opError adds the operation and the path to an error.
func opError(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	const most = 120
	if len(name) > most {
		name = name[:most] + "..."
	}
	return fmt.Errorf("filestore: %s %q: %w", verb, name, withCode(err))
}

// withCode adds the fault code to an error of the database or of the bucket. An error
// with a code keeps it.
func withCode(err error) error {
	if bare := withoutPath(err); bare != nil {
		return bare
	}
	if fault.Of(err) != fault.Internal || errors.Is(err, fault.Internal) {
		return err
	}
	var db *sqlite.Error
	if errors.As(err, &db) {
		if db.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // the index of the log has no room
			return fmt.Errorf("%w: the disk is full: %w", fault.ResourceExhausted, err)
		}
		return fmt.Errorf("%w: %w", dbCode(db.Code()), err)
	}
	answer := gcerrors.Code(err)
	if answer == gcerrors.Unknown { // also an error that is not of a bucket
		return fmt.Errorf("%w: %w", blobs.Code(err), err)
	}
	return fmt.Errorf("%w: the bucket answers %s", blobs.Code(err), answer) // the error of the bucket contains the key
}

// withoutPath returns an error about a file of the host without its path, which must
// not reach the caller. It returns nil for any other error.
func withoutPath(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return fmt.Errorf("%w: %w", fault.Of(path.Err), path.Err)
	case errors.As(err, &link):
		return fmt.Errorf("%w: %w", fault.Of(link.Err), link.Err)
	}
	return nil
}

// dbCode returns the fault code of a SQLite result code; its low byte is the primary
// code.
func dbCode(code int) fault.Code {
	switch code & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_TOOBIG:
		return fault.ResourceExhausted
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL:
		return fault.Unavailable
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return fault.PermissionDenied
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fault.Failed
	case sqlite3.SQLITE_INTERRUPT:
		return fault.Canceled
	}
	return fault.Internal
}

// openFailed converts an error of the store to an error of Open and Resolve:
// transient if a retry may help, otherwise permanent.
func openFailed(ctx context.Context, verb string, err error) error {
	err = withCode(err)
	switch code := fault.Of(err); {
	case ctx.Err() != nil:
		return fmt.Errorf("filestore: %s: %w", verb, ctx.Err())
	case code == fault.Unavailable, code == fault.ResourceExhausted:
		return fault.Transient(fmt.Errorf("filestore: %s: %w: %w", verb, fault.Failed, err))
	case code == fault.Internal, code == fault.PermissionDenied, code == fault.NotFound:
		return fmt.Errorf("filestore: %s: %w: %w", verb, fault.Failed, err)
	}
	return fmt.Errorf("filestore: %s: %w", verb, err)
}
