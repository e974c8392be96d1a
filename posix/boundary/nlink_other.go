//go:build !linux

package boundary

import (
	"io/fs"
	"syscall"
)

func nlink(fi fs.FileInfo) (uint64, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(st.Nlink), true
}
