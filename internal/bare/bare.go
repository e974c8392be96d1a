// Package bare opens, reads, writes and locks files by bare descriptors. Package os
// asks the poller of the runtime about each file that it opens, which takes five
// system calls and has no use for files and directories on a disk, which are always
// ready. It is for who opens many of them for a moment each.
package bare

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// open opens a path, for this process alone.
func open(path string, flags int, perm fs.FileMode) (int, error) {
	fd, err := Again(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, uint32(perm.Perm())) })
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// Again repeats a system call that a signal interrupted.
func Again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// Open is os.OpenFile for a file or directory that is on a disk.
func Open(path string, flags int, perm fs.FileMode) (*os.File, error) {
	fd, err := open(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ReadFile is os.ReadFile for a small file.
func ReadFile(path string) (data []byte, err error) {
	fd, err := open(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	data = make([]byte, 0, 2<<10)
	for {
		n, err := Again(func() (int, error) { return unix.Read(fd, data[len(data):cap(data)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) == cap(data) {
			data = slices.Grow(data, len(data))
		}
	}
}

// WriteFile is os.WriteFile.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	fd, err := open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, perm)
	if err != nil {
		return err
	}
	for len(data) > 0 && err == nil {
		var n int
		n, err = Again(func() (int, error) { return unix.Write(fd, data) })
		data = data[max(n, 0):]
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// Remove removes what is no directory; what is not there is fs.ErrNotExist, after one
// call and not two.
func Remove(path string) error {
	if _, err := Again(func() (int, error) { return 0, unix.Unlink(path) }); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// A Lock is a file that nobody else has locked.
type Lock struct{ fd int } // -1 once it was let go

// TakeLock locks the file at a path, which it makes with flags that hold os.O_CREATE,
// for this process alone. Waiting ends with the context.
func TakeLock(ctx context.Context, path string, flags int) (*Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fd, err := open(path, flags|unix.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Lock{fd}
	for {
		_, err := Again(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(&fs.PathError{Op: "flock", Path: path, Err: err}, unix.Close(fd))
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), unix.Close(fd))
		case <-time.After(time.Millisecond):
		}
	}
}

// Close lets go of the lock; doing so twice is doing so once. A process that was just
// started may have a copy of the descriptor for a moment, and does not keep the lock
// by that.
func (l *Lock) Close() error {
	fd := l.fd
	if l.fd = -1; fd < 0 {
		return nil
	}
	_, err := Again(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_UN) })
	return errors.Join(err, unix.Close(fd))
}
