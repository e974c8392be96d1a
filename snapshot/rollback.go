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
	"github.com/croft-run/croft/workspace/driver"
)

// A Rollback is the journal of a rollback that writes file by file. It must be
// outside the reach of the workspace's processes.
type Rollback struct {
	path string
	file *os.File // locked
	to   rollbackRecord
}

// rollbackRecord is the content of the journal.
type rollbackRecord struct {
	Target string `json:"target"`
	Before string `json:"before"` // used if the target was deleted
}

// BeginRollback writes a journal and locks it; Conflict if another process holds
// it. A leftover journal is replaced: the caller has completed it.
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

// FindRollback returns the rollback of a process that died, locked; nil if there is
// no journal, or its process lives. An incomplete journal is removed and ignored:
// the first file is written only after the journal is on stable storage.
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

// Target is the snapshot that the rollback restores.
func (r *Rollback) Target() string { return r.to.Target }

// Tree is the final state of the files: the target or, if that was deleted, the
// state before.
func (r *Rollback) Tree(ctx context.Context, s *Store) (Tree, error) {
	t, _, err := s.Whole(ctx, r.to.Target)
	if fault.Of(err) == fault.NotFound {
		t, _, err = s.Whole(ctx, r.to.Before)
	}
	return t, err
}

// RollBackFiles rolls back the files of a module one by one, with a journal at path.
// After a crash CompleteRollback completes it. Once the journal is written, the end of
// ctx no longer interrupts it.
func RollBackFiles(ctx context.Context, path string, to *RollbackTarget, files *driver.FS) error {
	journal, err := BeginRollback(path, to)
	if err != nil {
		return err
	}
	driver.Step(ctx, "journal")
	if err := Write(context.WithoutCancel(ctx), to.Tree, files, &WriteOptions{Only: to.Paths}); err != nil {
		journal.Release()
		return err
	}
	driver.Step(ctx, "written")
	return journal.End()
}

// CompleteRollback completes the rollback of a process that died, and returns the
// snapshot that it restored; "" if there is no such rollback.
func CompleteRollback(ctx context.Context, path string, s *Store, files *driver.FS) (target string, err error) {
	journal, err := FindRollback(path)
	if err != nil || journal == nil {
		return "", err
	}
	if s == nil {
		err = fmt.Errorf("%w: there is no snapshot store", fault.Unsupported)
	}
	var tree Tree
	if err == nil {
		tree, err = journal.Tree(ctx, s)
	}
	if err == nil {
		err = Write(ctx, tree, files, nil)
	}
	if err != nil {
		journal.Release()
		return "", fmt.Errorf("complete an interrupted rollback to %s: %w", journal.Target(), err)
	}
	return journal.Target(), journal.End()
}

// Release unlocks the journal and keeps it: the next process completes the
// rollback.
func (r *Rollback) Release() {
	r.file.Close() // closing releases the flock in any case
}

// End removes the journal: the rollback is complete, or no file was written. It
// truncates the file first, for a process that has just opened it.
func (r *Rollback) End() error {
	defer r.Release()
	if err := errors.Join(r.file.Truncate(0), os.Remove(r.path)); err != nil {
		return fmt.Errorf("snapshot: end a rollback: %w: %w", fault.Of(err), err)
	}
	return nil
}
