package files

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

// openFlags opens a FIFO without blocking, and a terminal without making it the controlling
// terminal.
const openFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

func (s system) read(t cleanName, o *driver.ReadOptions) (io.ReadCloser, driver.Info, error) {
	if t.mustBeDir {
		return nil, driver.Info{}, errIsDir
	}
	fd, err := s.open(t.name, openFlags)
	if err != nil {
		return nil, driver.Info{}, nonRegularError(err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = checkRegular(&st)
	}
	if err != nil {
		closeFD(fd)
		return nil, driver.Info{}, err
	}
	f := &rangeReader{fd: fd, off: o.Offset, left: -1}
	if o.Limit > 0 {
		f.left = o.Limit
	}
	return f, infoOf(t.name, &st), nil
}

// checkRegular returns an error for anything but a regular file.
func checkRegular(st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return errIsDir
	}
	return errNotRegular
}

// nonRegularError converts the errnos of opening a socket, a FIFO without a reader, or a
// device without a driver.
func nonRegularError(err error) error {
	switch {
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		return errNotRegular
	case errors.Is(err, unix.EISDIR):
		return errIsDir
	}
	return err
}

// A rangeReader reads a range of a regular file from a raw descriptor, with one pread(2)
// for each Read and without the netpoller of os.File.
type rangeReader struct {
	mu   sync.Mutex // Close must not race with Read: the descriptor number may be reused
	fd   int        // -1 when closed
	off  int64
	left int64 // -1 reads to the end
}

func (f *rangeReader) Read(buf []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.fd < 0:
		return 0, opError("read", "file", fs.ErrClosed)
	case len(buf) == 0:
		return 0, nil
	case f.left == 0:
		return 0, io.EOF
	case f.left > 0 && int64(len(buf)) > f.left:
		buf = buf[:f.left]
	}
	// The kernel refuses a range that ends after the largest offset.
	if room := math.MaxInt64 - f.off; int64(len(buf)) > room {
		buf = buf[:room]
	}
	if len(buf) == 0 {
		return 0, io.EOF
	}
	n, err := pread(f.fd, buf, f.off)
	if err != nil {
		return 0, opError("read", "file", err)
	}
	if n == 0 {
		return 0, io.EOF
	}
	f.off += int64(n)
	if f.left > 0 {
		f.left -= int64(n)
	}
	return n, nil
}

func pread(fd int, buf []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(fd, buf, off)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func (f *rangeReader) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 {
		return nil
	}
	err := unix.Close(f.fd)
	f.fd = -1
	return opError("close", "file", err)
}

// readDir lists a directory, with change tokens if requested.
func (s system) readDir(t cleanName, tokens bool) ([]driver.Info, error) {
	fd, err := s.open(t.name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	names, err := readNames(fd)
	if err != nil {
		return nil, err
	}
	infos := make([]driver.Info, 0, len(names))
	for _, base := range names {
		info, err := lstat(fd, base, joinName(t.name, base), tokens)
		if errors.Is(err, unix.ENOENT) { // removed since it was listed
			continue
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// lstat describes an entry of a directory without following it.
func lstat(fd int, base, name string, token bool) (driver.Info, error) {
	var st unix.Stat_t
	if _, err := retry(func() (int, error) { return 0, unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return driver.Info{}, err
	}
	info := infoOf(name, &st)
	if token {
		info.ChangeToken = changeToken(&st)
	}
	var err error
	if info.Type == driver.TypeSymlink {
		info.Target, err = readlink(fd, base)
	}
	return info, err
}

// readNames lists a directory, sorted, without temporary files.
func readNames(fd int) ([]string, error) {
	var names []string
	err := EachEntry(fd, func(name []byte, _ byte) {
		if !IsTemp(string(name)) {
			names = append(names, string(name))
		}
	})
	slices.Sort(names)
	return names, err
}

var dirBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// EachEntry calls f with the name and the type, as in a Dirent, of every entry of an open
// directory except "." and "..". The name is valid only during the call.
func EachEntry(fd int, f func(name []byte, typ byte)) error {
	buf := dirBuffers.Get().(*[]byte)
	defer dirBuffers.Put(buf)
	return eachEntry(fd, *buf, f)
}

// eachEntry is EachEntry with the caller's buffer for getdents.
func eachEntry(fd int, buf []byte, f func(name []byte, typ byte)) error {
	// A Dirent has room for the longest name: the last one must not reach beyond buf.
	room := buf[:len(buf)-int(unsafe.Sizeof(unix.Dirent{}))]
	for {
		n, err := unix.Getdents(fd, room)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			d := (*unix.Dirent)(unsafe.Pointer(&rest[0]))
			name := rest[unsafe.Offsetof(d.Name):d.Reclen]
			name = name[:cstringLen(name)]
			typ := d.Type
			rest = rest[d.Reclen:]
			if string(name) != "." && string(name) != ".." {
				f(name, typ)
			}
		}
	}
}

func cstringLen(b []byte) int {
	for i, c := range b {
		if c == 0 {
			return i
		}
	}
	return len(b)
}
