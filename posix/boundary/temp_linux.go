package boundary

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// ahead reports whether a write is one for which a file is made ahead: what an
// agent does again and again, and not one of many in as many directories.
func (w *writer) ahead() bool {
	return w.spares != nil && w.opts.IfMatch != "" && !w.opts.InPlace && !w.opts.Sync
}

// makeTemp makes the temporary file and locks it, so that CleanTemps of another
// process knows that it is in use. One that was made ahead has no name yet.
func (w *writer) makeTemp() error {
	if w.ahead() {
		if file, ok := w.spares.take(w.place.fd); ok {
			w.fd, w.look = file.fd, file.look
			return nil
		}
	}
	return w.makeNamed()
}

// nameTemp gives the temporary file a name, if it has none.
func (w *writer) nameTemp() error {
	if w.temp != "" {
		return nil
	}
	for range tempTries {
		name := tempName()
		err := unix.Linkat(unix.AT_FDCWD, procPath(w.fd), w.place.fd, name, unix.AT_SYMLINK_FOLLOW)
		if err == nil {
			w.temp = name
			return nil
		}
		if !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	// There may be no /proc, or a file system that knows better: a file that is made
	// in its place takes the content over.
	w.spares.disable()
	nameless := spare{w.fd, w.look}
	defer nameless.close()
	w.fd, w.look = -1, -1
	if err := w.makeNamed(); err != nil {
		return err
	}
	return copyContent(nameless.fd, w.fd, w.size)
}

// copyContent writes so many bytes of one open file to another.
func copyContent(from, to int, size int64) error {
	pooled := bodyBuffers.Get().(*[]byte)
	defer bodyBuffers.Put(pooled)
	for off := int64(0); off < size; {
		n, err := pread(from, *pooled, off)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%w: the temporary file shrank", fault.Internal)
		}
		if err := pwriteAll(to, (*pooled)[:n], off); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

const tempTries = 100

// makeNamed is makeTemp for a file that has its name at once.
func (w *writer) makeNamed() error {
	for range tempTries {
		w.temp = tempName()
		fd, err := retry(func() (int, error) {
			return unix.Openat(w.place.fd, w.temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, w.newMode(&w.was)&0o777)
		})
		if err == nil {
			if lockTemp(fd) {
				w.fd = fd
				return nil
			}
			closeFD(fd)
			continue // it was taken for one that a crash left, before it was locked
		}
		w.temp = ""
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return fmt.Errorf("%w: no name is free for a temporary file", fault.Unavailable)
}

// lockTemp locks a new temporary file and reports whether it is still there. On
// a file system without locks nobody removes it, either.
func lockTemp(fd int) bool {
	_, _ = retry(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_EX) }) // a cleaner holds it for a moment only
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || st.Nlink > 0
}

// discard lets go of the temporary file, and removes it unless it has become
// the file.
func (w *writer) discard() {
	if w.fd >= 0 {
		closeFD(w.fd)
		w.fd = -1
	}
	if w.look >= 0 {
		closeFD(w.look)
		w.look = -1
	}
	if w.temp != "" {
		_ = unix.Unlinkat(w.place.fd, w.temp, 0) // CleanTemps gets what stays
		w.temp = ""
	}
}
