package files

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

// file brings in one regular file, with its mode and time.
func (m *importer) file(src, dst int, name, at string, buf []byte) error {
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
		m.skip(at, driver.ImportSpecial) // it was another one a moment ago
		return nil
	}
	if err := m.count(func(r *driver.ImportResult) { r.Files++ }, st.Size); err != nil {
		return err
	}
	to, mode := -1, m.mode(&st)
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
	err = m.content(from, to, &st, buf)
	if err == nil {
		// Who may not set times has the file all the same.
		_ = unix.UtimesNanoAt(to, "", []unix.Timespec{st.Mtim, st.Mtim}, unix.AT_EMPTY_PATH)
	}
	if cerr := unix.Close(to); err == nil {
		err = cerr
	}
	return err
}

// content brings in what a file holds: by sharing its blocks where the file
// system can, else by copying, without the holes of a sparse file.
func (m *importer) content(from, to int, st *unix.Stat_t, buf []byte) error {
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
		return m.sparse(from, to, st.Size, buf)
	}
	return copyRange(m.ctx, from, to, 0, -1, buf)
}

// sparse copies what of a file is data.
func (m *importer) sparse(from, to int, size int64, buf []byte) error {
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

// copyRange copies an open file from one offset to another, -1 being its end, to
// the same offsets of another file.
func copyRange(ctx context.Context, from, to int, off, end int64, buf []byte) error {
	const most = 16 << 20 // between two looks at the context
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
		if err == io.EOF || err == nil && n == 0 { //nolint:errorlint // as pread answers it
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
