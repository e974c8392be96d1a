//go:build !linux

package plot

import (
	"io/fs"
	"path/filepath"
)

// removePlain is not known here.
func removePlain(string) bool { return false }

// holdsLittle reports whether a directory holds few entries, and few bytes.
func holdsLittle(dir string) bool {
	entries, size := 0, int64(0)
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		entries, size = entries+1, size+info.Size()
		if entries > littleEntries || size > littleBytes {
			return fs.SkipAll
		}
		return nil
	})
	return err == nil && entries <= littleEntries && size <= littleBytes
}
