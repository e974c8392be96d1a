package boundary

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// spares is what a root does for its next write before that is asked for, and for
// the last one after it was answered: a file is made ahead, and the one that was
// replaced is let go. Each takes a file system longer than all else about a small
// write, and no caller has to wait for either.
//
// The file has no name until a write gives it one. So nobody sees it, and nothing
// is left of it where the process dies.
type spares struct {
	as func(step func() error) error // Options.Ahead

	busy sync.WaitGroup // of what runs beside calls

	mu      sync.Mutex
	fd      int         // +checklocks:mu; -1 is none
	dir     dirKey      // +checklocks:mu; where it was made
	running bool        // +checklocks:mu
	off     bool        // +checklocks:mu; none can be made, or the root is closed
	idle    *time.Timer // +checklocks:mu; until it is let go; nil before the first
}

// spareFor is how long a file that was made ahead waits to be used.
const spareFor = 2 * time.Second

// newSpares returns the spares of a root; nil, which has none, where as is nil.
func newSpares(as func(step func() error) error) *spares {
	if as == nil {
		return nil
	}
	return &spares{as: as, fd: -1}
}

// A dirKey is what of a directory decides how new files in it are.
type dirKey struct {
	dev, ino  uint64
	mode      uint32
	uid, gid  uint32
	inherited bool // files get a list of who may use them from it
}

func dirKeyOf(fd int) (dirKey, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return dirKey{}, err
	}
	_, err := unix.Fgetxattr(fd, "system.posix_acl_default", nil)
	return dirKey{st.Dev, st.Ino, st.Mode, st.Uid, st.Gid, err == nil}, nil
}

// take returns a file without a name for a write in a directory, locked as
// temporary files are; -1 where there is none.
func (s *spares) take(dir int) int {
	if s == nil {
		return -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return -1
	}
	if key, err := dirKeyOf(dir); err != nil || key != s.dir {
		return -1
	}
	fd := s.fd
	s.fd = -1
	return fd
}

// follow does what is left after a write: it lets go of what was replaced and makes
// a file for the next write in that directory. dir is the caller's.
func (s *spares) follow(dir, replaced int) {
	if own, ok := s.begin(dir); ok {
		go func() {
			defer s.busy.Done()
			defer closeFD(own)
			closeFD(replaced)
			s.refill(own)
		}()
		return
	}
	closeFD(replaced)
}

// begin lets one at a time run beside calls, with a descriptor of its own.
func (s *spares) begin(dir int) (own int, ok bool) {
	if s == nil {
		return -1, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || s.off {
		return -1, false
	}
	own, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, false
	}
	s.running = true
	s.busy.Add(1)
	return own, true
}

// refill makes a file in a directory, unless there is one that was made there.
func (s *spares) refill(dir int) {
	fd, key, err := s.make(dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	if s.off && fd >= 0 {
		closeFD(fd)
		return
	}
	if err != nil {
		s.off = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) // a file system, or a kernel, without such files
		return
	}
	s.dropLocked()
	s.fd, s.dir = fd, key
	if s.idle == nil {
		s.idle = time.AfterFunc(spareFor, s.drop)
	} else {
		s.idle.Reset(spareFor)
	}
}

// make makes a file without a name, and locks it.
func (s *spares) make(dir int) (fd int, key dirKey, err error) {
	fd = -1
	if key, err = dirKeyOf(dir); err != nil {
		return fd, key, err
	}
	err = s.as(func() error {
		fd, err = retry(func() (int, error) {
			return unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		})
		return err
	})
	if err == nil {
		// Who cleans up knows by this that it is in use, once it has a name.
		_, _ = retry(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_EX) })
	}
	return fd, key, err
}

func (s *spares) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked()
}

// +checklocks:s.mu
func (s *spares) dropLocked() {
	if s.fd >= 0 {
		closeFD(s.fd)
		s.fd = -1
	}
}

// disable has no more files made ahead.
func (s *spares) disable() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = true
	s.dropLocked()
	if s.idle != nil {
		s.idle.Stop()
	}
}

// close lets go of what there is, and waits for what runs.
func (s *spares) close() {
	if s == nil {
		return
	}
	s.disable()
	s.busy.Wait()
}
