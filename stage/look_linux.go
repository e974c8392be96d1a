package stage

import (
	"encoding/binary"
	"io/fs"
	"syscall"
)

// appendLook appends how an entry looks. The time of the last change of an inode
// can't be set by the one who changes it.
func appendLook(buf []byte, at string, fi fs.FileInfo) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(at)))
	buf = append(buf, at...)
	buf = binary.AppendVarint(buf, fi.Size())
	buf = binary.AppendVarint(buf, fi.ModTime().UnixNano())
	buf = binary.AppendUvarint(buf, uint64(fi.Mode()))
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		buf = binary.AppendVarint(buf, st.Ctim.Nano())
		buf = binary.AppendUvarint(buf, st.Ino)
		buf = binary.AppendUvarint(buf, st.Dev)
	}
	return buf
}
