package files

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

const tempTries = 100

// makeTemp creates the temporary file and flocks it, so that CleanTemps of another process
// sees that it is in use.
func (w *fileWriter) makeTemp() error {
	for range tempTries {
		w.temp = tempName()
		fd, err := retry(func() (int, error) {
			return unix.Openat(w.dest.dirfd, w.temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, w.newMode(&w.old)&0o777)
		})
		if err == nil {
			if lockTemp(fd) {
				w.fd = fd
				return nil
			}
			closeFD(fd)
			continue // CleanTemps removed it before it was locked
		}
		w.temp = ""
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return fmt.Errorf("%w: no free name for a temporary file", fault.Unavailable)
}

// lockTemp flocks a new temporary file and reports whether it still exists. On a file
// system without locks CleanTemps does not remove it.
func lockTemp(fd int) bool {
	_, _ = retry(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_EX) }) // CleanTemps holds it for a moment only
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || st.Nlink > 0
}

// discard closes the temporary file, and removes it unless it was renamed.
func (w *fileWriter) discard() {
	if w.fd >= 0 {
		closeFD(w.fd)
		w.fd = -1
	}
	if w.temp != "" {
		_ = unix.Unlinkat(w.dest.dirfd, w.temp, 0) // CleanTemps removes it after a failure
		w.temp = ""
	}
}
