package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/internal/daemon/config"
)

// Exists reports whether a croft has made dir its data directory.
func Exists(dir string) bool {
	_, err := checkOwned("version of the data directory", filepath.Join(dir, VersionFile), 0)
	return err == nil
}

// Remove removes what is in a data directory, and the directory itself unless it has a
// croft.yaml, which the user wrote. It fails while a server uses the directory.
func Remove(dir string) error {
	unlock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	kept := false
	for _, e := range entries {
		if e.Name() == config.FileName {
			kept = true
			continue
		}
		// The version is last, so that a removal that fails can be tried again.
		if e.Name() != VersionFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, VersionFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if kept {
		return nil
	}
	return os.Remove(dir)
}
