// Package sparse copies files without their runs of zeros, which become holes, and stops before
// a copy fills the disk.
package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// blockSize is the size of the aligned blocks that become holes.
const blockSize = 64 << 10

var zeros [blockSize]byte

// maxReserve bounds the free space that a copy leaves on the disk, which is a twentieth of it.
const maxReserve = 64 << 20

// Copy copies src to dst, an empty file, and returns the number of bytes with those of holes. The
// size of a file does not say how much it takes: a copy with more data than the disk has room for
// ends with ENOSPC while there is room for other programs.
func Copy(dst *os.File, src io.Reader) (size int64, err error) {
	room, data := freeBytes(dst), int64(0)
	reserve := min(room/20, maxReserve)
	for buf := make([]byte, blockSize); ; {
		n, err := io.ReadFull(src, buf)
		if part := buf[:n]; !bytes.Equal(part, zeros[:n]) {
			if data += int64(n); room >= 0 && data > room-reserve {
				return size, fmt.Errorf("it has more data than there is room for (%d MiB): %w", room>>20, syscall.ENOSPC)
			}
			if _, err := dst.WriteAt(part, size); err != nil {
				return size, err
			}
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return size, dst.Truncate(size)
		}
		if err != nil {
			return size, err
		}
	}
}

// freeBytes returns the free space on the disk of a file, or -1 if it is not known.
func freeBytes(f *os.File) int64 {
	var st syscall.Statfs_t
	if syscall.Fstatfs(int(f.Fd()), &st) != nil || st.Blocks == 0 {
		return -1
	}
	return int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // the types differ between systems
}
