package workspace

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"

	"github.com/croft-run/croft/fault"
)

// WriteFile creates or replaces a file with data, atomically. perm is the mode of a
// new file; 0 is 0o644.
func (f FS) WriteFile(name string, data []byte, perm iofs.FileMode) error {
	return f.callWrite("write", name, func(p string) error {
		_, err := f.w.WriteFile(f.ctx, p, data, &WriteOptions{Mode: modeBits(perm)})
		return err
	})
}

// callWrite runs a call that changes name.
func (f FS) callWrite(op, name string, call func(path string) error) error {
	p, err := f.resolve(op, name)
	if err != nil {
		return err
	}
	return pathError(op, name, call(p))
}

// Mkdir creates a directory. A perm of 0 is 0o755.
func (f FS) Mkdir(name string, perm iofs.FileMode) error {
	return f.callWrite("mkdir", name, func(p string) error {
		return f.w.Mkdir(f.ctx, p, &MkdirOptions{Mode: modeBits(perm)})
	})
}

// MkdirAll creates a directory and its parents; an existing directory is no error.
func (f FS) MkdirAll(name string, perm iofs.FileMode) error {
	return f.callWrite("mkdir", name, func(p string) error {
		return f.w.Mkdir(f.ctx, p, &MkdirOptions{Parents: true, Mode: modeBits(perm)})
	})
}

// Remove removes a file, a symlink, or an empty directory.
func (f FS) Remove(name string) error {
	return f.callWrite("remove", name, func(p string) error { return f.w.Remove(f.ctx, p, nil) })
}

// RemoveAll removes name and its tree. A missing name is no error.
func (f FS) RemoveAll(name string) error {
	return f.callWrite("remove", name, func(p string) error {
		err := f.w.Remove(f.ctx, p, &RemoveOptions{Recursive: true})
		if errors.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
}

// Rename moves from to to, replacing a file there.
func (f FS) Rename(from, to string) error {
	target, err := f.resolve("rename", to)
	if err != nil {
		return err
	}
	return f.callWrite("rename", from, func(p string) error { return f.w.Rename(f.ctx, p, target, nil) })
}

// Chmod sets the permission bits of a file or directory.
func (f FS) Chmod(name string, mode iofs.FileMode) error {
	return f.callWrite("chmod", name, func(p string) error { return f.w.Chmod(f.ctx, p, modeBits(mode)) })
}

// Symlink creates the symlink name. target is relative to the directory of name and
// must be inside the workspace.
func (f FS) Symlink(target, name string) error {
	return f.callWrite("symlink", name, func(p string) error { return f.w.Symlink(f.ctx, target, p) })
}

// Create returns a writer of the file name. The old content stays until Close, which
// replaces it atomically.
func (f FS) Create(name string) (*Writer, error) {
	p, err := f.resolve("create", name)
	if err != nil {
		return nil, err
	}
	r, pipe := io.Pipe()
	ctx, release := f.w.inflight.withCloseCancel(f.ctx)
	w := &Writer{pipe: pipe, name: name, done: make(chan error, 1)}
	go func() { // Close and Abort wait for this goroutine
		defer release()
		// An abandoned Writer must not block the closing of the handle.
		defer context.AfterFunc(ctx, func() { pipe.CloseWithError(context.Cause(ctx)) })()
		_, err := f.w.Write(ctx, p, r, nil)
		r.CloseWithError(err)
		w.done <- err
	}()
	return w, nil
}

// A Writer writes a file that appears when the Writer is closed.
type Writer struct {
	pipe   *io.PipeWriter
	name   string
	done   chan error
	closed bool
}

// Write appends to the content.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.pipe.Write(p)
	return n, pathError("write", w.name, err)
}

// Close commits: without an error the file has the new content, with an error it is
// unchanged.
func (w *Writer) Close() error { return w.closeWith(io.EOF) }

// Abort discards what was written: the file is unchanged.
func (w *Writer) Abort() {
	w.closeWith(errAborted) //nolint:errcheck // it is errAborted
}

var errAborted = errors.New("the writer was aborted")

func (w *Writer) closeWith(with error) error {
	if w.closed {
		return &iofs.PathError{Op: "close", Path: w.name, Err: iofs.ErrClosed}
	}
	w.closed = true
	w.pipe.CloseWithError(with)
	return pathError("close", w.name, <-w.done)
}
