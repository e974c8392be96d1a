// Package fault is the closed set of ways in which Croft can fail.
//
// A [Code] is itself an error, so a package says what went wrong by wrapping
// one: fmt.Errorf("local: open %s: %w", id, fault.NotFound). Programs act on the
// code, never on the message: errors.Is(err, fault.NotFound) asks for one,
// [Of] switches over all of them. Where an error carries several codes the
// outermost wins, because the outer layer knew more when it classified.
//
// Two marks ride along. [Transient] says that the same call may succeed if it
// is repeated; only the one who returns the error can know that, so nothing is
// ever classified as transient after the fact. [WithCause] adds a word that
// programs may switch on below the code, such as [CauseGone].
//
// The edges (HTTP, MCP, the exit status) translate codes through the total
// tables of this package, so that a new code can't be forgotten at one of them.
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

// A Code is one way to fail. Its value is the kind on the wire, in snake case.
type Code string

// The codes. Adding one means adding a row to every table in table.go.
const (
	InvalidArgument   Code = "invalid_argument"   // the caller's words are wrong; the same call never succeeds
	Unauthenticated   Code = "unauthenticated"    // who is asking is not known
	PermissionDenied  Code = "permission_denied"  // who is asking may not, or the policy says no
	SandboxViolation  Code = "sandbox_violation"  // a path or a command would leave the fence
	NotFound          Code = "not_found"          // the thing named does not exist
	AlreadyExists     Code = "already_exists"     // the thing to be made is there already
	Conflict          Code = "conflict"           // it changed since the caller looked; look again
	WrongState        Code = "wrong_state"        // it exists, but this verb is not for the state it is in
	ResourceExhausted Code = "resource_exhausted" // a limit, a cap or the disk is full
	Unavailable       Code = "unavailable"        // something needed does not answer now
	Failed            Code = "failed"             // a workspace can't be opened or resolved; permanent unless marked transient
	Evicted           Code = "evicted"            // the live workspace is gone and the call had no effect; resolve and repeat
	Unsupported       Code = "unsupported"        // this provider, host or module can't do that at all
	Canceled          Code = "canceled"           // the caller gave up
	DeadlineExceeded  Code = "deadline_exceeded"  // time ran out
	Internal          Code = "internal"           // a defect of Croft, or an error nobody classified
)

var allCodes = []Code{
	InvalidArgument, Unauthenticated, PermissionDenied, SandboxViolation, NotFound, AlreadyExists, Conflict,
	WrongState, ResourceExhausted, Unavailable, Failed, Evicted, Unsupported, Canceled, DeadlineExceeded, Internal,
}

// All returns every code, in the order of their declaration.
func All() []Code { return slices.Clone(allCodes) }

// Error returns the code as words: "not found".
func (c Code) Error() string { return strings.ReplaceAll(string(c), "_", " ") }

// Wire returns the code as it is named on the wire: "E_NOT_FOUND".
func (c Code) Wire() string { return "E_" + strings.ToUpper(string(c)) }

// Kind returns the code as the kind of an error on the wire: "not_found".
func (c Code) Kind() string { return string(c) }

// Parse returns the code that has the given wire name or kind.
func Parse(s string) (Code, bool) {
	for _, c := range allCodes {
		if s == string(c) || s == c.Wire() {
			return c, true
		}
	}
	return "", false
}

// Of returns the outermost code of err: "" for nil, and Internal for an error
// that nobody classified. The sentinels of context and io/fs and the errnos
// with an evident meaning are understood.
func Of(err error) Code {
	if err == nil {
		return ""
	}
	if c, ok := findCode(err); ok {
		return c
	}
	return Internal
}

// findCode walks err outside in, and left to right where an error wraps several.
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

// CauseOutage is the cause of a Failed workspace that was there before, and whose
// provider could not be reached for as long as it was tried.
const CauseOutage = "outage"

// CauseCorrupt is the cause of a failure of something stored that is not what it
// was when it was written.
const CauseCorrupt = "corrupt"

// mark carries what a code alone can't say. It adds no words to the message.
type mark struct {
	error
	transient bool
	cause     string
}

func (m *mark) Unwrap() error { return m.error }

// Transient marks err as one that may go away when the call is repeated.
func Transient(err error) error {
	if err == nil {
		return nil
	}
	return &mark{error: err, transient: true}
}

// IsTransient reports whether err, or an error that it wraps, was marked by Transient.
func IsTransient(err error) bool {
	return anyMark(err, func(m *mark) bool { return m.transient }) != nil
}

// WithCause attaches a word below the code, one of the Cause constants.
func WithCause(err error, cause string) error {
	if err == nil {
		return nil
	}
	return &mark{error: err, cause: cause}
}

// CauseOf returns the outermost cause attached to err, "" if there is none.
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
