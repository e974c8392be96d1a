package stage

import (
	"fmt"
	"io/fs"
	"syscall"
)

// inode tells one state of a file from another: the time of its last change, which
// can't be set, and its number.
func inode(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(st.Ctim.Nano(), " ", st.Ino, " ", st.Dev)
}
