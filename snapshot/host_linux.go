package snapshot

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/host/files"
)

// readEntries lists an open directory. What the file system says of an entry is enough
// to know a file.
func (d *hostDir) readEntries() (list []entryName, err error) {
	err = files.EachEntry(d.fd(), func(name []byte, typ byte) {
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

// writebackDelay is how long ago a change must be for it to be on the disk: the kernel
// leaves it in memory for half a minute or so.
const writebackDelay = 10 * time.Minute

// mayChangeUnseen reports whether an open file, last changed so long ago, may be changed
// without looking any different. Who has mapped it into memory, and wrote there,
// writes there again without a new time until the kernel has brought it to the
// disk, which for one that is only in memory is never. A lease for reading, which
// is let go at once, is to be had only of a file that nobody has open or mapped for
// writing. Where there are no leases, or on an overlay that does not pass them on,
// nothing is known.
func mayChangeUnseen(fd int, ago time.Duration) bool {
	if ago > writebackDelay {
		var fs unix.Statfs_t
		if unix.Fstatfs(fd, &fs) == nil && fs.Type != unix.TMPFS_MAGIC {
			return false
		}
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return err == unix.EAGAIN
	}
	unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK) //nolint:errcheck // closing the file lets go of it, too
	return false
}
