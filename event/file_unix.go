//go:build linux || darwin || freebsd || netbsd || openbsd

package event

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// openFlags keep a link or a pipe from being taken for the file.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// tryLock takes the right to rotate a file. It does not wait: a process that was
// stopped while it had it must not stop this one too.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, os.NewSyscallError("flock", err)
		}
	}
}

func unlock(f *os.File) {
	syscall.Flock(int(f.Fd()), syscall.LOCK_UN) //nolint:errcheck // closing the file unlocks it too
}

func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
