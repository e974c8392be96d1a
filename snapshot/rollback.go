package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
)

// A Rollback is the journal of a rollback that writes one file after another. It
// lies where nothing inside the workspace reaches it.
type Rollback struct {
	path string
	file *os.File // locked
	to   rollbackRecord
}

// rollbackRecord is what the journal says.
type rollbackRecord struct {
	Target string `json:"target"`
	Before string `json:"before"` // in place of the target where that is gone
}

// BeginRollback writes a journal and locks it; Conflict where another process
// holds it. One that was left is replaced: the caller has completed it.
func BeginRollback(path string, to *RollbackTarget) (*Rollback, error) {
	r := &Rollback{path: path, to: rollbackRecord{Target: to.Target, Before: to.Before}}
	data, err := encodeJournal(r.to)
	if err != nil {
		return nil, err
	}
	r.file, err = lockFileAt(unix.AT_FDCWD, path, unix.O_CREAT)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("snapshot: begin a rollback: %w: another rollback is under way", fault.Conflict)
	}
	if err == nil {
		if err = r.write(data); err != nil {
			r.Release()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: begin a rollback: %w: %w", fault.Of(err), err)
	}
	return r, nil
}

func (r *Rollback) write(data []byte) error {
	err := r.file.Truncate(0)
	if err == nil {
		_, err = r.file.WriteAt(data, 0)
	}
	if err == nil {
		err = r.file.Sync()
	}
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(r.path))
	}
	return err
}

// FindRollback returns the rollback of a process that died, and locks it; nil where
// there is none, or its process lives. A journal that is not whole is none: the
// first file is written after the journal is on stable storage.
func FindRollback(path string) (*Rollback, error) {
	f, err := lockFileAt(unix.AT_FDCWD, path, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: complete a rollback: %w: %w", fault.Of(err), err)
	}
	r := &Rollback{path: path, file: f}
	data, err := io.ReadAll(f)
	if err != nil {
		r.Release()
		return nil, fmt.Errorf("snapshot: complete a rollback: %w: %w", fault.Of(err), err)
	}
	if decodeJournal(data, &r.to) != nil {
		return nil, r.End()
	}
	return r, nil
}

// Target is the snapshot that the rollback brings back.
func (r *Rollback) Target() string { return r.to.Target }

// Tree is what the files are in the end: the target or, where that was deleted,
// what was there before.
func (r *Rollback) Tree(ctx context.Context, s *Store) (Tree, error) {
	t, _, err := s.Whole(ctx, r.to.Target)
	if fault.Of(err) == fault.NotFound {
		t, _, err = s.Whole(ctx, r.to.Before)
	}
	return t, err
}

// Release unlocks the journal and leaves it: the next process completes the
// rollback.
func (r *Rollback) Release() {
	r.file.Close() // the lock ends with the descriptor, whatever it answers
}

// End removes the journal: the rollback is complete, or no file was written. It is
// emptied first, for a process that has just opened it.
func (r *Rollback) End() error {
	defer r.Release()
	if err := errors.Join(r.file.Truncate(0), os.Remove(r.path)); err != nil {
		return fmt.Errorf("snapshot: end a rollback: %w: %w", fault.Of(err), err)
	}
	return nil
}
