package snapshot

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/posix/boundary"
)

// entries lists an open directory. What the file system says of an entry is enough
// to know a file.
func (d *hostDir) entries() (list []entryName, err error) {
	err = boundary.EachEntry(d.fd(), func(name []byte, typ byte) {
		list = append(list, entryName{string(name), typ == unix.DT_REG})
	})
	return list, err
}

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
