package workspacetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

const tempPrefix = ".dirs-tmp-"

// dirFiles are the files of a workspace of dirs.
type dirFiles struct {
	p    *dirs
	meta dirMeta
	dir  string
}

// classify gives an error its code.
func (f *dirFiles) classify(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	if f.p.defects.rawErrors {
		return errors.New(err.Error())
	}
	code := fault.Of(err)
	if strings.Contains(err.Error(), "escapes from parent") {
		code = fault.SandboxViolation
	}
	return fmt.Errorf("dirs: %s %s: %w: %w", verb, name, code, err)
}

func (f *dirFiles) open() (*os.Root, error) {
	root, err := os.OpenRoot(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dirs: %w", fault.Evicted)
	}
	return root, err
}

// change runs a change under the lock, unless the workspace is read-only.
func (f *dirFiles) change(ctx context.Context, verb, name string, call func(*os.Root) error) error {
	root, err := f.open()
	if err != nil {
		return f.classify(verb, name, err)
	}
	defer root.Close()
	guard.Lock()
	defer guard.Unlock()
	meta, err := f.p.meta(f.meta.ID)
	if err != nil {
		return fmt.Errorf("dirs: %s: %w", verb, fault.Evicted)
	}
	if meta.Policy.ReadOnly && !f.p.defects.ignoresReadOnly {
		return fmt.Errorf("dirs: %s %s: %w: the workspace is read-only", verb, name, fault.PermissionDenied)
	}
	if err := ctx.Err(); err != nil && !f.p.defects.ignoresCancel {
		return err
	}
	return f.classify(verb, name, call(root))
}

func info(root *os.Root, name string, fi fs.FileInfo) driver.Info {
	i := driver.Info{Path: name, Size: fi.Size(), Mode: fi.Mode().Perm(), ModTime: fi.ModTime(), Type: driver.TypeOther}
	switch {
	case fi.Mode().IsRegular():
		i.Type = driver.TypeFile
	case fi.IsDir():
		i.Type, i.Size = driver.TypeDir, 0
	case fi.Mode()&fs.ModeSymlink != 0:
		i.Type = driver.TypeSymlink
		i.Target, _ = root.Readlink(name)
	}
	return i
}

func (f *dirFiles) Stat(_ context.Context, name string, opts *driver.StatOptions) (driver.Info, error) {
	root, err := f.open()
	if err != nil {
		return driver.Info{}, f.classify("stat", name, err)
	}
	defer root.Close()
	stat := root.Stat
	if opts.NoFollow {
		stat = root.Lstat
	}
	fi, err := stat(name)
	if err != nil {
		return driver.Info{}, f.classify("stat", name, err)
	}
	i := info(root, name, fi)
	if opts.Digest && i.Type == driver.TypeFile {
		data, err := root.ReadFile(name)
		if err != nil {
			return i, f.classify("stat", name, err)
		}
		i.Digest = driver.DigestBytes(data)
	}
	return i, nil
}

func (f *dirFiles) ReadDir(_ context.Context, name string) ([]driver.Info, error) {
	root, err := f.open()
	if err != nil {
		return nil, f.classify("read", name, err)
	}
	defer root.Close()
	dir, err := root.Open(name)
	if err != nil {
		return nil, f.classify("read directory", name, err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, f.classify("read directory", name, err)
	}
	var infos []driver.Info
	for _, entry := range entries {
		fi, err := entry.Info()
		if err != nil || strings.HasPrefix(entry.Name(), tempPrefix) {
			continue
		}
		infos = append(infos, info(root, path.Join(name, entry.Name()), fi))
	}
	slices.SortFunc(infos, func(a, b driver.Info) int { return strings.Compare(a.Path, b.Path) })
	return infos, nil
}

func (f *dirFiles) Read(_ context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	root, err := f.open()
	if err != nil {
		return nil, driver.Info{}, f.classify("read", name, err)
	}
	defer root.Close()
	file, err := root.Open(name)
	if err != nil {
		return nil, driver.Info{}, f.classify("read", name, err)
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%w: it is no file", fault.InvalidArgument)
	}
	if err == nil {
		_, err = file.Seek(opts.Offset, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, driver.Info{}, f.classify("read", name, err)
	}
	body := struct {
		io.Reader
		io.Closer
	}{file, file}
	if opts.Limit > 0 {
		body.Reader = io.LimitReader(file, opts.Limit)
	}
	return body, info(root, name, fi), nil
}

// body reads a body to its end, at most to the limit.
func (f *dirFiles) body(ctx context.Context, body io.Reader, opts *driver.WriteOptions) ([]byte, error) {
	if opts.MaxSize > 0 {
		body = io.LimitReader(body, opts.MaxSize+1)
	}
	data, err := io.ReadAll(body)
	switch {
	case err != nil:
		return data, err
	case opts.MaxSize > 0 && int64(len(data)) > opts.MaxSize:
		return nil, fmt.Errorf("dirs: write: %w: more than %d bytes", fault.ResourceExhausted, opts.MaxSize)
	case f.p.defects.ignoresCancel:
		return data, nil
	}
	return data, ctx.Err()
}

// target follows the last symlinks of name.
func target(root *os.Root, name string) (string, error) {
	for range 40 {
		to, err := root.Readlink(name)
		if err != nil {
			return name, nil
		}
		if name, err = inside(to, name); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("too many symlinks: %w", fault.InvalidArgument)
}

// inside returns where a symlink at name points to.
func inside(to, name string) (string, error) {
	p := path.Join(path.Dir(name), to)
	if path.IsAbs(to) || p == ".." || strings.HasPrefix(p, "../") {
		return "", fmt.Errorf("the symlink leaves the workspace: %w", fault.SandboxViolation)
	}
	return p, nil
}

func (f *dirFiles) Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error) {
	data, err := f.body(ctx, body, opts)
	if err != nil && !f.p.defects.keepsPartial {
		return driver.WriteResult{}, f.classify("write", name, err)
	}
	if f.p.defects.losesUpdates && opts.IfMatch != "" {
		if i, err := f.Stat(ctx, name, &driver.StatOptions{Digest: true}); err != nil || i.Digest != opts.IfMatch {
			return driver.WriteResult{}, fmt.Errorf("dirs: write: %w", fault.Conflict)
		}
		time.Sleep(100 * time.Microsecond)
		o := *opts
		o.IfMatch = ""
		opts = &o
	}
	if f.p.defects.acksEarly && opts.Parents {
		o := *opts
		o.Parents = false
		go func() { // the process dies before anybody could wait for it
			time.Sleep(50 * time.Millisecond)
			f.Mkdir(ctx, path.Dir(name), &driver.MkdirOptions{Parents: true})
			f.Write(ctx, name, bytes.NewReader(data), &o)
		}()
		return driver.WriteResult{Digest: driver.DigestBytes(data)}, nil
	}
	res := driver.WriteResult{Digest: driver.DigestBytes(data)}
	err = errors.Join(err, f.change(ctx, "write", name, func(root *os.Root) error {
		at, err := name, error(nil)
		if !opts.CreateOnly {
			at, err = target(root, name)
		}
		if err != nil {
			return err
		}
		if opts.Parents {
			if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
				return err
			}
		}
		if err := f.put(root, at, data, opts, &res); err != nil {
			return err
		}
		fi, err := root.Lstat(at)
		if err == nil {
			res.Info = info(root, name, fi)
		}
		return err
	}))
	return res, err
}

func (f *dirFiles) put(root *os.Root, name string, data []byte, opts *driver.WriteOptions, res *driver.WriteResult) error {
	mode := opts.Mode
	if mode == 0 {
		mode = 0o644
	}
	old, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && opts.IfMatch != "":
		return fault.Conflict
	case errors.Is(err, fs.ErrNotExist):
		res.Created = true
	case err != nil:
		return err
	case opts.CreateOnly:
		return fault.AlreadyExists
	case old.IsDir():
		return fmt.Errorf("%w: it is a directory", fault.InvalidArgument)
	case !opts.SetMode:
		mode = old.Mode().Perm()
	}
	if opts.IfMatch != "" {
		now, err := root.ReadFile(name)
		if err != nil || driver.DigestBytes(now) != opts.IfMatch {
			return errors.Join(fault.Conflict, err)
		}
	}
	tmp := path.Join(path.Dir(name), tempPrefix+driver.NewID())
	if opts.InPlace || f.p.defects.tornWrites {
		tmp = name
	}
	if f.p.defects.tornWrites {
		if err := root.WriteFile(tmp, data[:len(data)/2], 0o600); err != nil {
			return err
		}
		runtime.Gosched()
	}
	if err := root.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	if err := root.Chmod(tmp, mode); err != nil {
		return err
	}
	if !opts.ModTime.IsZero() {
		if err := root.Chtimes(tmp, opts.ModTime, opts.ModTime); err != nil {
			return err
		}
	}
	if tmp == name {
		return nil
	}
	return root.Rename(tmp, name)
}

func (f *dirFiles) Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error {
	return f.change(ctx, "mkdir", name, func(root *os.Root) error {
		mode := opts.Mode
		if mode == 0 {
			mode = 0o755
		}
		if opts.Parents {
			if err := root.MkdirAll(name, 0o755); err != nil {
				return err
			}
			return nil
		}
		if err := root.Mkdir(name, 0o755); err != nil {
			return err
		}
		return root.Chmod(name, mode)
	})
}

func (f *dirFiles) Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error {
	return f.change(ctx, "remove", name, func(root *os.Root) error {
		if name == "." {
			return fault.InvalidArgument
		}
		if _, err := root.Lstat(name); err != nil {
			return err
		}
		if opts.Recursive {
			return root.RemoveAll(name)
		}
		return root.Remove(name)
	})
}

func (f *dirFiles) rename(ctx context.Context, from, to string, opts *driver.RenameOptions) error {
	return f.change(ctx, "rename", from, func(root *os.Root) error {
		fi, err := root.Lstat(from)
		if err != nil {
			return err
		}
		if strings.HasPrefix(to, from+"/") {
			return fmt.Errorf("%w: into itself", fault.InvalidArgument)
		}
		if opts.CreateOnly {
			if _, err := root.Lstat(to); err == nil {
				return fault.AlreadyExists
			}
		}
		if opts.Parents {
			if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
				return err
			}
		}
		if was, err := root.Lstat(to); err == nil && was.IsDir() && fi.IsDir() {
			if err := root.Remove(to); err != nil { // os.Rename does not, unlike rename(2)
				return err
			}
		}
		return root.Rename(from, to)
	})
}

func (f *dirFiles) chmod(ctx context.Context, name string, mode fs.FileMode) error {
	return f.change(ctx, "chmod", name, func(root *os.Root) error { return root.Chmod(name, mode) })
}

func (f *dirFiles) symlink(ctx context.Context, to, name string) error {
	return f.change(ctx, "symlink", name, func(root *os.Root) error {
		if _, err := inside(to, name); err != nil && !f.p.defects.escapes {
			return err
		}
		return root.Symlink(to, name)
	})
}
