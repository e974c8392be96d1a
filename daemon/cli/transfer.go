package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/croft-run/croft/fault"
)

// A transfer keeps the account of a put or a get. One entry that can't be moved
// is left out and told of; the rest is moved.
type transfer struct {
	a    *command
	verb string // put or got
	done transferAnswer
	code fault.Code // of the first that was left out
}

// transferAnswer says what a put or a get moved. The directory that is itself
// put or got does not count.
type transferAnswer struct {
	Files      int       `json:"files"`
	Dirs       int       `json:"dirs"`
	Symlinks   int       `json:"symlinks"`
	Bytes      int64     `json:"bytes"`
	Digest     string    `json:"digest,omitempty"`     // of a single file that was put
	BrokeLinks int       `json:"brokeLinks,omitempty"` // files that were cut off from other hard links
	LeftOut    []leftOut `json:"leftOut,omitempty"`
}

// leftOut is what was not moved, and why.
type leftOut struct {
	Path    string `json:"path"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// recordEntry goes on after an entry, at path of the source, that was moved or not. It
// returns the errors that end the whole.
func (t *transfer) recordEntry(ctx context.Context, path string, err error) error {
	if err == nil {
		return nil
	}
	code := fault.Of(err)
	if ctx.Err() != nil || !isEntryError(code) {
		return fmt.Errorf("%s: %w", printable(path), err)
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err // path says more
	}
	t.a.note("croft: left out %s: %v", printable(path), err)
	if t.code == "" {
		t.code = code
	}
	t.done.LeftOut = append(t.done.LeftOut, leftOut{Path: path, Code: code.Wire(), Message: err.Error()})
	return nil
}

// isEntryError tells the errors that concern one entry from those that the next
// would meet as well.
func isEntryError(code fault.Code) bool {
	switch code {
	case fault.InvalidArgument, fault.NotFound, fault.AlreadyExists, fault.PermissionDenied,
		fault.SandboxViolation, fault.Conflict, fault.Unsupported:
		return true
	}
	return false
}

// finish tells the account, also of a transfer that err ended, and returns the
// error of the command.
func (t *transfer) finish(err error) error {
	d := &t.done
	if err != nil && d.Files+d.Dirs+d.Symlinks == 0 && len(d.LeftOut) == 0 {
		return err // there is nothing to account for
	}
	t.a.note("%s %s, %s, %s, %s", t.verb, countText(d.Files, "file"), countText(d.Dirs, "directory"), countText(d.Symlinks, "symlink"), countText(d.Bytes, "byte"))
	if d.BrokeLinks > 0 {
		t.a.note("cut off from other hard links: %s", countText(d.BrokeLinks, "file"))
	}
	if t.a.json {
		err = errors.Join(err, t.a.printAnswer(d, nil))
	}
	if err == nil && len(d.LeftOut) > 0 {
		all := d.Files + d.Dirs + d.Symlinks + len(d.LeftOut)
		err = fmt.Errorf("%w: left out %d of %s", t.code, len(d.LeftOut), countText(all, "entry"))
	}
	return err
}

// hostPath returns the path of an entry as the user would write it.
func hostPath(dir, name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }

// hostError gives an error of the host's files its code.
func hostError(verb, name string, err error) error {
	var coded fault.Code
	if err == nil || errors.As(err, &coded) {
		return err
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s %s: %w: %w", verb, printable(name), fault.Of(err), err)
}
