// Package diskreserve keeps a file that holds nothing beside a database. Removing
// rows takes space before it gives any back; on a full disk the reserve is removed
// first, and made again when there is space.
package diskreserve

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
)

// A Reserve is such a file.
type Reserve struct {
	Path string
	Size int64
}

// Make writes the file where it does not exist. Where there is no space for all of
// it, none is left. The content is random: a file system that compresses would
// give zeros no space.
func (r Reserve) Make() error {
	f, err := os.OpenFile(r.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, r.Size)
	if err = errors.Join(err, f.Close()); err != nil {
		r.Release()
	}
	return err
}

// Release removes the file, and reports whether it existed.
func (r Reserve) Release() bool { return os.Remove(r.Path) == nil }
