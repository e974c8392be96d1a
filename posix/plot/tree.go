package plot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// rename is os.Rename without its look at what is there, which takes a call: a
// directory that is not empty is never replaced.
func rename(from, to string) error {
	for {
		err := syscall.Rename(from, to)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
		return nil
	}
}

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

// removeEmpty removes the directory of a workspace in which nothing was written,
// and reports whether it did: that takes a third of the calls. Nobody but Croft
// can put another directory, or a symlink, in the place of those on the way to
// what is removed.
func (g *Ground) removeEmpty(dir string) bool {
	files := filepath.Join(dir, FilesName)
	entries, err := os.ReadDir(files)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !e.IsDir() || syscall.Rmdir(filepath.Join(files, e.Name())) != nil {
			return false
		}
	}
	if syscall.Rmdir(files) != nil || syscall.Unlink(filepath.Join(dir, g.metaName)) != nil {
		return false
	}
	return syscall.Rmdir(dir) == nil
}
