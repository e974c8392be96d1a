package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func (s system) write(ctx context.Context, name string, body io.Reader, o *driver.WriteOptions) (driver.WriteResult, error) {
	if o.Parents {
		if err := s.mkdirParents(name, o.Sync); err != nil {
			return driver.WriteResult{}, err
		}
	}
	w := fileWriter{opts: o, commit: s.commit, fd: -1}
	var err error
	if w.dest, err = s.resolveDest(name, &w.old, !o.CreateOnly); err != nil {
		return driver.WriteResult{}, err
	}
	defer w.dest.close()
	if err := w.checkTarget(); err != nil {
		return driver.WriteResult{}, err
	}
	if err := w.spoolBody(ctx, body); err != nil {
		return driver.WriteResult{}, err
	}
	defer w.discard()
	if o.InPlace {
		err = w.overwrite(ctx)
	} else {
		err = w.replaceFile(ctx)
	}
	if err != nil {
		return driver.WriteResult{}, err
	}
	w.res.Info.Path = name
	return w.res, nil
}

// resolveDest returns the directory and name that a write to name replaces, after the
// symlinks at the end of name, each resolved by the kernel from the root. was is the stat
// data of the existing entry, with mode 0 if there is no such entry.
func (s system) resolveDest(name string, was *unix.Stat_t, follow bool) (atPath, error) {
	at := name
	for range maxLinks {
		p, err := s.openParent(at)
		if err != nil {
			return atPath{}, err
		}
		if err = s.mayReplace(p); err == nil {
			err = unix.Fstatat(p.dirfd, p.base, was, unix.AT_SYMLINK_NOFOLLOW)
		}
		if errors.Is(err, unix.ENOENT) {
			*was, err = unix.Stat_t{}, nil
		}
		if err == nil && (was.Mode&unix.S_IFMT != unix.S_IFLNK || !follow) {
			return p, nil
		}
		var dest string
		if err == nil {
			dest, err = readlink(p.dirfd, p.base)
		}
		p.close()
		if err != nil {
			return atPath{}, err
		}
		if at, err = symlinkPath(at, dest); err != nil {
			return atPath{}, err
		}
	}
	return atPath{}, unix.ELOOP
}

// mayReplace refuses a mount point if KeepMounts is set. There is no TOCTOU race: all
// mounts are made before this root is handed out, and the kernel refuses to rename a mount
// point in its own namespace.
func (s system) mayReplace(p atPath) error {
	if !s.keepMounts {
		return nil
	}
	var st unix.Statx_t
	err := unix.Statx(p.dirfd, p.base, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
	switch {
	case err != nil:
		return err
	case st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return fmt.Errorf("%w: this kernel does not report mount points (statx)", fault.Unsupported)
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return errMountPoint
	}
	return nil
}

// symlinkPath returns the path that a symlink at name leads to. It is not cleaned, because
// only the kernel can resolve ".." after another symlink.
func symlinkPath(name, dest string) (string, error) {
	dir, _ := splitName(name)
	at := joinName(dir, dest)
	switch base := path.Base(dest); {
	case path.IsAbs(dest):
		return "", errLeaves
	case base == "." || base == "..", dest[len(dest)-1] == '/':
		if climbsOut([]string{dir, dest}) {
			return "", errLeaves
		}
		return "", errIsDir
	case len(at) > maxName:
		return "", fmt.Errorf("%w: the path behind the symlink is too long", fault.InvalidArgument)
	}
	return at, nil
}

// A fileWriter replaces one file. The new content is in a temporary file beside it before
// any visible change.
type fileWriter struct {
	opts   *driver.WriteOptions
	commit commitFunc
	dest   atPath
	old    unix.Stat_t // the existing file; a hint until the lock is held
	temp   string      // name of the temporary file, or ""
	fd     int         // of the temporary file, or -1
	size   int64
	res    driver.WriteResult
}

// checkTarget checks the existing file. It is called before the body is read, and again
// under the lock.
func (w *fileWriter) checkTarget() error {
	switch kind := w.old.Mode & unix.S_IFMT; {
	case kind == 0:
		if w.opts.IfMatch != "" {
			return fmt.Errorf("%w: there is no such file", fault.Conflict)
		}
		return nil
	case w.opts.CreateOnly:
		return errExists
	}
	return checkRegular(&w.old)
}

var bodyBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// spoolBody reads the body into a temporary file, which it removes on an error.
func (w *fileWriter) spoolBody(ctx context.Context, body io.Reader) (err error) {
	if err := w.makeTemp(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.discard()
		}
	}()
	buf := bodyBuffers.Get().(*[]byte)
	defer bodyBuffers.Put(buf)
	h := driver.NewDigest()
	for hole := false; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, errBody := body.Read(*buf)
		if data := (*buf)[:n]; n > 0 {
			w.size += int64(n)
			if err := w.checkSize(w.size); err != nil {
				return err
			}
			h.Write(data)
			if hole = isZero(data); hole { // leave a hole in the file
				_, err = unix.Seek(w.fd, int64(n), io.SeekCurrent)
			} else {
				err = writeAll(w.fd, data)
			}
			if err != nil {
				return err
			}
		}
		if errors.Is(errBody, io.EOF) {
			w.res.Digest = driver.SumDigest(h)
			if hole {
				return unix.Ftruncate(w.fd, w.size)
			}
			return nil
		}
		if errBody != nil {
			return bodyError(errBody)
		}
	}
}

// isZero reports whether data is a page or more of zeros.
func isZero(data []byte) bool {
	const page = 4096
	return len(data) >= page && data[0] == 0 && bytes.Equal(data[:len(data)-1], data[1:])
}

func (w *fileWriter) checkSize(size int64) error {
	if w.opts.MaxSize > 0 && size > w.opts.MaxSize {
		return fmt.Errorf("%w: the content is larger than the limit of %d bytes", fault.ResourceExhausted, w.opts.MaxSize)
	}
	return nil
}

// bodyError keeps the code of an error of the caller's reader.
func bodyError(err error) error { return fmt.Errorf("read the body: %w", err) }

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// newMode returns the mode of the new file. It clears set-user-id and set-group-id, as the
// kernel does when an ordinary user writes to a file, so that new content does not run with
// the rights of the old one.
func (w *fileWriter) newMode(was *unix.Stat_t) uint32 {
	if was.Mode != 0 && !w.opts.SetMode {
		return was.Mode & 0o1777
	}
	if w.opts.Mode == 0 {
		return 0o644
	}
	return uint32(w.opts.Mode)
}

// replaceFile renames the temporary file over the existing file, under the lock.
func (w *fileWriter) replaceFile(ctx context.Context) error {
	unlock, err := w.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := w.openOld()
	if err != nil {
		return err
	}
	if old >= 0 {
		defer closeFD(old)
	}
	return w.installTemp(old)
}

// installTemp gives the temporary file the metadata of the existing file, and renames it.
func (w *fileWriter) installTemp(old int) error {
	if err := w.copyMetadata(old); err != nil {
		return err
	}
	if w.opts.Sync {
		if err := fsync(w.fd); err != nil {
			return err
		}
	}
	if err := w.commit.run(w.rename); err != nil {
		return err
	}
	w.temp = ""
	if w.opts.Sync {
		return w.dest.sync()
	}
	return nil
}

// openOld opens the existing file, or returns -1 if it is missing or not readable, and
// checks it by that descriptor.
func (w *fileWriter) openOld() (int, error) {
	w.old = unix.Stat_t{}
	fd, err := retry(func() (int, error) {
		return unix.Openat(w.dest.dirfd, w.dest.base, openFlags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	switch {
	case err == nil:
		err = unix.Fstat(fd, &w.old)
	case errors.Is(err, unix.ENOENT):
		fd, err = -1, nil
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("%w: the file was replaced by a symlink", fault.Conflict)
	case errors.Is(err, unix.EACCES) && w.opts.IfMatch == "":
		fd, err = -1, unix.Fstatat(w.dest.dirfd, w.dest.base, &w.old, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = w.checkTarget()
	}
	if err == nil && w.opts.IfMatch != "" {
		err = checkDigest(fd, w.opts.IfMatch)
	}
	if err != nil && fd >= 0 {
		closeFD(fd)
		fd = -1
	}
	w.res.Created = w.old.Mode == 0
	w.res.BrokeLinks = w.old.Nlink > 1 && !w.opts.InPlace
	return fd, nonRegularError(err)
}

// checkDigest compares the content of an open file with a digest.
func checkDigest(fd int, digest string) error {
	got, err := driver.DigestReader(&rangeReader{fd: fd, left: -1})
	if err == nil && got != digest {
		err = errConflict
	}
	return err
}

// copyMetadata sets owner, extended attributes, mode and modification time of the temporary
// file.
func (w *fileWriter) copyMetadata(old int) error {
	var st unix.Stat_t
	if err := unix.Fstat(w.fd, &st); err != nil {
		return err
	}
	if w.old.Mode != 0 && (st.Uid != w.old.Uid || st.Gid != w.old.Gid) {
		// Only a privileged process may change the owner; another one keeps the group if it
		// is a member.
		if unix.Fchown(w.fd, int(w.old.Uid), int(w.old.Gid)) != nil {
			_ = unix.Fchown(w.fd, -1, int(w.old.Gid))
		}
		st.Mode = 0 // a change of owner may clear bits
	}
	if old >= 0 {
		if err := copyXattrs(old, w.fd); err != nil {
			return err
		}
	}
	if mode := w.newMode(&w.old); st.Mode&0o7777 != mode {
		if err := unix.Fchmod(w.fd, mode); err != nil {
			return err
		}
		st.Mode = mode
	}
	if err := setTime(w.fd, w.opts.ModTime, &st); err != nil {
		return err
	}
	st.Mode = unix.S_IFREG | st.Mode&0o7777
	w.res.Info = infoOf("", &st)
	w.res.Info.Size = w.size
	return nil
}

// setTime sets the modification time, unless it is zero, and stores the time as rounded by
// the file system in st.
func setTime(fd int, t time.Time, st *unix.Stat_t) error {
	if t.IsZero() {
		return nil
	}
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return fmt.Errorf("%w: the time is out of range", fault.InvalidArgument)
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, ts}
	err = unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.8
		err = unix.UtimesNanoAt(unix.AT_FDCWD, procPath(fd), times, 0)
	}
	var now unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &now)
	}
	st.Mtim = now.Mtim
	return err
}

// rename moves the temporary file to its name.
func (w *fileWriter) rename() error {
	p := w.dest
	if !w.opts.CreateOnly {
		_, err := retry(func() (int, error) { return 0, unix.Renameat(p.dirfd, w.temp, p.dirfd, p.base) })
		return err
	}
	_, err := retry(func() (int, error) {
		return 0, unix.Renameat2(p.dirfd, w.temp, p.dirfd, p.base, unix.RENAME_NOREPLACE)
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// A file system without RENAME_NOREPLACE: linkat never replaces, either.
		if err = unix.Linkat(p.dirfd, w.temp, p.dirfd, p.base, 0); err == nil {
			err = unix.Unlinkat(p.dirfd, w.temp, 0)
		}
	}
	return err
}
