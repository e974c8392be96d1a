package stage

import (
	"io/fs"
	"strconv"
	"syscall"
)

// appendInode appends what identifies a state of a file: its ctime, which programs
// can't set, its inode number and its device.
func appendInode(b []byte, fi fs.FileInfo) []byte {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return b
	}
	b = strconv.AppendInt(b, st.Ctim.Nano(), 10)
	b = strconv.AppendUint(append(b, ' '), st.Ino, 10)
	return strconv.AppendUint(append(b, ' '), uint64(st.Dev), 10)
}
