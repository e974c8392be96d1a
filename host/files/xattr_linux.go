package files

import (
	"bytes"
	"errors"

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
