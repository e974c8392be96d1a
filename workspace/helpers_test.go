package workspace

import (
	"context"
	"io"
	iofs "io/fs"
	"sync"
	"testing"

	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

// openMemory opens a workspace in memory, as a driver has it.
func openMemory(t testing.TB, p *memory.Provider) *driver.Workspace {
	t.Helper()
	d, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: memory.Kind})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newMemory returns a handle on a workspace in memory.
func newMemory(t testing.TB, opts *Options) *Workspace {
	t.Helper()
	return newHandle(t, openMemory(t, new(memory.Provider)), opts)
}

func newHandle(t testing.TB, d *driver.Workspace, opts *Options) *Workspace {
	t.Helper()
	w, err := New(driver.NewID(), d, nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// bare returns d with nothing but the required part of its files.
func bare(d *driver.Workspace) *driver.Workspace {
	next := *d
	next.FS = &driver.FS{Files: d.FS.Files}
	return &next
}

// A hook sees each call to Files before it is made, and may answer it.
type hook struct {
	driver.Files
	before func(call, name string, opts any) error
}

func (h hook) Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	if err := h.before("stat", name, opts); err != nil {
		return driver.Info{}, err
	}
	return h.Files.Stat(ctx, name, opts)
}

func (h hook) ReadDir(ctx context.Context, name string) ([]driver.Info, error) {
	if err := h.before("readdir", name, ""); err != nil {
		return nil, err
	}
	return h.Files.ReadDir(ctx, name)
}

func (h hook) Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	if err := h.before("read", name, opts); err != nil {
		return nil, driver.Info{}, err
	}
	return h.Files.Read(ctx, name, opts)
}

func (h hook) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	if err := h.before("write", name, opts); err != nil {
		return driver.WriteResult{}, err
	}
	return h.Files.Write(ctx, name, body, opts)
}

func (h hook) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	if err := h.before("mkdir", name, opts); err != nil {
		return err
	}
	return h.Files.Mkdir(ctx, name, opts)
}

func (h hook) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	if err := h.before("remove", name, opts); err != nil {
		return err
	}
	return h.Files.Remove(ctx, name, opts)
}

// hooked returns d with a hook before everything of FS that it has.
func hooked(d *driver.Workspace, before func(call, name string, opts any) error) *driver.Workspace {
	next, fs := *d, *d.FS
	fs.Files = hook{d.FS.Files, before}
	if inner := fs.Rename; inner != nil {
		fs.Rename = func(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
			if err := before("rename", from, opts); err != nil {
				return err
			}
			if err := before("rename", to, opts); err != nil {
				return err
			}
			return inner(ctx, from, to, opts)
		}
	}
	if inner := fs.Chmod; inner != nil {
		fs.Chmod = func(ctx context.Context, name string, mode iofs.FileMode) error {
			if err := before("chmod", name, ""); err != nil {
				return err
			}
			return inner(ctx, name, mode)
		}
	}
	if inner := fs.Symlink; inner != nil {
		fs.Symlink = func(ctx context.Context, target, name string) error {
			if err := before("symlink", name, ""); err != nil {
				return err
			}
			return inner(ctx, target, name)
		}
	}
	if inner := fs.Watch; inner != nil {
		fs.Watch = func(ctx context.Context, name string, opts *driver.WatchOptions) (driver.Watcher, error) {
			if err := before("watch", name, opts); err != nil {
				return nil, err
			}
			return inner(ctx, name, opts)
		}
	}
	next.FS = &fs
	return &next
}

// counter counts by name, from many goroutines.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name]++
	return c.n[name]
}

func (c *counter) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}
