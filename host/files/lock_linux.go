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

// lock makes the writers of one file take turns: those of this process always,
// and those of other processes where what is written depends on what is there.
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

// A fileKey is a file of a directory, there or not.
type fileKey struct {
	dev, ino uint64 // of the directory
	base     string
}

// writeLocks make the writers of one file in this process take turns.
var writeLocks keylock.Locks[fileKey]

func (p atPath) lock(ctx context.Context) (unlock func(), err error) {
	var st unix.Stat_t
	if err := unix.Fstat(p.dirfd, &st); err != nil {
		return nil, err
	}
	return writeLocks.Lock(ctx, fileKey{st.Dev, st.Ino, p.base})
}

// flockTimeout is how long a writer waits for the lock of a directory. Croft holds
// it for a moment only, but whoever can open the directory can lock it.
const flockTimeout = 10 * time.Second

// flockDir locks the directory of the place against all who do the same, in this
// process and in others. The lock is the kernel's: it ends with the process, and
// leaves nothing in the directory. A directory that may not be read, and a file
// system without locks, have none.
func (p atPath) flockDir(ctx context.Context) (release func(), err error) {
	// A descriptor of its own, since those who share one share its lock.
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

// waitFlock waits for the lock by asking again and again, so that waiting ends
// with the context.
func waitFlock(ctx context.Context, fd int) error {
	const first, longest = 50 * time.Microsecond, 5 * time.Millisecond
	end := time.Now().Add(flockTimeout)
	for wait := first; ; wait = min(2*wait, longest) {
		_, err := retry(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil // also where there are no locks
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
