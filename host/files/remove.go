package files

import (
	"errors"
	"io/fs"
	"time"
)

// RemoveTree removes what is at a path of the host, with all below it, also where
// modes of directories forbid it, where it is deeper than this process may have
// files open, and where a call that is under way in another process adds to it. It
// follows no symlink. What is gone already is no error.
func RemoveTree(path string) error {
	const longest = 10 * time.Second
	for end := time.Now().Add(longest); ; time.Sleep(time.Millisecond) {
		err := forceRemove(path)
		if !errors.Is(err, fs.ErrExist) || time.Now().After(end) { // which is what a directory says that is not empty
			return err
		}
	}
}
