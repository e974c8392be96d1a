package snapshot

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/files"
)

// readEntries lists an open directory by getdents(2). d_type tells regular files
// without a stat.
func (d *hostDir) readEntries() (list []entryName, err error) {
	err = files.EachEntry(d.fd(), func(name []byte, typ byte) {
		list = append(list, entryName{string(name), typ == unix.DT_REG})
	})
	return list, err
}

const errNoAttr = unix.ENODATA

// nextData returns the offset of the next data at or after off, by SEEK_DATA: off
// itself if the file system does not report holes, and size if there is no more
// data.
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

// writeBack starts writeback of a part of a file by sync_file_range(2), so that a
// later fsync has less to do. It is a hint.
func writeBack(f *os.File, off, n int64) {
	unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE) //nolint:errcheck // Sync reports errors
}

// writebackDelay is a safe upper bound for the kernel's writeback of dirty pages,
// which takes about half a minute.
const writebackDelay = 10 * time.Minute

// mayChangeUnseen reports whether an open file, last changed that long ago, may
// change without a new ctime. A process that wrote through a shared mapping can
// write again without a timestamp update until the kernel has written the page
// back, which on tmpfs never happens. The test is a read lease (F_SETLEASE), which
// the kernel grants only if the file is not open or mapped for writing; it is
// released at once. Without lease support, as on some overlayfs mounts, the result
// is false.
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
	unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK) //nolint:errcheck // closing the file releases it, too
	return false
}
