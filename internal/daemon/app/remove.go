package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/provider/docker"
)

// IsDataDir reports whether a croft has made dir its data directory.
func IsDataDir(dir string) bool {
	_, err := checkOwned("version of the data directory", filepath.Join(dir, versionFile), 0)
	return err == nil
}

// RemoveData removes what is in a data directory, and the directory itself unless it has a
// croft.yaml, which the user wrote. It fails while a server uses the directory.
func RemoveData(dir string) error {
	unlock, err := lockDataDir(dir)
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
		if e.Name() != versionFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, versionFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if kept {
		return nil
	}
	return os.Remove(dir)
}

// MadeImages lists the images of the container engine that Croft made.
func (s *System) MadeImages(ctx context.Context) ([]Image, error) {
	all, err := s.Images(ctx)
	var list []Image
	for _, img := range all {
		if img.Labels[docker.LabelSource] != "" {
			list = append(list, img)
		}
	}
	return list, err
}
