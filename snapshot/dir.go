package snapshot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

// Dir returns a backend that stores objects in a directory, which the first write
// creates.
func Dir(path string) Backend { return &dirBackend{root: path} }

type dirBackend struct{ root string }

var (
	_ Backend   = (*dirBackend)(nil)
	_ Locker    = (*dirBackend)(nil)
	_ Committer = (*dirBackend)(nil)
)

// tempDir holds uncommitted objects.
const tempDir = "tmp"

func (b *dirBackend) path(name string) string { return filepath.Join(b.root, filepath.FromSlash(name)) }

func (b *dirBackend) Create(_ context.Context, name string) (Pending, error) {
	temp := b.path(tempDir + "/" + driver.NewID())
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(temp), 0o700); err == nil {
			f, err = os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		}
	}
	if err != nil {
		return nil, hostError("create", name, err)
	}
	return &pendingFile{b: b, f: f, object: name}, nil
}

type pendingFile struct {
	b      *dirBackend
	f      *os.File
	object string
	closed bool
	done   bool
	size   int64
	sent   int64 // bytes whose writeback was started
}

func (p *pendingFile) Write(data []byte) (int, error) {
	n, err := p.f.Write(data)
	const much = 4 << 20
	if p.size += int64(n); p.size-p.sent >= much {
		writeBack(p.f, p.sent, p.size-p.sent)
		p.sent = p.size
	}
	return n, hostError("write", p.object, err)
}

func (p *pendingFile) Commit(ctx context.Context) error { return p.b.CommitAll(ctx, []Pending{p}) }

// CommitAll fsyncs the contents in parallel, which costs about as much as one
// fsync, renames the files in order, and fsyncs the directories: file systems keep
// the order of renames.
func (b *dirBackend) CommitAll(_ context.Context, list []Pending) error {
	var g errgroup.Group
	for _, p := range list {
		g.Go(p.(*pendingFile).syncAndClose)
	}
	if err := g.Wait(); err != nil {
		return err
	}
	dirs := []string{}
	for _, p := range list {
		dir, err := p.(*pendingFile).renameToFinal()
		if err != nil {
			return err
		}
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		if err := atomicfile.SyncDir(dir); err != nil {
			return hostError("write", filepath.Base(dir), err)
		}
	}
	return nil
}

// syncAndClose fsyncs and closes the file.
func (p *pendingFile) syncAndClose() error {
	err := p.f.Sync()
	if cerr := p.f.Close(); err == nil {
		err = cerr
	}
	p.closed = true
	return hostError("write", p.object, err)
}

// renameToFinal publishes the object by rename, and returns its directory.
func (p *pendingFile) renameToFinal() (dir string, err error) {
	final := p.b.path(p.object)
	dir = filepath.Dir(final)
	err = os.Rename(p.f.Name(), final)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = os.Rename(p.f.Name(), final)
		}
	}
	p.done = err == nil
	return dir, hostError("write", p.object, err)
}

func (p *pendingFile) Abort() {
	if !p.done {
		p.done = true
		if !p.closed {
			p.f.Close()
		}
		os.Remove(p.f.Name())
	}
}

func (b *dirBackend) ReadRange(_ context.Context, name string, off, n int64) ([]byte, error) {
	f, err := os.Open(b.path(name))
	if err != nil {
		return nil, hostError("read", name, err)
	}
	defer f.Close()
	buf := make([]byte, n)
	if _, err := f.ReadAt(buf, off); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, corruptError("read %s: the file ends before byte %d", name, off+n)
		}
		return nil, hostError("read", name, err)
	}
	return buf, nil
}

func (b *dirBackend) List(_ context.Context, kind string) ([]Entry, error) {
	entries, err := os.ReadDir(b.path(kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, hostError("list", kind, err)
	}
	list := make([]Entry, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, hostError("list", kind, err)
		}
		if info.Mode().IsRegular() {
			list = append(list, Entry{ID: e.Name(), Size: info.Size(), ModTime: info.ModTime()})
		}
	}
	return list, nil
}

func (b *dirBackend) Delete(_ context.Context, name string) error {
	err := os.Remove(b.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return hostError("delete", name, err)
}

// Lock takes the flock of the store's lock file.
func (b *dirBackend) Lock(ctx context.Context, shared bool) (func(), error) {
	if err := os.MkdirAll(b.root, 0o700); err != nil {
		return nil, hostError("lock", b.root, err)
	}
	take := flockfile.Lock
	if shared {
		take = flockfile.RLock
	}
	l, err := take(ctx, b.path("lock"))
	if err != nil {
		return nil, hostError("lock", b.root, err)
	}
	return func() {
		l.Close() //nolint:errcheck // closing releases the flock in any case
	}, nil
}

func (b *dirBackend) Clean(context.Context) error {
	entries, err := os.ReadDir(b.path(tempDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if rerr := os.Remove(b.path(tempDir + "/" + e.Name())); err == nil {
			err = rerr
		}
	}
	return hostError("clean", tempDir, err)
}
