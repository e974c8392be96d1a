package workspace

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"

	"github.com/croft-run/croft/fault"
)

// WriteFile makes or replaces a file with data, atomically. perm is for a new
// one; 0 is 0o644.
func (f FS) WriteFile(name string, data []byte, perm iofs.FileMode) error {
	return f.change("write", name, func(p string) error {
		_, err := f.w.WriteFile(f.ctx, p, data, &WriteOptions{Mode: modeBits(perm)})
		return err
	})
}

// change runs what changes name.
func (f FS) change(op, name string, call func(path string) error) error {
	p, err := f.at(op, name)
	if err != nil {
		return err
	}
	return wrap(op, name, call(p))
}

// Mkdir makes a directory. A perm of 0 is 0o755.
func (f FS) Mkdir(name string, perm iofs.FileMode) error {
	return f.change("mkdir", name, func(p string) error {
		return f.w.Mkdir(f.ctx, p, &MkdirOptions{Mode: modeBits(perm)})
	})
}

// MkdirAll makes a directory and those above it; one that exists is fine.
func (f FS) MkdirAll(name string, perm iofs.FileMode) error {
	return f.change("mkdir", name, func(p string) error {
		return f.w.Mkdir(f.ctx, p, &MkdirOptions{Parents: true, Mode: modeBits(perm)})
	})
}

// Remove removes a file, a symlink, or an empty directory.
func (f FS) Remove(name string) error {
	return f.change("remove", name, func(p string) error { return f.w.Remove(f.ctx, p, nil) })
}

// RemoveAll removes what is at name and below it. Nothing there is fine.
func (f FS) RemoveAll(name string) error {
	return f.change("remove", name, func(p string) error {
		err := f.w.Remove(f.ctx, p, &RemoveOptions{Recursive: true})
		if errors.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
}

// Rename moves what is at from to to, replacing a file there.
func (f FS) Rename(from, to string) error {
	target, err := f.at("rename", to)
	if err != nil {
		return err
	}
	return f.change("rename", from, func(p string) error { return f.w.Rename(f.ctx, p, target, nil) })
}

// Chmod sets the permission bits of a file or directory.
func (f FS) Chmod(name string, mode iofs.FileMode) error {
	return f.change("chmod", name, func(p string) error { return f.w.Chmod(f.ctx, p, modeBits(mode)) })
}

// Symlink makes name point to target, which must stay inside and is relative to
// where name is.
func (f FS) Symlink(target, name string) error {
	return f.change("symlink", name, func(p string) error { return f.w.Symlink(f.ctx, target, p) })
}

// Create returns a writer of the file name. What was there stays until Close,
// which puts the new content in its place, all at once.
func (f FS) Create(name string) (*Writer, error) {
	p, err := f.at("create", name)
	if err != nil {
		return nil, err
	}
	r, pipe := io.Pipe()
	ctx, release := f.w.gate.hold(f.ctx)
	w := &Writer{pipe: pipe, name: name, done: make(chan error, 1)}
	go func() { // Close and Abort wait for it
		defer release()
		// Whoever abandons a Writer must not keep the handle from closing.
		defer context.AfterFunc(ctx, func() { pipe.CloseWithError(context.Cause(ctx)) })()
		_, err := f.w.Write(ctx, p, r, nil)
		r.CloseWithError(err)
		w.done <- err
	}()
	return w, nil
}

// A Writer writes a file that appears when it is closed.
type Writer struct {
	pipe   *io.PipeWriter
	name   string
	done   chan error
	closed bool
}

// Write adds to the content.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.pipe.Write(p)
	return n, wrap("write", w.name, err)
}

// Close commits: the file has the new content when it returns without an error,
// and is as it was otherwise.
func (w *Writer) Close() error { return w.end(io.EOF) }

// Abort gives up: the file is as it was.
func (w *Writer) Abort() {
	w.end(errAborted) //nolint:errcheck // it is the one we asked for
}

var errAborted = errors.New("the writer was aborted")

func (w *Writer) end(with error) error {
	if w.closed {
		return &iofs.PathError{Op: "close", Path: w.name, Err: iofs.ErrClosed}
	}
	w.closed = true
	w.pipe.CloseWithError(with)
	return wrap("close", w.name, <-w.done)
}
