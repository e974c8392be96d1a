package wsdir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/internal/host/files"
)

// presence detects a crashed process. Each handle holds a shared flock on the file
// "in-use", which contains a byte while any handle is open. An unlocked file with that byte
// means that a process crashed: "in-use.suspect" is created, the tree is walked once to
// remove leftover temporary files, and "in-use.suspect" is removed. A handle that may only
// read leaves "in-use.suspect" for the next one.
type presence struct {
	path string
	lock *flock.Flock

	crashed bool // the byte was there already
}

// cleanTempsDelay returns how long after a crash leftover temporary files can be
// distinguished from those in use: at once on Linux, where temporary files in use are
// locked, and otherwise by their age.
func cleanTempsDelay() time.Duration {
	if runtime.GOOS == "linux" {
		return 0
	}
	return 2 * time.Minute
}

// acquirePresence takes the shared flock and handles the traces of a crash. The first use
// of a directory in place counts as a suspected crash, because an earlier workspace may
// have left temporary files in it.
func acquirePresence(ctx context.Context, path string, root *files.Root, readOnly, inPlace bool) (*presence, error) {
	h := &presence{path: path, lock: flock.New(path)}
	_, err := os.Lstat(path)
	unknown := inPlace && errors.Is(err, fs.ErrNotExist)
	alone, err := h.lock.TryLock()
	if err == nil && alone {
		err = h.markDirty(unknown)
	}
	if err == nil {
		_, err = h.lock.TryRLockContext(ctx, time.Millisecond) // waits while another process is in markDirty
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

// markDirty writes the byte. It creates the suspect file if the byte was there already, or
// if unknown is set. The exclusive flock is held.
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
	h.crashed = len(data) > 0
	f, err := os.OpenFile(h.suspectPath(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// cleanTemps removes the temporary files that a crash left, after cleanTempsDelay.
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

// release gives the flock up. The last handle truncates the file.
func (h *presence) release() error {
	if err := h.lock.Close(); err != nil {
		return err
	}
	if _, err := os.Lstat(h.path); err != nil {
		return nil // destroyed meanwhile; locking would create it again
	}
	last := flock.New(h.path)
	if ok, err := last.TryLock(); err != nil || !ok { // the workspace may be gone by now
		return last.Close() // another handle is open, and truncates the file later
	}
	err := os.Truncate(h.path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, last.Close())
}
