package files

import (
	"errors"
	"io/fs"
	"time"
)

// RemoveTree removes a path of the host and all below it. It changes modes of directories
// that prevent it, handles trees deeper than the limit of open files, and retries while
// another process adds entries. It follows no symlink. A path that does not exist is no
// error.
func RemoveTree(path string) error {
	const longest = 10 * time.Second
	for end := time.Now().Add(longest); ; time.Sleep(time.Millisecond) {
		err := forceRemove(path)
		if !errors.Is(err, fs.ErrExist) || time.Now().After(end) { // ENOTEMPTY is fs.ErrExist
			return err
		}
	}
}
