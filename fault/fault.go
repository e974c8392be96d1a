// Package fault defines the closed set of error codes of Croft.
//
// A [Code] is an error, so a package classifies an error by wrapping a code:
// fmt.Errorf("local: open %s: %w", id, fault.NotFound). Programs act on the code, never on
// the message: errors.Is(err, fault.NotFound) tests for one code, [Of] returns the code of
// an error. If an error has several codes, the outermost wins, because the outer layer knew
// more.
//
// Three annotations are possible. [Transient] means that the same call may succeed if it is
// repeated; only the function that returns the error knows that, so no error is marked
// transient later. [WithCause] adds a cause that programs may switch on, such as
// [CauseGone]. [WithHint] and [Advise] say what to do.
//
// The edges (HTTP, MCP, the exit status) translate codes by the complete tables of this
// package, so that a new code can't be forgotten at one of them.
package fault

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// A Code is an error code. Its value is the kind on the wire, in snake case.
type Code string

// The codes. Adding one means adding a row to every table in table.go.
const (
	InvalidArgument   Code = "invalid_argument"   // the arguments are wrong; the same call never succeeds
	Unauthenticated   Code = "unauthenticated"    // the caller is not authenticated
	PermissionDenied  Code = "permission_denied"  // the caller has no permission, or the policy forbids it
	SandboxViolation  Code = "sandbox_violation"  // a path or a command would leave the sandbox
	NotFound          Code = "not_found"          // the named object does not exist
	AlreadyExists     Code = "already_exists"     // the object to create exists
	Conflict          Code = "conflict"           // it changed since the caller looked; look again
	WrongState        Code = "wrong_state"        // the operation is not allowed in the object's state
	ResourceExhausted Code = "resource_exhausted" // a limit, a cap or the disk is full
	Unavailable       Code = "unavailable"        // a dependency does not respond now
	Failed            Code = "failed"             // a workspace can't be opened or resolved; permanent unless marked transient
	Evicted           Code = "evicted"            // the live workspace is gone and the call had no effect; resolve and repeat
	Unsupported       Code = "unsupported"        // this provider, host or module can't do that
	Canceled          Code = "canceled"           // the caller cancelled
	DeadlineExceeded  Code = "deadline_exceeded"  // time ran out
	Internal          Code = "internal"           // a bug in Croft, or an unclassified error
)

var allCodes = []Code{
	InvalidArgument, Unauthenticated, PermissionDenied, SandboxViolation, NotFound, AlreadyExists, Conflict,
	WrongState, ResourceExhausted, Unavailable, Failed, Evicted, Unsupported, Canceled, DeadlineExceeded, Internal,
}

// All returns all codes, in the order of their declaration.
func All() []Code { return slices.Clone(allCodes) }

// Error returns the code in words: "not found".
func (c Code) Error() string { return strings.ReplaceAll(string(c), "_", " ") }

// Wire returns the name of the code on the wire: "E_NOT_FOUND".
func (c Code) Wire() string { return "E_" + strings.ToUpper(string(c)) }

// Kind returns the kind of the code on the wire: "not_found".
func (c Code) Kind() string { return string(c) }

// Parse returns the code with a wire name or kind.
func Parse(s string) (Code, bool) {
	for _, c := range allCodes {
		if s == string(c) || s == c.Wire() {
			return c, true
		}
	}
	return "", false
}

// Of returns the outermost code of err: "" for nil, and Internal for an unclassified error.
// The sentinels of context and io/fs and errnos with a clear meaning are classified.
func Of(err error) Code {
	if err == nil {
		return ""
	}
	if c, ok := findCode(err); ok {
		return c
	}
	return Internal
}

// Default returns err with the code c if err has none, such as an error of an extension.
// The text stays; more than 2,000 bytes of it are cut off.
func Default(err error, c Code) error {
	if _, ok := findCode(err); ok || err == nil {
		return err
	}
	return &defaulted{c, err}
}

type defaulted struct {
	code Code
	err  error
}

func (d *defaulted) Error() string {
	const most = 2000
	text := d.err.Error()
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func (d *defaulted) Unwrap() []error { return []error{d.code, d.err} }

// findCode walks err from the outside in, and left to right if an error wraps several.
func findCode(err error) (Code, bool) {
	switch e := err.(type) { //nolint:errorlint // the walk itself unwraps; each node is judged alone
	case nil:
		return "", false
	case Code:
		return e, true
	case syscall.Errno:
		return codeOfErrno(e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if c, ok := findCode(inner); ok {
				return c, true
			}
		}
		return "", false
	}
	for _, s := range sentinels {
		if err == s.err { //nolint:errorlint // see above
			return s.code, true
		}
	}
	return findCode(errors.Unwrap(err))
}

var sentinels = []struct {
	err  error
	code Code
}{
	{context.Canceled, Canceled},
	{context.DeadlineExceeded, DeadlineExceeded},
	{os.ErrDeadlineExceeded, DeadlineExceeded},
	{fs.ErrNotExist, NotFound},
	{fs.ErrExist, AlreadyExists},
	{fs.ErrPermission, PermissionDenied},
	{fs.ErrInvalid, InvalidArgument},
	{errors.ErrUnsupported, Unsupported},
}

func codeOfErrno(e syscall.Errno) (Code, bool) {
	switch e {
	case syscall.ENOENT:
		return NotFound, true
	case syscall.EEXIST, syscall.ENOTEMPTY:
		return AlreadyExists, true
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return PermissionDenied, true
	case syscall.EINVAL, syscall.ENAMETOOLONG, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP:
		return InvalidArgument, true
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EFBIG:
		return ResourceExhausted, true
	case syscall.ENOSYS, syscall.EOPNOTSUPP:
		return Unsupported, true
	}
	return "", false
}

// CauseGone is the cause of a Failed workspace whose files no longer exist.
const CauseGone = "gone"

// CauseStale is the cause of a Failed ref that a newer revision has replaced.
const CauseStale = "stale"

// CauseOutage is the cause of a Failed workspace whose provider could not be reached during
// all retries.
const CauseOutage = "outage"

// CauseCorrupt is the cause of stored data that differs from what was written.
const CauseCorrupt = "corrupt"

// CauseDiskFull is the cause of ResourceExhausted for lack of space on the disk of the data
// directory.
const CauseDiskFull = "disk-full"

// CauseRefused is the cause of a connection to a port on which nothing listens.
const CauseRefused = "refused"

// CauseClosed is the cause of a call that was cut off because its handle on a workspace, or the
// server, was closed. The caller did not cancel it, and what can outlive the handle continues.
const CauseClosed = "closed"

// CausePaused is the cause of a call on a workspace that was paused, before or during the call.
const CausePaused = "paused"

// CauseDestroyed is the cause of a call that was cut off because its workspace was destroyed.
const CauseDestroyed = "destroyed"

// mark carries an annotation. It adds no text to the message.
type mark struct {
	error
	transient bool
	cause     string
	hint      *Hint
}

func (m *mark) Unwrap() error { return m.error }

// Transient marks err as one that may disappear if the call is repeated.
func Transient(err error) error {
	if err == nil {
		return nil
	}
	return &mark{error: err, transient: true}
}

// IsTransient reports whether err, or a wrapped error, was marked by Transient.
func IsTransient(err error) bool {
	return anyMark(err, func(m *mark) bool { return m.transient }) != nil
}

// WithCause attaches a cause, one of the Cause constants.
func WithCause(err error, cause string) error {
	if err == nil {
		return nil
	}
	return &mark{error: err, cause: cause}
}

// CauseOf returns the outermost cause of err, or "".
func CauseOf(err error) string {
	if m := anyMark(err, func(m *mark) bool { return m.cause != "" }); m != nil {
		return m.cause
	}
	return ""
}

func anyMark(err error, match func(*mark) bool) *mark {
	switch e := err.(type) { //nolint:errorlint // the walk itself unwraps
	case nil:
		return nil
	case *mark:
		if match(e) {
			return e
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if m := anyMark(inner, match); m != nil {
				return m
			}
		}
		return nil
	}
	return anyMark(errors.Unwrap(err), match)
}
