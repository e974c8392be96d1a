//go:build !linux

package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var writeLock sync.Mutex // serialises the writers of this process

func (s system) write(ctx context.Context, name string, body io.Reader, o *driver.WriteOptions) (driver.WriteResult, error) {
	var res driver.WriteResult
	if dir, _ := splitName(name); o.Parents && dir != "." {
		if err := s.root.MkdirAll(dir, 0o755); err != nil {
			return res, osRootError(err)
		}
	}
	at, err := s.resolveDest(name, !o.CreateOnly)
	if err != nil {
		return res, err
	}
	dir, _ := splitName(at)
	temp := joinName(dir, tempName())
	f, err := s.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return res, osRootError(err)
	}
	defer s.root.Remove(temp) //nolint:errcheck // renamed already on success
	defer f.Close()           // installTemp syncs and closes it on success
	h := driver.NewDigest()
	src := withContext(ctx, body)
	if o.MaxSize > 0 {
		src = io.LimitReader(src, o.MaxSize+1)
	}
	n, err := io.Copy(io.MultiWriter(f, h), src)
	if err != nil {
		return res, osRootError(err)
	}
	if o.MaxSize > 0 && n > o.MaxSize {
		return res, fmt.Errorf("%w: the content is larger than the limit of %d bytes", fault.ResourceExhausted, o.MaxSize)
	}
	res.Digest = driver.SumDigest(h)
	if o.IfMatch != "" {
		release, err := s.flockDir(ctx, dir)
		if err != nil {
			return res, osRootError(err)
		}
		defer release()
	}
	writeLock.Lock()
	defer writeLock.Unlock()
	old, err := s.checkTarget(ctx, at, o)
	if err != nil {
		return res, err
	}
	res.Created = old == nil
	if err := s.commit.run(func() error { return s.installTemp(f, temp, at, old, o) }); err != nil {
		return res, osRootError(err)
	}
	if old != nil && !o.InPlace {
		res.BrokeLinks = linkCount(old) > 1
	}
	fi, err := s.root.Lstat(at)
	if err != nil {
		return res, osRootError(err)
	}
	res.Info, err = s.infoOf(name, fi)
	return res, err
}

// resolveDest follows the symlinks at the end of name.
func (s system) resolveDest(name string, follow bool) (string, error) {
	at := name
	for range 40 {
		fi, err := s.root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return at, nil
		}
		if err != nil {
			return "", osRootError(err)
		}
		if fi.Mode()&fs.ModeSymlink == 0 || !follow {
			return at, nil
		}
		dest, err := s.root.Readlink(at)
		if err != nil {
			return "", osRootError(err)
		}
		dir, _ := splitName(at)
		if path.IsAbs(dest) || climbsOut([]string{dir, dest}) {
			return "", errLeaves
		}
		at = path.Join(dir, dest)
	}
	return "", syscall.ELOOP
}

// checkTarget checks the existing file and returns nil if it is missing.
func (s system) checkTarget(ctx context.Context, at string, o *driver.WriteOptions) (fs.FileInfo, error) {
	fi, err := s.root.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.IfMatch != "":
		return nil, fmt.Errorf("%w: there is no such file", fault.Conflict)
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, osRootError(err)
	case o.CreateOnly:
		return nil, errExists
	}
	if err := regularInfo(fi); err != nil || o.IfMatch == "" {
		return fi, err
	}
	info, err := s.stat(ctx, cleanName{name: at}, &driver.StatOptions{Digest: true})
	if err == nil && info.Digest != o.IfMatch {
		err = errConflict
	}
	return fi, err
}

// flockDir takes an exclusive flock on a directory.
func (s system) flockDir(ctx context.Context, dir string) (release func(), err error) {
	f, err := s.root.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	for syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return func() { f.Close() }, nil
}

// installTemp renames the temporary file to its name.
func (s system) installTemp(f *os.File, temp, at string, old fs.FileInfo, o *driver.WriteOptions) error {
	mode := o.Mode
	if mode == 0 {
		mode = 0o644
	}
	if old != nil && !o.SetMode {
		mode = chmodBits(old.Mode())
	}
	if old != nil && o.InPlace {
		return s.overwriteContent(f, at, mode, o)
	}
	if err := f.Chmod(goMode(mode)); err != nil {
		return err
	}
	if o.Sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	if !o.ModTime.IsZero() {
		if err := s.root.Chtimes(temp, o.ModTime, o.ModTime); err != nil {
			return err
		}
	}
	if o.CreateOnly {
		return s.root.Link(temp, at) // a link never replaces
	}
	if err := s.root.Rename(temp, at); err != nil || !o.Sync {
		return err
	}
	return s.syncDir(at)
}

// overwriteContent copies the temporary file into the existing file.
func (s system) overwriteContent(f *os.File, at string, mode fs.FileMode, o *driver.WriteOptions) error {
	dst, err := s.root.OpenFile(at, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer dst.Close() // closed below on success
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(dst, f)
	if err == nil {
		err = dst.Truncate(n)
	}
	if err == nil && o.SetMode {
		err = dst.Chmod(goMode(mode))
	}
	if err == nil && o.Sync {
		err = dst.Sync()
	}
	if err == nil {
		err = dst.Close()
	}
	if err == nil && !o.ModTime.IsZero() {
		err = s.root.Chtimes(at, o.ModTime, o.ModTime)
	}
	return err
}

// linkCount returns the number of hard links of a file, or 1 if unknown.
func linkCount(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// forceRemove removes a path of the host and all below it.
func forceRemove(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	// WalkDir calls the function for a directory before it reads it.
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = root.Chmod(name, 0o700)
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(path))
}
