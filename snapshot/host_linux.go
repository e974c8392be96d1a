package snapshot

import (
	"os"

	"golang.org/x/sys/unix"
)

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

// writeBack begins to bring a part of a file to the disk, so that there is less to
// wait for when it is synced. It is a hint.
func writeBack(f *os.File, off, n int64) {
	unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE) //nolint:errcheck // Sync tells
}
