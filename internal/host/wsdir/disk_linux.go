package wsdir

import (
	"io/fs"
	"syscall"
)

// allocated returns the bytes that a file takes on disk.
func allocated(info fs.FileInfo) int64 {
	const block = 512 // of st_blocks, whatever the file system's are
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * block
	}
	return info.Size()
}
