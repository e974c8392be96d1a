//go:build !linux

package stage

import (
	"encoding/binary"
	"io/fs"
	"os"
)

// below looks at what is in a directory, whose slash path in the tree is rel.
func (l *looker) below(dir, rel string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		fi, err := e.Info()
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		at := rel + e.Name()
		l.info(at, fi)
		l.each(at, fi.Mode())
		if e.IsDir() {
			if err := l.below(dir+"/"+e.Name(), at+"/"); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendLook appends how an entry looks.
func appendLook(buf []byte, at string, fi fs.FileInfo) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(at)))
	buf = append(buf, at...)
	buf = binary.AppendVarint(buf, fi.Size())
	buf = binary.AppendVarint(buf, fi.ModTime().UnixNano())
	return binary.AppendUvarint(buf, uint64(fi.Mode()))
}
