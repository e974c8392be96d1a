// Package locktmp makes temporary directories with an flock, so that Sweep can remove
// those of crashed processes. The kernel releases the flock when the process that made
// the directory ends.
package locktmp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// locks are the flocks of this process's directories, by path.
var locks sync.Map

// unlockedPrefix begins the name of a directory that is not locked yet.
const unlockedPrefix = ".new-"

// Make makes a directory whose name begins with prefix.
func Make(prefix string) (string, error) {
	made, err := os.MkdirTemp("", unlockedPrefix+prefix)
	if err != nil {
		return "", err
	}
	lock, err := tryLock(made)
	if err == nil && lock == nil {
		err = fmt.Errorf("lock %s: another process holds the lock", made)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(made))
	}
	dir := filepath.Join(filepath.Dir(made), strings.TrimPrefix(filepath.Base(made), unlockedPrefix))
	if err := os.Rename(made, dir); err != nil {
		return "", errors.Join(err, os.Remove(made), lock.Close())
	}
	locks.Store(dir, lock)
	return dir, nil
}

// Remove removes a directory that Make has made, with all that is in it.
func Remove(dir string) error {
	err := os.RemoveAll(dir)
	if lock, ok := locks.LoadAndDelete(dir); ok {
		err = errors.Join(err, lock.(*flock.Flock).Close())
	}
	return err
}

// tryLock takes the flock of a directory. It returns nil if another process holds it.
func tryLock(dir string) (*flock.Flock, error) {
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	ok, err := lock.TryLock()
	if err != nil || !ok {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// lockGrace is how long a new directory may be unlocked.
const lockGrace = time.Minute

// Sweep removes the directories with a prefix whose flock is free. Directories that can't
// be removed, such as those of other users, stay.
func Sweep(prefix string) {
	at := os.TempDir()
	entries, err := os.ReadDir(at)
	if err != nil {
		return // no directory was made here, either
	}
	for _, e := range entries {
		name, isFresh := strings.CutPrefix(e.Name(), unlockedPrefix)
		if !e.IsDir() || !strings.HasPrefix(name, prefix) || isFresh && !isStale(e) {
			continue
		}
		dir := filepath.Join(at, e.Name())
		if _, ours := locks.Load(dir); ours {
			continue
		}
		lock, err := tryLock(dir)
		if err != nil || lock == nil {
			continue
		}
		os.RemoveAll(dir)
		lock.Close() //nolint:errcheck // the lock ends with the descriptor, whatever it answers
	}
}

func isStale(e os.DirEntry) bool {
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) > lockGrace
}
