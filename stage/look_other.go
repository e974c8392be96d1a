//go:build !linux

package stage

import (
	"encoding/binary"
	"io/fs"
)

// appendLook appends how an entry looks.
func appendLook(buf []byte, at string, fi fs.FileInfo) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(at)))
	buf = append(buf, at...)
	buf = binary.AppendVarint(buf, fi.Size())
	buf = binary.AppendVarint(buf, fi.ModTime().UnixNano())
	return binary.AppendUvarint(buf, uint64(fi.Mode()))
}
