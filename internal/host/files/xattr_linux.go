package files

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// copyXattrs copies the extended attributes of one open file to another. It skips those
// that this process may not set, and file systems without extended attributes.
func copyXattrs(from, to int) error {
	pooled := bodyBuffers.Get().(*[]byte)
	defer bodyBuffers.Put(pooled)
	list := *pooled
	n, err := unix.Flistxattr(from, list)
	if errors.Is(err, unix.EOPNOTSUPP) || err == nil && n == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, attr := range bytes.Split(bytes.TrimSuffix(list[:n], []byte{0}), []byte{0}) {
		if err := copyXattr(from, to, string(attr)); err != nil {
			return err
		}
	}
	return nil
}

func copyXattr(from, to int, attr string) error {
	value := make([]byte, 64<<10) // XATTR_SIZE_MAX
	n, err := unix.Fgetxattr(from, attr, value)
	if err == nil {
		err = unix.Fsetxattr(to, attr, value[:n], 0)
	}
	for _, ok := range []error{unix.ENODATA, unix.EPERM, unix.EACCES, unix.EOPNOTSUPP} {
		if errors.Is(err, ok) {
			return nil
		}
	}
	return err
}

// xattrs returns the attributes user.PREFIX* by the rest of their names.
func (s system) xattrs(t cleanName, prefix string) (map[string]string, error) {
	path, done, err := s.openAttrs(t)
	if err != nil {
		return nil, err
	}
	defer done()
	names, err := listXattrs(path, prefix)
	if err != nil {
		return nil, err
	}
	attrs := map[string]string{}
	value := make([]byte, 64<<10) // XATTR_SIZE_MAX
	for _, name := range names {
		n, err := unix.Getxattr(path, name, value)
		if errors.Is(err, unix.ENODATA) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		attrs[strings.TrimPrefix(name, "user."+prefix)] = string(value[:n])
	}
	return attrs, nil
}

// setXattrs replaces the attributes user.PREFIX*.
func (s system) setXattrs(t cleanName, prefix string, attrs map[string]string) error {
	path, done, err := s.openAttrs(t)
	if err != nil {
		return err
	}
	defer done()
	names, err := listXattrs(path, prefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, stays := attrs[strings.TrimPrefix(name, "user."+prefix)]; stays {
			continue
		}
		if err := unix.Removexattr(path, name); err != nil && !errors.Is(err, unix.ENODATA) {
			return err
		}
	}
	for name, value := range attrs {
		if err := unix.Setxattr(path, "user."+prefix+name, []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}

// openAttrs opens a regular file or directory without reading it, and returns a path of its
// descriptor.
func (s system) openAttrs(t cleanName) (path string, done func(), err error) {
	fd, err := s.open(t.name, unix.O_PATH)
	if err != nil {
		return "", nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		closeFD(fd)
		return "", nil, err
	}
	if k := st.Mode & unix.S_IFMT; k != unix.S_IFREG && k != unix.S_IFDIR {
		closeFD(fd)
		return "", nil, errNotRegular
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { closeFD(fd) }, nil
}

// listXattrs lists the attributes user.PREFIX* by their whole names.
func listXattrs(path, prefix string) ([]string, error) {
	list := make([]byte, 64<<10) // XATTR_LIST_MAX
	n, err := unix.Listxattr(path, list)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range bytes.SplitSeq(bytes.TrimSuffix(list[:n], []byte{0}), []byte{0}) {
		if bytes.HasPrefix(name, []byte("user."+prefix)) {
			names = append(names, string(name))
		}
	}
	return names, nil
}

func pwriteAll(fd int, data []byte, off int64) error {
	for len(data) > 0 {
		n, err := unix.Pwrite(fd, data, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data, off = data[n:], off+int64(n)
	}
	return nil
}
