package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Way is the journal of a rollback that writes one file after another, where
// they can't be put in place at once: it says where the way leads, and is locked
// while someone is on it. It lies where nothing inside the workspace reaches it.
// Whoever finds one without an owner goes the rest of it before anything else.
type Way struct {
	path string
	lock *os.File
	to   way
}

// way is what the journal says.
type way struct {
	Target string `json:"target"`
	Before string `json:"before"` // where the target is gone
}

// BeginWay writes a journal and locks it; Conflict where somebody else is on the
// way. One that was left is replaced: who is here has completed it.
func BeginWay(path string, to *Return) (*Way, error) {
	w := &Way{path: path, to: way{Target: to.Target, Before: to.Before}}
	data, err := json.Marshal(w.to)
	if err != nil {
		return nil, fmt.Errorf("snapshot: begin a rollback: %w: %w", fault.Internal, err)
	}
	if w.lock, err = os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600); err == nil {
		err = w.write(data)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: begin a rollback: %w: %w", fault.Of(err), err)
	}
	return w, nil
}

func (w *Way) write(data []byte) error {
	err := unix.Flock(int(w.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w: another rollback is under way", fault.Conflict)
	}
	if err == nil {
		_, err = w.lock.Write(data)
	}
	if err == nil {
		err = w.lock.Sync()
	}
	if err == nil {
		err = os.Rename(w.path+".new", w.path)
	}
	if err != nil {
		w.Leave()
	}
	return err
}

// FindWay returns a way that a process which died was on, and locks it; nil where
// there is none, or its owner lives.
func FindWay(path string) (*Way, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: complete a rollback: %w: %w", fault.Of(err), err)
	}
	w := &Way{path: path, lock: f}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		w.Leave()
		return nil, nil //nolint:nilerr // its owner lives
	}
	data, err := io.ReadAll(f)
	if err == nil {
		err = driver.DecodeStrict(data, &w.to)
	}
	if err != nil {
		w.Leave()
		return nil, fmt.Errorf("snapshot: complete a rollback: its journal is not valid: %w", fault.Failed)
	}
	return w, nil
}

// Goal is the snapshot that the way leads to.
func (w *Way) Goal() string { return w.to.Target }

// Tree is what there is to be at the end: the goal or, where that is gone, what
// was there before.
func (w *Way) Tree(ctx context.Context, s *Store) (Tree, error) {
	t, _, err := s.Whole(ctx, w.to.Target)
	if fault.Of(err) == fault.NotFound {
		t, _, err = s.Whole(ctx, w.to.Before)
	}
	return t, err
}

// Leave gives the way up to who comes next.
func (w *Way) Leave() {
	w.lock.Close() // the lock ends with the descriptor, whatever it answers
}

// End is the end of the way, or says that it was not begun.
func (w *Way) End() error {
	defer w.Leave()
	if err := os.Remove(w.path); err != nil {
		return fmt.Errorf("snapshot: end a rollback: %w: %w", fault.Of(err), err)
	}
	return nil
}
