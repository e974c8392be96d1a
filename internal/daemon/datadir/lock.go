package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
)

// Lock takes the flock of the process that serves the data directory. The lock
// ends with the process.
func Lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, lockFile)
	l := flock.New(path, flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("app: lock data directory: %w", err)
	}
	if !ok {
		pid, _ := os.ReadFile(path) // only for the message
		return nil, fault.Advise(fmt.Errorf("app: data directory %s is served by process %s: %w", dir, cmp.Or(strings.TrimSpace(string(pid)), "(unknown)"), fault.AlreadyExists), "use that server, or another --data")
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		l.Unlock() //nolint:errcheck // the first error is returned
		return nil, fmt.Errorf("app: lock data directory: %w", err)
	}
	return func() { l.Unlock() }, nil //nolint:errcheck // it ends with the process, too
}

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
