package workspace

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"path"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// An FS is a workspace as an fs.FS that also writes. Its errors are *fs.PathError
// values: errors.Is finds fs.ErrNotExist and the other errors of io/fs as well as the
// fault code.
//
// Names follow io/fs: no leading slash, no "." or ".." within.
type FS struct {
	w   *Workspace
	ctx context.Context // io/fs has no contexts; With binds one
	dir string
}

var (
	_ iofs.StatFS     = FS{}
	_ iofs.ReadFileFS = FS{}
	_ iofs.ReadDirFS  = FS{}
	_ iofs.GlobFS     = FS{}
	_ iofs.SubFS      = FS{}
	_ iofs.ReadLinkFS = FS{}
)

// FS returns the files of the workspace as an fs.FS. Its calls have no deadline
// unless With binds a context.
func (w *Workspace) FS() FS {
	return FS{w: w, ctx: context.Background(), dir: "."} //nolint:forbidigo // io/fs has no contexts; With binds one
}

// With returns the same files with ctx for every call.
func (f FS) With(ctx context.Context) FS {
	f.ctx = ctx
	return f
}

// resolve returns the path of name in the workspace.
func (f FS) resolve(op, name string) (string, error) {
	if !iofs.ValidPath(name) {
		return "", &iofs.PathError{Op: op, Path: name, Err: iofs.ErrInvalid}
	}
	return path.Join(f.dir, name), nil
}

// pathError converts err to an *fs.PathError that matches the errors of io/fs.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &iofs.PathError{Op: op, Path: name, Err: sentinel{err}}
}

// A sentinel is an error that also matches the error of io/fs with the same meaning.
type sentinel struct{ error }

func (s sentinel) Unwrap() error { return s.error }

func (s sentinel) Is(target error) bool {
	switch fault.Of(s.error) {
	case fault.NotFound:
		return target == iofs.ErrNotExist
	case fault.AlreadyExists:
		return target == iofs.ErrExist
	case fault.PermissionDenied, fault.SandboxViolation:
		return target == iofs.ErrPermission
	case fault.InvalidArgument:
		return target == iofs.ErrInvalid
	case fault.WrongState:
		return target == iofs.ErrClosed
	case fault.Unsupported:
		return target == errors.ErrUnsupported
	default:
		return false
	}
}

// Open opens a file or a directory. The file has Seek; a read after Seek is a
// fault.Conflict if the file was replaced meanwhile.
func (f FS) Open(name string) (iofs.File, error) {
	p, err := f.resolve("open", name)
	if err != nil {
		return nil, err
	}
	info, err := f.w.Stat(f.ctx, p, nil)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if info.Type == driver.TypeDir {
		return &openDir{fs: f, name: name, info: info}, nil
	}
	body, info, err := f.w.Read(f.ctx, p, nil)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &openFile{fs: f, name: name, path: p, info: info, body: body}, nil
}

// Stat describes name, following symlinks.
func (f FS) Stat(name string) (iofs.FileInfo, error) { return f.stat("stat", name, false) }

// Lstat describes name, without following a symlink.
func (f FS) Lstat(name string) (iofs.FileInfo, error) { return f.stat("lstat", name, true) }

func (f FS) stat(op, name string, noFollow bool) (iofs.FileInfo, error) {
	p, err := f.resolve(op, name)
	if err != nil {
		return nil, err
	}
	info, err := f.w.Stat(f.ctx, p, &StatOptions{NoFollow: noFollow})
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return fileInfo{info, path.Base(name)}, nil
}

// ReadLink returns the target of a symlink.
func (f FS) ReadLink(name string) (string, error) {
	p, err := f.resolve("readlink", name)
	if err != nil {
		return "", err
	}
	info, err := f.w.Stat(f.ctx, p, &StatOptions{NoFollow: true})
	if err == nil && info.Type != driver.TypeSymlink {
		err = fault.InvalidArgument
	}
	return info.Target, pathError("readlink", name, err)
}

// ReadFile returns the content of a file.
func (f FS) ReadFile(name string) ([]byte, error) {
	p, err := f.resolve("open", name)
	if err != nil {
		return nil, err
	}
	data, err := f.w.ReadFile(f.ctx, p)
	return data, pathError("open", name, err)
}

// ReadDir lists a directory, sorted by name.
func (f FS) ReadDir(name string) ([]iofs.DirEntry, error) {
	p, err := f.resolve("readdir", name)
	if err != nil {
		return nil, err
	}
	infos, err := f.w.ReadDir(f.ctx, p)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	return dirEntries(infos), nil
}

func dirEntries(infos []Info) []iofs.DirEntry {
	list := make([]iofs.DirEntry, len(infos))
	for i, info := range infos {
		list[i] = iofs.FileInfoToDirEntry(fileInfo{info, info.Name()})
	}
	return list
}

// Glob is fs.Glob, with its patterns; Workspace.Glob has more.
func (f FS) Glob(pattern string) ([]string, error) { return iofs.Glob(noGlob{f}, pattern) }

// noGlob hides Glob from fs.Glob.
type noGlob struct{ fs FS }

func (n noGlob) Open(name string) (iofs.File, error)          { return n.fs.Open(name) }
func (n noGlob) Stat(name string) (iofs.FileInfo, error)      { return n.fs.Stat(name) }
func (n noGlob) ReadDir(name string) ([]iofs.DirEntry, error) { return n.fs.ReadDir(name) }

// Sub returns the files below dir; it is an FS, too.
func (f FS) Sub(dir string) (iofs.FS, error) {
	p, err := f.resolve("sub", dir)
	if err != nil {
		return nil, err
	}
	f.dir = p
	return f, nil
}

// fileInfo is an Info as an fs.FileInfo.
type fileInfo struct {
	info Info
	name string
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.info.Size }
func (i fileInfo) ModTime() time.Time { return i.info.ModTime }
func (i fileInfo) IsDir() bool        { return i.info.Type == driver.TypeDir }
func (i fileInfo) Sys() any           { return i.info }

// Bits of chmod(2) that io/fs has at other positions.
const (
	setuid, setgid, sticky = 0o4000, 0o2000, 0o1000
)

func (i fileInfo) Mode() iofs.FileMode {
	mode := i.info.Mode.Perm()
	for bit, flag := range map[iofs.FileMode]iofs.FileMode{setuid: iofs.ModeSetuid, setgid: iofs.ModeSetgid, sticky: iofs.ModeSticky} {
		if i.info.Mode&bit != 0 {
			mode |= flag
		}
	}
	switch i.info.Type {
	case driver.TypeDir:
		mode |= iofs.ModeDir
	case driver.TypeSymlink:
		mode |= iofs.ModeSymlink
	case driver.TypeOther:
		mode |= iofs.ModeIrregular
	default:
	}
	return mode
}

// modeBits converts a mode of io/fs to the bits of chmod(2).
func modeBits(mode iofs.FileMode) iofs.FileMode {
	bits := mode.Perm()
	for bit, flag := range map[iofs.FileMode]iofs.FileMode{setuid: iofs.ModeSetuid, setgid: iofs.ModeSetgid, sticky: iofs.ModeSticky} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// An openDir is an open directory.
type openDir struct {
	fs   FS
	name string
	info Info
	rest []iofs.DirEntry
	read bool
}

func (d *openDir) Stat() (iofs.FileInfo, error) { return fileInfo{d.info, path.Base(d.name)}, nil }
func (d *openDir) Close() error                 { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &iofs.PathError{Op: "read", Path: d.name, Err: iofs.ErrInvalid}
}

// ReadDir lists the next n entries, or all that are left.
func (d *openDir) ReadDir(n int) ([]iofs.DirEntry, error) {
	if !d.read {
		list, err := d.fs.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.rest, d.read = list, true
	}
	if n > 0 && len(d.rest) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.rest) {
		n = len(d.rest)
	}
	list := slices.Clone(d.rest[:n])
	d.rest = d.rest[n:]
	return list, nil
}

// An openFile is an open file.
type openFile struct {
	fs     FS
	name   string
	path   string
	info   Info
	body   io.ReadCloser // nil after a Seek
	offset int64
	closed bool
}

func (f *openFile) Stat() (iofs.FileInfo, error) { return fileInfo{f.info, path.Base(f.name)}, nil }

func (f *openFile) Read(p []byte) (int, error) {
	if f.closed {
		return 0, &iofs.PathError{Op: "read", Path: f.name, Err: iofs.ErrClosed}
	}
	if f.body == nil {
		if err := f.reopen(); err != nil {
			return 0, pathError("read", f.name, err)
		}
	}
	n, err := f.body.Read(p)
	f.offset += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = pathError("read", f.name, err)
	}
	return n, err
}

// reopen opens the file at offset, and fails if the file was replaced.
func (f *openFile) reopen() error {
	body, info, err := f.fs.w.Read(f.fs.ctx, f.path, &ReadOptions{Offset: f.offset})
	if err != nil {
		return err
	}
	if info.Size != f.info.Size || !info.ModTime.Equal(f.info.ModTime) {
		body.Close()
		return fault.Conflict
	}
	f.body = body
	return nil
}

// Seek sets the offset of the next Read.
func (f *openFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.info.Size
	default:
	}
	if f.closed || offset < 0 {
		return 0, &iofs.PathError{Op: "seek", Path: f.name, Err: iofs.ErrInvalid}
	}
	if offset != f.offset && f.body != nil {
		f.body.Close()
		f.body = nil
	}
	f.offset = offset
	return offset, nil
}

func (f *openFile) Close() error {
	if f.closed {
		return &iofs.PathError{Op: "close", Path: f.name, Err: iofs.ErrClosed}
	}
	f.closed = true
	if f.body == nil {
		return nil
	}
	return pathError("close", f.name, f.body.Close())
}
