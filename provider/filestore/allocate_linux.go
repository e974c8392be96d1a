package filestore

import (
	"errors"
	"os"
	"syscall"
)

// allocate takes space for a file without writing it, where the file system can.
func allocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return fill(f, size)
	}
	return err
}

// fill takes space by writing: zeros that are written take some, unlike a size
// that is only set.
func fill(f *os.File, size int64) error {
	_, err := f.Write(make([]byte, size))
	return err
}
