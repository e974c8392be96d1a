package wsdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// handleFiles implements the files module of a handle. Each call first checks that the
// handle is current, and then calls package files.
type handleFiles struct{ h *Handle }

var _ driver.Files = handleFiles{}

// callFS makes a call on the current files module and returns its result. If the handle was
// bound to a new root between the lookup and the call, the old root answers ErrClosed
// before it changes anything, and callFS repeats the call on the new root.
func callFS[T any](ctx context.Context, h *Handle, call func(*driver.FS) (T, error)) (T, error) {
	var zero T
	for before := (*driver.FS)(nil); ; {
		fs, err := h.activeFS(ctx)
		if err != nil {
			return zero, err
		}
		got, err := call(fs)
		if err == nil || fs == before || !errors.Is(err, files.ErrClosed) {
			return got, err
		}
		before = fs
	}
}

// callFSErr is callFS for a call that returns only an error.
func callFSErr(ctx context.Context, h *Handle, call func(*driver.FS) error) error {
	_, err := callFS(ctx, h, func(fs *driver.FS) (struct{}, error) { return struct{}{}, call(fs) })
	return err
}

// FS returns the files module. Each call acts on the present state of the workspace.
func (h *Handle) FS() *driver.FS {
	f := handleFiles{h}
	return &driver.FS{
		Files: f, List: f.List, Edit: f.Edit, Rename: f.Rename, Copy: f.Copy, Chmod: f.Chmod, Xattrs: f.Xattrs, SetXattrs: f.SetXattrs,
		Symlink: f.Symlink, Glob: f.Glob, Grep: f.Grep, Watch: f.Watch, Digest: f.Digest, Import: f.Import,
	}
}

func (f handleFiles) Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (driver.Info, error) { return fs.Stat(ctx, name, opts) })
}

func (f handleFiles) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) ([]driver.Info, error) { return fs.ReadDir(ctx, name) })
}

func (f handleFiles) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	var info driver.Info
	r, err := callFS(ctx, f.h, func(fs *driver.FS) (r io.ReadCloser, err error) {
		r, info, err = fs.Read(ctx, name, opts)
		return r, err
	})
	return r, info, err
}

func (f handleFiles) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (driver.WriteResult, error) { return fs.Write(ctx, name, body, opts) })
}

func (f handleFiles) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return callFSErr(ctx, f.h, func(fs *driver.FS) error { return fs.Mkdir(ctx, name, opts) })
}

func (f handleFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return callFSErr(ctx, f.h, func(fs *driver.FS) error { return fs.Remove(ctx, name, opts) })
}

func (f handleFiles) List(ctx context.Context, name string, opts *driver.ListOptions) (driver.Listing, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (driver.Listing, error) { return fs.List(ctx, name, opts) })
}

func (f handleFiles) Edit(ctx context.Context, name string, edits []driver.Edit, opts *driver.EditOptions) (driver.EditResult, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (driver.EditResult, error) { return fs.Edit(ctx, name, edits, opts) })
}

func (f handleFiles) Rename(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
	return callFSErr(ctx, f.h, func(fs *driver.FS) error { return fs.Rename(ctx, from, to, opts) })
}

func (f handleFiles) Copy(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
	return callFSErr(ctx, f.h, func(fs *driver.FS) error { return fs.Copy(ctx, from, to, opts) })
}

func (f handleFiles) Chmod(ctx context.Context, name string, mode iofs.FileMode) error {
	return callFSErr(ctx, f.h, func(fs *driver.FS) error { return fs.Chmod(ctx, name, mode) })
}

func (f handleFiles) Xattrs(ctx context.Context, name, prefix string) (map[string]string, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (map[string]string, error) {
		if fs.Xattrs == nil {
			return nil, errNoXattrs
		}
		return fs.Xattrs(ctx, name, prefix)
	})
}

func (f handleFiles) SetXattrs(ctx context.Context, name, prefix string, attrs map[string]string) error {
	return callFSErr(ctx, f.h, func(fs *driver.FS) error {
		if fs.SetXattrs == nil {
			return errNoXattrs
		}
		return fs.SetXattrs(ctx, name, prefix, attrs)
	})
}

var errNoXattrs = fmt.Errorf("extended attributes: %w at this level of isolation", fault.Unsupported)

func (f handleFiles) Symlink(ctx context.Context, target, name string) error {
	return callFSErr(ctx, f.h, func(fs *driver.FS) error { return fs.Symlink(ctx, target, name) })
}

func (f handleFiles) Glob(ctx context.Context, pattern string, opts *driver.GlobOptions) (driver.GlobResult, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (driver.GlobResult, error) { return fs.Glob(ctx, pattern, opts) })
}

func (f handleFiles) Grep(ctx context.Context, pattern string, opts *driver.GrepOptions) (driver.GrepResult, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (driver.GrepResult, error) { return fs.Grep(ctx, pattern, opts) })
}

func (f handleFiles) Watch(ctx context.Context, name string, opts *driver.WatchOptions) (driver.Watcher, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (driver.Watcher, error) { return fs.Watch(ctx, name, opts) })
}

func (f handleFiles) Digest(ctx context.Context, name string) (string, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (string, error) { return fs.Digest(ctx, name) })
}

func (f handleFiles) Import(ctx context.Context, dir, name string, opts *driver.ImportOptions) (driver.ImportResult, error) {
	return callFS(ctx, f.h, func(fs *driver.FS) (driver.ImportResult, error) {
		if fs.Import == nil {
			return driver.ImportResult{}, fmt.Errorf("wsdir: import %s: %w: this workspace does not import directories; write its files one by one", name, fault.Unsupported)
		}
		return fs.Import(ctx, dir, name, opts)
	})
}
