package snapshot

import "golang.org/x/sys/unix"

const errNoAttr = unix.ENODATA

// nextData returns where, from off on, a file has data: off itself where the file
// system does not tell holes, and size where there is none.
func nextData(fd int, off, size int64) int64 {
	at, err := unix.Seek(fd, off, unix.SEEK_DATA)
	switch {
	case err == unix.ENXIO:
		return size
	case err != nil:
		return off
	}
	return at
}
