package plot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// syncPath brings a file or directory to stable storage.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// syncTree brings all files and directories of a tree to stable storage.
func syncTree(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir() && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a FIFO
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// RemoveTree removes a directory with all below it, also where modes forbid it,
// and where a call that is under way in another process adds to it.
func RemoveTree(dir string) error {
	const attempts = 20
	err := os.RemoveAll(dir)
	for range attempts {
		if !errors.Is(err, fs.ErrExist) { // which is what a directory says that is not empty
			break
		}
		err = os.RemoveAll(dir)
	}
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	openDirs(root, ".")
	return os.RemoveAll(dir)
}

// openDirs makes the directories of a tree writable, so that it can be removed.
// What goes wrong shows when it is.
func openDirs(root *os.Root, dir string) {
	const usable = 0o700
	if root.Chmod(dir, usable) != nil {
		return
	}
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			openDirs(root, filepath.Join(dir, e.Name()))
		}
	}
}
