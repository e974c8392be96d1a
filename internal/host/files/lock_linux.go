package files

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/keylock"
)

// lock serialises the writers of one file: within this process by a keyed mutex and, with
// IfMatch, also across processes by a flock on the directory.
func (w *fileWriter) lock(ctx context.Context) (unlock func(), err error) {
	if w.opts.IfMatch == "" {
		return w.dest.lock(ctx)
	}
	release, err := w.dest.flockDir(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := w.dest.lock(ctx)
	if err != nil {
		release()
		return nil, err
	}
	return func() { leave(); release() }, nil
}

// A fileKey identifies a file by its directory and name; the file need not exist.
type fileKey struct {
	dev, ino uint64 // of the directory
	base     string
}

// writeLocks is the keyed mutex of the files that this process writes.
var writeLocks keylock.Locks[fileKey]

func (p atPath) lock(ctx context.Context) (unlock func(), err error) {
	var st unix.Stat_t
	if err := unix.Fstat(p.dirfd, &st); err != nil {
		return nil, err
	}
	return writeLocks.Lock(ctx, fileKey{st.Dev, st.Ino, p.base})
}

// flockTimeout is how long a writer waits for the flock of a directory. Croft holds it for
// a moment only, but any process that can open the directory can lock it.
const flockTimeout = 10 * time.Second

// flockDir takes an exclusive flock on the directory. The kernel releases it when the
// process ends, and it leaves no file. If the directory is not readable, or the file system
// has no locks, there is no lock.
func (p atPath) flockDir(ctx context.Context) (release func(), err error) {
	// A new descriptor, because a flock belongs to the open file description.
	fd, err := retry(func() (int, error) {
		return unix.Openat(p.dirfd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, unix.EACCES) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := waitFlock(ctx, fd); err != nil {
		closeFD(fd)
		return nil, err
	}
	return func() { closeFD(fd) }, nil
}

// waitFlock polls for the flock with a backoff, so that waiting ends with the context.
func waitFlock(ctx context.Context, fd int) error {
	const first, longest = 50 * time.Microsecond, 5 * time.Millisecond
	end := time.Now().Add(flockTimeout)
	for wait := first; ; wait = min(2*wait, longest) {
		_, err := retry(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil // nil, or a file system without locks
		}
		if time.Now().After(end) {
			return fault.Transient(fmt.Errorf("%w: another process keeps the directory locked", fault.Unavailable))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}
