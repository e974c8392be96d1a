package wsdir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/host/files"
)

// A presence shows that a process holds the workspace, and so lets the next one
// tell whether a process died while it did: then temporary files of its writes
// may be in the tree, and only then is the tree walked to remove them.
//
// The file is locked, shared, by each handle. It has a byte in it while anyone
// holds the workspace; whoever finds it unlocked with that byte knows of a
// crash, and notes it in a second file, which goes when the tree was cleaned: not
// by one who may only read it.
type presence struct {
	path string
	lock *flock.Flock
}

// cleanTempsDelay returns how long after a crash all that it left can be told from the
// living: at once where temporary files are locked, and else by their age.
func cleanTempsDelay() time.Duration {
	if runtime.GOOS == "linux" {
		return 0
	}
	return 2 * time.Minute
}

// acquirePresence takes part in holding the workspace. Of a directory in place that is held
// for the first time nobody knows who died in it.
func acquirePresence(ctx context.Context, path string, root *files.Root, readOnly, inPlace bool) (*presence, error) {
	h := &presence{path: path, lock: flock.New(path)}
	_, err := os.Lstat(path)
	unknown := inPlace && errors.Is(err, fs.ErrNotExist)
	alone, err := h.lock.TryLock()
	if err == nil && alone {
		err = h.markDirty(unknown)
	}
	if err == nil {
		_, err = h.lock.TryRLockContext(ctx, time.Millisecond) // waits for one who is in first
	}
	if err == nil && !readOnly {
		err = h.cleanTemps(ctx, root)
	}
	if err != nil {
		return nil, errors.Join(err, h.lock.Close())
	}
	return h, nil
}

func (h *presence) suspectPath() string { return h.path + ".suspect" }

// markDirty notes a crash of those before, or that there may have been one.
func (h *presence) markDirty(unknown bool) error {
	data, err := os.ReadFile(h.path)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		if err := os.WriteFile(h.path, []byte("1"), 0o600); err != nil || !unknown {
			return err
		}
	}
	f, err := os.OpenFile(h.suspectPath(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// cleanTemps removes what a crash left, once that can be told.
func (h *presence) cleanTemps(ctx context.Context, root *files.Root) error {
	info, err := os.Stat(h.suspectPath())
	if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) < cleanTempsDelay() {
		return nil
	}
	if err != nil {
		return err
	}
	if err := root.CleanTemps(ctx); err != nil {
		return err
	}
	return os.Remove(h.suspectPath())
}

// release ends holding. The last one leaves the file empty.
func (h *presence) release() error {
	if err := h.lock.Close(); err != nil {
		return err
	}
	if _, err := os.Lstat(h.path); err != nil {
		return nil // destroyed meanwhile; locking would make it anew
	}
	last := flock.New(h.path)
	if ok, err := last.TryLock(); err != nil || !ok { // the workspace may be gone by now
		return last.Close() // others hold it, and one of them will be the last
	}
	err := os.Truncate(h.path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, last.Close())
}
