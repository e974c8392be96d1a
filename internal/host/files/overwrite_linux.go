package files

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// overwrite copies the temporary file into the existing inode. It reserves the space first,
// so that a full disk fails before the file changes.
func (w *fileWriter) overwrite(ctx context.Context) error {
	unlock, err := w.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := w.openOld()
	if err != nil {
		return err
	}
	if old < 0 && w.old.Mode == 0 {
		return w.installTemp(-1)
	}
	if old >= 0 {
		closeFD(old)
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(w.dest.dirfd, w.dest.base, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nonRegularError(err)
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Ino != w.old.Ino || st.Dev != w.old.Dev {
		return fmt.Errorf("%w: the file was replaced", fault.Conflict)
	}
	if w.size > 0 {
		err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, w.size)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	return w.commit.run(func() error { return w.overwriteContent(context.WithoutCancel(ctx), fd) })
}

// overwriteContent copies the temporary file into an open file. It ignores cancellation,
// which would leave the file half written.
func (w *fileWriter) overwriteContent(ctx context.Context, fd int) error {
	buf := bodyBuffers.Get().(*[]byte)
	defer bodyBuffers.Put(buf)
	if err := copyRange(ctx, w.fd, fd, 0, w.size, *buf); err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, w.size); err != nil {
		return err
	}
	if w.opts.SetMode || w.old.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		if err := unix.Fchmod(fd, w.newMode(&w.old)); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := setTime(fd, w.opts.ModTime, &st); err != nil {
		return err
	}
	w.res.Info = infoOf("", &st)
	if w.opts.Sync {
		return fsync(fd)
	}
	return nil
}
