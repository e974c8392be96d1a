package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	iofs "io/fs"
	"math"
	"path"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// callFS runs an operation of the FS module on a path.
func (w *Workspace) callFS(ctx context.Context, v *verb, p string, call func(ctx context.Context, fs *driver.FS, name string) error) error {
	return w.call(ctx, v, subject{path: p}, func(ctx context.Context, d *live) error {
		if d.FS == nil {
			return w.unsupported("files", d)
		}
		name, err := w.cleanPath(p, d)
		if err != nil {
			return err
		}
		return call(ctx, d.FS, name)
	})
}

// callFSTwo runs an operation of the FS module on two paths.
func (w *Workspace) callFSTwo(ctx context.Context, v *verb, from, to string, call func(ctx context.Context, fs *driver.FS, from, to string) error) error {
	return w.call(ctx, v, subject{path: from, to: to}, func(ctx context.Context, d *live) error {
		if d.FS == nil {
			return w.unsupported("files", d)
		}
		from, err := w.cleanPath(from, d)
		if err != nil {
			return err
		}
		to, err := w.cleanPath(to, d)
		if err != nil {
			return err
		}
		return call(ctx, d.FS, from, to)
	})
}

// callFSPattern runs an operation of the FS module that searches for a pattern.
func (w *Workspace) callFSPattern(ctx context.Context, v *verb, p, pattern string, call func(ctx context.Context, fs *driver.FS, name string) error) error {
	return w.call(ctx, v, subject{path: p, pattern: pattern}, func(ctx context.Context, d *live) error {
		if d.FS == nil {
			return w.unsupported("files", d)
		}
		name, err := w.cleanPath(p, d)
		if err != nil {
			return err
		}
		return call(ctx, d.FS, name)
	})
}

// orZero returns opts, or zero options if opts is nil.
func orZero[T any](opts *T) *T {
	if opts == nil {
		return new(T)
	}
	return opts
}

// orEmpty returns a list that is never null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Stat describes path.
func (w *Workspace) Stat(ctx context.Context, path string, opts *StatOptions) (info Info, err error) {
	err = w.callFS(ctx, verbStat, path, func(ctx context.Context, fs *driver.FS, name string) error {
		info, err = fs.Stat(ctx, name, orZero(opts))
		return err
	})
	return info, err
}

// ReadDir lists a directory, one level, sorted by name.
func (w *Workspace) ReadDir(ctx context.Context, path string) (entries []Info, err error) {
	err = w.callFS(ctx, verbReadDir, path, func(ctx context.Context, fs *driver.FS, name string) error {
		entries, err = fs.ReadDir(ctx, name)
		return err
	})
	return orEmpty(entries), err
}

// List lists a directory to any depth, in pages.
func (w *Workspace) List(ctx context.Context, path string, opts *ListOptions) (page Listing, err error) {
	opts = orZero(opts)
	err = w.callFS(ctx, verbList, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if opts.Depth < -1 || opts.Limit < 0 || opts.Limit > driver.MaxListLimit {
			return fmt.Errorf("list %q: depth %d, limit %d: %w: depth is at least -1 and limit 0 to %d", path, opts.Depth, opts.Limit, fault.InvalidArgument, driver.MaxListLimit)
		}
		if fs.List != nil {
			page, err = fs.List(ctx, name, opts)
		} else {
			page, err = listFallback(ctx, fs, name, opts)
		}
		return err
	})
	page.Entries = orEmpty(page.Entries)
	return page, err
}

// Read opens a file for reading, from any offset. The Info describes the opened file.
// The workspace is in use until body is closed. Closing the handle or destroying the
// workspace does not wait for body: its next Read returns an error.
func (w *Workspace) Read(ctx context.Context, path string, opts *ReadOptions) (body io.ReadCloser, info Info, err error) {
	opts = orZero(opts)
	ctx, release := w.inflight.withCloseCancel(ctx)
	err = w.callFS(ctx, verbRead, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if opts.Offset < 0 || opts.Limit < 0 {
			return fmt.Errorf("read %q: %w: offset and limit must not be negative", path, fault.InvalidArgument)
		}
		from, of, err := fs.Read(ctx, name, opts)
		if err != nil {
			return err
		}
		body, info = w.trackReader(from, release, IsUse(ctx)), of
		return nil
	})
	if err != nil {
		release()
		return nil, Info{}, err
	}
	return body, info, nil
}

// ReadFile returns the content of a file.
func (w *Workspace) ReadFile(ctx context.Context, path string) (data []byte, err error) {
	err = w.callFS(ctx, verbRead, path, func(ctx context.Context, fs *driver.FS, name string) error {
		data, err = readAll(ctx, fs, name, math.MaxInt64)
		return err
	})
	return data, err
}

// ReadFileMax is ReadFile with a maximum size. A larger file is
// fault.ResourceExhausted, and is not read. Use it for files that processes of the
// workspace created: a sparse file can have any size.
func (w *Workspace) ReadFileMax(ctx context.Context, path string, most int64) (data []byte, err error) {
	err = w.callFS(ctx, verbRead, path, func(ctx context.Context, fs *driver.FS, name string) error {
		data, err = readAll(ctx, fs, name, most)
		return err
	})
	return data, err
}

func readAll(ctx context.Context, fs *driver.FS, name string, limit int64) ([]byte, error) {
	body, info, err := fs.Read(ctx, name, &driver.ReadOptions{})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	tooBig := func(size int64) error {
		return fmt.Errorf("read %s: %w: the file has at least %d bytes; the maximum is %d", name, fault.ResourceExhausted, size, limit)
	}
	if info.Size > limit {
		return nil, tooBig(info.Size)
	}
	const most = 64 << 20 // do not allocate more than this by a reported size
	buf := make([]byte, 0, max(min(info.Size, most), 0)+1)
	for {
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF { // a wrapped EOF is a failure
			return buf, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if int64(len(buf)) > limit {
			return nil, tooBig(int64(len(buf)))
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}

// Write creates or replaces a file with the content of body, atomically. On any
// error, also of body, the file is unchanged. If ctx ends or the handle is closed
// while body blocks, Write returns and abandons body: its running Read may continue
// until the owner of body ends it.
func (w *Workspace) Write(ctx context.Context, path string, body io.Reader, opts *WriteOptions) (res WriteResult, err error) {
	o := *orZero(opts)
	if limit := w.opts.MaxFileSize; limit > 0 && (o.MaxSize == 0 || o.MaxSize > limit) {
		o.MaxSize = limit
	}
	in := newInput(body)
	ctx, release := w.inflight.withCloseCancel(ctx)
	defer release()
	in.abandonWith(ctx)
	err = w.callFS(ctx, verbWrite, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if name == "." {
			return fmt.Errorf("write %q: %w: it is the workspace itself", path, fault.InvalidArgument)
		}
		if o.MaxSize < 0 {
			return fmt.Errorf("write %q: max size %d: %w: it must not be negative", path, o.MaxSize, fault.InvalidArgument)
		}
		if err := checkMode("write", path, o.Mode); err != nil {
			return err
		}
		if err := checkIfMatch("write", path, o.IfMatch); err != nil {
			return err
		}
		if err := in.rewind(); err != nil {
			return fmt.Errorf("write %q: %w", path, err)
		}
		res, err = fs.Write(ctx, name, in.reader(), &o)
		return in.classifyError(err)
	})
	return res, err
}

func checkIfMatch(verb, path, digest string) error {
	if digest != "" && !driver.ValidDigest(digest) {
		return fmt.Errorf("%s %q: if-match %q: %w: a digest is %q and 64 hex digits", verb, path, digest, fault.InvalidArgument, driver.DigestPrefix)
	}
	return nil
}

func checkMode(verb, path string, mode iofs.FileMode) error {
	if err := driver.CheckMode(mode); err != nil {
		return fmt.Errorf("%s %q: %w", verb, path, err)
	}
	return nil
}

// WriteFile creates or replaces a file with data.
func (w *Workspace) WriteFile(ctx context.Context, path string, data []byte, opts *WriteOptions) (WriteResult, error) {
	return w.Write(ctx, path, bytes.NewReader(data), opts)
}

// Edit replaces text in a file, all or nothing: either every edit applies, in order,
// or the file is unchanged.
func (w *Workspace) Edit(ctx context.Context, path string, edits []Edit, opts *EditOptions) (res EditResult, err error) {
	opts = orZero(opts)
	err = w.callFS(ctx, verbEdit, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if err := checkIfMatch("edit", path, opts.IfMatch); err != nil {
			return err
		}
		if fs.Edit != nil && w.opts.MaxFileSize == 0 {
			res, err = fs.Edit(ctx, name, edits, opts)
			return err
		}
		w.editMu.Lock()
		defer w.editMu.Unlock()
		res, err = editFallback(ctx, fs, name, edits, opts, w.opts.MaxFileSize)
		return err
	})
	return res, err
}

// Mkdir creates a directory.
func (w *Workspace) Mkdir(ctx context.Context, path string, opts *MkdirOptions) error {
	return w.callFS(ctx, verbMkdir, path, func(ctx context.Context, fs *driver.FS, name string) error {
		opts := orZero(opts)
		if err := checkMode("mkdir", path, opts.Mode); err != nil {
			return err
		}
		return fs.Mkdir(ctx, name, opts)
	})
}

// Remove removes a file, a symlink or a directory.
func (w *Workspace) Remove(ctx context.Context, path string, opts *RemoveOptions) error {
	return w.callFS(ctx, verbRemove, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if name == "." {
			return fmt.Errorf("remove %q: %w: it is the workspace itself", path, fault.InvalidArgument)
		}
		return fs.Remove(ctx, name, orZero(opts))
	})
}

// Rename moves a file, a symlink or a directory.
func (w *Workspace) Rename(ctx context.Context, from, to string, opts *RenameOptions) error {
	return w.callFSTwo(ctx, verbRename, from, to, func(ctx context.Context, fs *driver.FS, from, to string) error {
		if from == "." || to == "." {
			return fmt.Errorf("rename %s to %s: %w: it is the workspace itself", from, to, fault.InvalidArgument)
		}
		var err error
		if fs.Rename != nil {
			err = fs.Rename(ctx, from, to, orZero(opts))
		} else {
			err = renameFallback(ctx, fs, from, to, orZero(opts))
		}
		if fault.Of(err) == fault.NotFound && !orZero(opts).Parents && !w.opts.Relay {
			return missingAbove(ctx, fs, "rename", from, to, err)
		}
		return err
	})
}

// missingAbove adds to a NotFound error that the parent directory of the new name is
// missing, if that is the cause.
func missingAbove(ctx context.Context, fs *driver.FS, verb, from, to string, err error) error {
	above := path.Dir(to)
	if _, serr := fs.Stat(ctx, from, &driver.StatOptions{NoFollow: true}); serr != nil || above == "." {
		return err
	}
	if _, serr := fs.Stat(ctx, above, &driver.StatOptions{}); fault.Of(serr) != fault.NotFound {
		return err
	}
	return fmt.Errorf("%s %s to %s: %w: directory %s does not exist; create it, or set parents", verb, from, to, fault.NotFound, above)
}

// Copy copies a file or, with opts.Recursive, a tree.
func (w *Workspace) Copy(ctx context.Context, from, to string, opts *CopyOptions) error {
	return w.callFSTwo(ctx, verbCopy, from, to, func(ctx context.Context, fs *driver.FS, from, to string) error {
		if to == "." || from == to || isBelow(to, from) {
			return fmt.Errorf("copy %s to %s: %w: the copy would be inside itself", from, to, fault.InvalidArgument)
		}
		if fs.Copy != nil {
			return fs.Copy(ctx, from, to, orZero(opts))
		}
		return copyFallback(ctx, fs, from, to, orZero(opts))
	})
}

// Chmod sets the permission bits of a file or directory.
func (w *Workspace) Chmod(ctx context.Context, path string, mode iofs.FileMode) error {
	return w.callFS(ctx, verbChmod, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if fs.Chmod == nil {
			return w.unsupported("chmod", w.current.Load())
		}
		if err := checkMode("chmod", path, mode); err != nil {
			return err
		}
		return fs.Chmod(ctx, name, mode)
	})
}

// Xattrs returns the extended attributes user.* of files and directories below dir, in the
// order of paths. Of each it returns those whose names start with prefix, by the rest of
// their names; "user." is not part of prefix. A path that is missing has none.
func (w *Workspace) Xattrs(ctx context.Context, dir string, paths []string, prefix string) (list []map[string]string, err error) {
	err = w.callFS(ctx, verbXattrs, dir, func(ctx context.Context, fs *driver.FS, name string) error {
		if fs.Xattrs == nil {
			return w.unsupported("extended attributes", w.current.Load())
		}
		list = make([]map[string]string, len(paths))
		for i, p := range paths {
			name, err := cleanName(path.Join(name, p), "")
			if err != nil {
				return err
			}
			if list[i], err = fs.Xattrs(ctx, name, prefix); err != nil && fault.Of(err) != fault.NotFound {
				return err
			}
		}
		return nil
	})
	return list, err
}

// SetXattrs replaces the extended attributes that Xattrs returns for prefix.
func (w *Workspace) SetXattrs(ctx context.Context, path, prefix string, attrs map[string]string) error {
	return w.callFS(ctx, verbSetXattrs, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if fs.SetXattrs == nil {
			return w.unsupported("extended attributes", w.current.Load())
		}
		return fs.SetXattrs(ctx, name, prefix, attrs)
	})
}

// Symlink creates the symlink path with the given target, which must be inside the
// workspace.
func (w *Workspace) Symlink(ctx context.Context, target, path string) error {
	return w.callFS(ctx, verbSymlink, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if fs.Symlink == nil {
			return w.unsupported("symlinks", w.current.Load())
		}
		return fs.Symlink(ctx, target, name)
	})
}

// Glob lists what matches a pattern: * ? [a-z] {a,b} and ** for any depth.
func (w *Workspace) Glob(ctx context.Context, pattern string, opts *GlobOptions) (res GlobResult, err error) {
	o := *orZero(opts)
	err = w.callFSPattern(ctx, verbGlob, o.Path, pattern, func(ctx context.Context, fs *driver.FS, name string) error {
		if o.Limit < 0 || o.Limit > driver.MaxGlobLimit {
			return fmt.Errorf("glob %q: limit %d: %w: 0 to %d are allowed", pattern, o.Limit, fault.InvalidArgument, driver.MaxGlobLimit)
		}
		o.Path = name
		if fs.Glob != nil {
			res, err = fs.Glob(ctx, pattern, &o)
		} else {
			res, err = globFallback(ctx, fs, pattern, &o)
		}
		return err
	})
	res.Entries = orEmpty(res.Entries)
	return res, err
}

// Grep searches the text of files for a regular expression (RE2), and reports what it
// did not search.
func (w *Workspace) Grep(ctx context.Context, pattern string, opts *GrepOptions) (res GrepResult, err error) {
	o := *orZero(opts)
	err = w.callFSPattern(ctx, verbGrep, o.Path, pattern, func(ctx context.Context, fs *driver.FS, name string) error {
		if err := search.CheckGrep(&o); err != nil {
			return fmt.Errorf("grep %q: %w", pattern, err)
		}
		o.Path = name
		if fs.Grep != nil {
			res, err = fs.Grep(ctx, pattern, &o)
		} else {
			res, err = grepFallback(ctx, fs, pattern, &o)
		}
		return err
	})
	res.Matches = orEmpty(res.Matches)
	return res, err
}

// Watch reports changes at and below path until the watcher is closed.
func (w *Workspace) Watch(ctx context.Context, path string, opts *WatchOptions) (watcher Watcher, err error) {
	err = w.callFS(ctx, verbWatch, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if fs.Watch == nil {
			return w.unsupported("watching files", w.current.Load())
		}
		opts := orZero(opts)
		if opts.Debounce < 0 {
			return fmt.Errorf("watch %q: debounce %v: %w: must not be negative", path, opts.Debounce, fault.InvalidArgument)
		}
		found, err := fs.Watch(ctx, name, opts)
		if err == nil {
			watcher = w.trackWatcher(ctx, found)
		}
		return err
	})
	return watcher, err
}

// Digest returns the digest of a file, or of a tree: its paths, types, modes,
// contents and symlinks.
func (w *Workspace) Digest(ctx context.Context, path string) (sum string, err error) {
	err = w.callFS(ctx, verbDigest, path, func(ctx context.Context, fs *driver.FS, name string) error {
		if fs.Digest != nil {
			sum, err = fs.Digest(ctx, name)
		} else {
			sum, err = digestFallback(ctx, fs, name)
		}
		return err
	})
	return sum, err
}

// ChangedPaths lists the paths where the workspace may differ from its template; all
// other paths are unchanged. Unsupported means that the caller must compare the whole
// tree.
func (w *Workspace) ChangedPaths(ctx context.Context) (list []driver.ChangedPath, err error) {
	err = w.callFS(ctx, verbChangedPaths, ".", func(ctx context.Context, fs *driver.FS, _ string) error {
		if fs.ChangedPaths == nil {
			return fmt.Errorf("changed paths: %w: the provider does not record them", fault.Unsupported)
		}
		list, err = fs.ChangedPaths(ctx)
		return err
	})
	return list, err
}

// GitDirs lists the private copies of Git directories that a workspace in place uses
// instead of the host's; see driver.GitDir.
func (w *Workspace) GitDirs(ctx context.Context) (list []driver.GitDir, err error) {
	err = w.callFS(ctx, verbGitDirs, ".", func(ctx context.Context, fs *driver.FS, _ string) error {
		if fs.GitDirs == nil {
			return nil
		}
		list, err = fs.GitDirs(ctx)
		return err
	})
	return list, err
}
