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

// marks are files, one for each warm workspace, that its keeper holds locked.
// The lock ends with the process, whatever ends that.
type marks struct{ dir string }

func (m marks) prepare() error {
	if m.dir == "" {
		return fmt.Errorf("pool: %w: a directory for the marks is required", fault.InvalidArgument)
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return fmt.Errorf("pool: make the directory of marks: %w: %w", fault.Of(err), err)
	}
	return nil
}

// mark says that a workspace is warm, until the function it returns is called.
func (m marks) mark(id string) (unmark func(), err error) {
	path := filepath.Join(m.dir, id)
	lock := flock.New(path)
	switch ok, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("pool: mark %s: %w: %w", id, fault.Of(err), err)
	case !ok:
		return nil, fmt.Errorf("pool: mark %s: %w: it is marked", id, fault.AlreadyExists)
	}
	// A sweep that came between making the file and locking it has removed it.
	if there, err := os.Stat(path); err != nil || !sameFile(lock, there) {
		_ = lock.Unlock() // nobody sees it
		return nil, fault.Transient(fmt.Errorf("pool: mark %s: %w: it was swept", id, fault.Conflict))
	}
	return func() {
		_ = os.Remove(path) // what stays is removed by the next sweep
		_ = lock.Unlock()
	}, nil
}

// held lists the ids whose keepers live, and removes the marks of the others.
func (m marks) held() ([]string, error) {
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
		case err != nil || !ok: // not known to be dead is alive
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
