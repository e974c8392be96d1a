// Package diskreserve keeps a file beside a database whose removal frees space on a
// full disk, and tells how much space is free.
//
// Deleting rows takes space before it frees any; on a full disk the reserve is
// removed first, and made again when there is space.
package diskreserve

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
)

// A Reserve is a disk reserve.
type Reserve struct {
	Path string
	Size int64
}

// Make writes the file if it does not exist. If the space does not suffice, no part
// of the file is left. The content is random: a compressing file system would
// allocate no space for zeros.
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
