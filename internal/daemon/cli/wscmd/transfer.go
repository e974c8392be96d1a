package wscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

// A transfer counts what a put or a get copied. An entry that can't be copied is left
// out and reported; the rest is copied.
type transfer struct {
	a    *command
	verb string // put or got
	done transferAnswer
	code fault.Code // of the first entry that was left out

	progress *console.ProgressLine // nil if none is shown
}

// follow returns a reader that shows in the progress how much of a file was read.
func (t *transfer) follow(body io.Reader) io.Reader {
	if t.progress == nil {
		return body
	}
	return io.TeeReader(body, &fileCounter{progress: t.progress, files: t.done.Files, bytes: t.done.Bytes})
}

// A fileCounter shows how many files and bytes were copied, with those of one file that are
// written to it.
type fileCounter struct {
	progress *console.ProgressLine
	files    int
	bytes    int64
}

// Write counts the bytes.
func (c *fileCounter) Write(data []byte) (int, error) {
	c.bytes += int64(len(data))
	c.progress.Set(c.files, c.bytes)
	return len(data), nil
}

// transferAnswer is what a put or a get copied. The top directory does not count.
type transferAnswer struct {
	Files      int       `json:"files"`
	Dirs       int       `json:"dirs"`
	Symlinks   int       `json:"symlinks"`
	Bytes      int64     `json:"bytes"`
	Digest     string    `json:"digest,omitempty"`     // of a single file that was put
	BrokeLinks int       `json:"brokeLinks,omitempty"` // files whose hard links were broken
	LeftOut    []leftOut `json:"leftOut,omitempty"`

	Credentials []string `json:"credentials,omitempty"` // credential files that were left out
}

// leftOut is an entry that was not copied, and why.
type leftOut struct {
	Path    string `json:"path"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// recordEntry records the error of the entry at path as left out. It returns errors
// that end the transfer.
func (t *transfer) recordEntry(ctx context.Context, path string, err error) error {
	if err == nil {
		return nil
	}
	code := fault.Of(err)
	full := errors.Is(err, syscall.ENOSPC) // what was written of the file is removed again: a smaller one may fit
	if ctx.Err() != nil || !isEntryError(code) && !full {
		return fmt.Errorf("%s: %w", console.Printable(path), err)
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err // path is more complete
	}
	t.a.Note("croft: left out %s: %v", console.Printable(path), err)
	if t.code == "" {
		t.code = code
	}
	t.done.LeftOut = append(t.done.LeftOut, leftOut{Path: path, Code: code.Wire(), Message: err.Error()})
	return nil
}

// isEntryError reports whether a code concerns one entry, and not the next one, too.
func isEntryError(code fault.Code) bool {
	switch code {
	case fault.InvalidArgument, fault.NotFound, fault.AlreadyExists, fault.PermissionDenied,
		fault.SandboxViolation, fault.Conflict, fault.Unsupported:
		return true
	}
	return false
}

// finish prints the counts, also of a transfer that err ended, and returns the error
// of the command.
func (t *transfer) finish(err error) error {
	d := &t.done
	if err != nil && d.Files+d.Dirs+d.Symlinks == 0 && len(d.LeftOut) == 0 {
		return err // nothing was copied
	}
	t.a.Note("%s %s, %s, %s, %s", t.verb, console.CountText(d.Files, "file"), console.CountText(d.Dirs, "directory"), console.CountText(d.Symlinks, "symlink"), console.CountText(d.Bytes, "byte"))
	t.a.noteCredentials(d.Credentials)
	if d.BrokeLinks > 0 {
		t.a.Note("hard links broken: %s", console.CountText(d.BrokeLinks, "file"))
	}
	if t.a.JSON {
		err = errors.Join(err, t.a.PrintAnswer(d, nil))
	}
	if err == nil && len(d.LeftOut) > 0 {
		all := d.Files + d.Dirs + d.Symlinks + len(d.LeftOut)
		err = fmt.Errorf("%w: left out %d of %s", t.code, len(d.LeftOut), console.CountText(all, "entry"))
	}
	return err
}

// hostPath returns the path of an entry of the host.
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
	return fmt.Errorf("%s %s: %w: %w", verb, console.Printable(name), fault.Of(err), err)
}

// printRemoved prints the name of a removed thing. The key deleted is an older name of
// the key removed.
func (a *command) printRemoved(name string) error {
	return a.PrintAnswer(map[string]string{"removed": name, "deleted": name}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "removed", console.Printable(name))
		return err
	})
}
