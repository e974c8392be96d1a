package pool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/gofrs/flock"
)

// flockFiles are flock files, one per pooled workspace. The kernel releases the flock when
// the process ends.
type flockFiles struct{ dir string }

func (m flockFiles) makeDir() error {
	if m.dir == "" {
		return fmt.Errorf("pool: %w: Dir is required", fault.InvalidArgument)
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return fmt.Errorf("pool: create the pool directory: %w: %w", fault.Of(err), err)
	}
	return nil
}

// lockID takes the flock of a pooled workspace, until unmark is called.
func (m flockFiles) lockID(id string) (unmark func(), err error) {
	path := filepath.Join(m.dir, id)
	lock := flock.New(path)
	switch ok, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("pool: mark %s: %w: %w", id, fault.Of(err), err)
	case !ok:
		return nil, fmt.Errorf("pool: mark %s: %w: the workspace is in a pool already", id, fault.AlreadyExists)
	}
	// A sweep between creating and locking the file has removed it.
	if there, err := os.Stat(path); err != nil || !sameFile(lock, there) {
		_ = lock.Unlock() // the file is removed already
		return nil, fault.Transient(fmt.Errorf("pool: mark %s: %w: a sweep removed the file", id, fault.Conflict))
	}
	return func() {
		_ = os.Remove(path) // the next sweep removes what stays
		_ = lock.Unlock()
	}, nil
}

// liveIDs lists the ids whose process is alive, and removes the files of dead processes.
func (m flockFiles) liveIDs() ([]string, error) {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return nil, fmt.Errorf("pool: list the marks: %w: %w", fault.Of(err), err)
	}
	var ids []string
	for _, e := range entries {
		id := e.Name()
		if !driver.ValidID(id) {
			continue
		}
		path := filepath.Join(m.dir, id)
		lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
		ok, err := lock.TryLock()
		switch {
		case errors.Is(err, fs.ErrNotExist): // handed out meanwhile
		case err != nil || !ok: // assume alive unless known to be dead
			ids = append(ids, id)
		default:
			_ = os.Remove(path) // a later sweep tries again
			_ = lock.Unlock()
		}
	}
	return ids, nil
}

func sameFile(lock *flock.Flock, there fs.FileInfo) bool {
	mine, err := lock.Stat()
	return err == nil && os.SameFile(mine, there)
}
