package files

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

// importFile copies one regular file with its mode and modification time.
func (m *importer) importFile(src, dst int, name, at string, buf []byte) error {
	from, err := openFileAt(src, name)
	if err != nil {
		return err
	}
	defer closeFD(from)
	var st unix.Stat_t
	if err := unix.Fstat(from, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		m.recordSkip(at, driver.ImportSpecial) // it was replaced since the directory was listed
		return nil
	}
	if err := m.countEntry(func(r *driver.ImportResult) { r.Files++ }, st.Size); err != nil {
		return err
	}
	to, mode := -1, m.entryMode(&st)
	if err := m.opts.Make(func() (err error) {
		to, err = unix.Openat(dst, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if err == nil && mode&m.mask != 0 {
			err = unix.Fchmod(to, mode)
		}
		return err
	}); err != nil {
		if to >= 0 {
			closeFD(to)
		}
		return err
	}
	err = m.copyContent(from, to, &st, buf)
	if err == nil {
		// Setting the time is best effort.
		_ = unix.UtimesNanoAt(to, "", []unix.Timespec{st.Mtim, st.Mtim}, unix.AT_EMPTY_PATH)
	}
	if cerr := unix.Close(to); err == nil {
		err = cerr
	}
	return err
}

// copyContent clones the file (reflink) if the file system can, or else copies it without
// the holes of a sparse file.
func (m *importer) copyContent(from, to int, st *unix.Stat_t, buf []byte) error {
	if st.Size == 0 {
		return nil
	}
	if !m.noClone.Load() {
		if unix.IoctlFileClone(to, from) == nil {
			return nil
		}
		m.noClone.Store(true)
	}
	m.copied.Store(true)
	const sector = 512
	if st.Size > int64(len(buf)) && st.Blocks*sector < st.Size {
		return m.copySparse(from, to, st.Size, buf)
	}
	return copyRange(m.ctx, from, to, 0, -1, buf)
}

// copySparse copies the data ranges of a sparse file.
func (m *importer) copySparse(from, to int, size int64, buf []byte) error {
	for off := int64(0); off < size; {
		data, err := unix.Seek(from, off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return copyRange(m.ctx, from, to, off, -1, buf)
		}
		hole, err := unix.Seek(from, data, unix.SEEK_HOLE)
		if err != nil {
			hole = size
		}
		if err := copyRange(m.ctx, from, to, data, hole, buf); err != nil {
			return err
		}
		off = hole
	}
	return unix.Ftruncate(to, size)
}

// copyRange copies a range of an open file to the same offsets of another one. end -1 is
// the end of the file.
func copyRange(ctx context.Context, from, to int, off, end int64, buf []byte) error {
	const most = 16 << 20 // bytes between two checks of the context
	for end < 0 || off < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		want := int64(most)
		if end >= 0 {
			want = min(want, end-off)
		}
		r, w := off, off
		n, err := unix.CopyFileRange(from, &r, to, &w, int(want), 0)
		if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
			n, err = copyAt(from, to, off, buf[:min(want, int64(len(buf)))])
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == io.EOF || err == nil && n == 0 { //nolint:errorlint // pread returns it unwrapped
			return nil
		}
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

func copyAt(from, to int, off int64, buf []byte) (int, error) {
	n, err := pread(from, buf, off)
	if err != nil {
		return 0, err
	}
	return n, pwriteAll(to, buf[:n], off)
}
