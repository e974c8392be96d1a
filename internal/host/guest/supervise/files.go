package supervise

import (
	"context"
	"io"
	"io/fs"

	"github.com/croft-run/croft/workspace/driver"
)

// Files is the files module of a handle whose files are reached through the guest (see
// guest.Client.Files). Each call asks for the module that it goes to, as with Shell.
func Files(ask func(ctx context.Context) (*driver.FS, error)) *driver.FS {
	f := askedFiles{ask}
	return &driver.FS{
		Files: f,
		List: func(ctx context.Context, name string, opts *driver.ListOptions) (driver.Listing, error) {
			return callFS(ctx, f, func(m *driver.FS) (driver.Listing, error) { return m.List(ctx, name, opts) })
		},
		Edit: func(ctx context.Context, name string, edits []driver.Edit, opts *driver.EditOptions) (driver.EditResult, error) {
			return callFS(ctx, f, func(m *driver.FS) (driver.EditResult, error) { return m.Edit(ctx, name, edits, opts) })
		},
		Rename: func(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
			return callErr(ctx, f, func(m *driver.FS) error { return m.Rename(ctx, from, to, opts) })
		},
		Copy: func(ctx context.Context, from, to string, opts *driver.CopyOptions) error {
			return callErr(ctx, f, func(m *driver.FS) error { return m.Copy(ctx, from, to, opts) })
		},
		Chmod: func(ctx context.Context, name string, mode fs.FileMode) error {
			return callErr(ctx, f, func(m *driver.FS) error { return m.Chmod(ctx, name, mode) })
		},
		Symlink: func(ctx context.Context, target, name string) error {
			return callErr(ctx, f, func(m *driver.FS) error { return m.Symlink(ctx, target, name) })
		},
		Glob: func(ctx context.Context, pattern string, opts *driver.GlobOptions) (driver.GlobResult, error) {
			return callFS(ctx, f, func(m *driver.FS) (driver.GlobResult, error) { return m.Glob(ctx, pattern, opts) })
		},
		Grep: func(ctx context.Context, pattern string, opts *driver.GrepOptions) (driver.GrepResult, error) {
			return callFS(ctx, f, func(m *driver.FS) (driver.GrepResult, error) { return m.Grep(ctx, pattern, opts) })
		},
		Watch: func(ctx context.Context, name string, opts *driver.WatchOptions) (driver.Watcher, error) {
			return callFS(ctx, f, func(m *driver.FS) (driver.Watcher, error) { return m.Watch(ctx, name, opts) })
		},
		Digest: func(ctx context.Context, name string) (string, error) {
			return callFS(ctx, f, func(m *driver.FS) (string, error) { return m.Digest(ctx, name) })
		},
	}
}

type askedFiles struct {
	ask func(ctx context.Context) (*driver.FS, error)
}

func callFS[T any](ctx context.Context, f askedFiles, call func(*driver.FS) (T, error)) (T, error) {
	m, err := f.ask(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	return call(m)
}

func callErr(ctx context.Context, f askedFiles, call func(*driver.FS) error) error {
	m, err := f.ask(ctx)
	if err != nil {
		return err
	}
	return call(m)
}

func (f askedFiles) Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	return callFS(ctx, f, func(m *driver.FS) (driver.Info, error) { return m.Stat(ctx, name, opts) })
}

func (f askedFiles) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	return callFS(ctx, f, func(m *driver.FS) ([]driver.Info, error) { return m.ReadDir(ctx, name) })
}

func (f askedFiles) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	m, err := f.ask(ctx)
	if err != nil {
		return nil, driver.Info{}, err
	}
	return m.Read(ctx, name, opts)
}

func (f askedFiles) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	return callFS(ctx, f, func(m *driver.FS) (driver.WriteResult, error) { return m.Write(ctx, name, body, opts) })
}

func (f askedFiles) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return callErr(ctx, f, func(m *driver.FS) error { return m.Mkdir(ctx, name, opts) })
}

func (f askedFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return callErr(ctx, f, func(m *driver.FS) error { return m.Remove(ctx, name, opts) })
}
