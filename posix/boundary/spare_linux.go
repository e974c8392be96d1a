package boundary

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// spares is what a root does for its next writes before they are asked for, and for
// the last ones after they were answered: files are made ahead, and those that were
// replaced are let go. Each takes a file system longer than all else about a small
// write, and no caller has to wait for either.
//
// The files have no name until a write gives them one. So nobody sees them, and
// nothing is left of them where the process dies.
type spares struct {
	as   func(step func() error) error // Options.Ahead
	keep time.Duration                 // how long files that were made ahead wait to be used

	busy sync.WaitGroup // of what runs beside calls, or is about to

	mu    sync.Mutex
	files []spare     // +checklocks:mu
	dir   dirKey      // +checklocks:mu; where they were made
	want  int         // +checklocks:mu; how many there should be; 0 before the first
	left  []remainder // +checklocks:mu
	own   int         // +checklocks:mu; the directory of the next ones; -1 while nothing runs or is about to
	work  *time.Timer // +checklocks:mu; until it runs; nil before the first
	off   bool        // +checklocks:mu; none can be made, or the root is closed
	idle  *time.Timer // +checklocks:mu; until they are let go; nil before the first
}

// A spare is a file that was made ahead.
type spare struct {
	fd   int // to be written to; locked as temporary files are
	look int // to be read alone, where the file has its first block already; else -1
}

func (s spare) close() {
	closeFD(s.fd)
	if s.look >= 0 {
		closeFD(s.look)
	}
}

const (
	spareFor   = 2 * time.Second      // is spares.keep, but of tests
	breath     = 2 * time.Millisecond // after a write, in which its caller answers
	mostSpares = 8                    // for writes that follow each other at once
	mostLeft   = 64                   // what waits to be let go
)

// newSpares returns the spares of a root; nil, which has none, where as is nil.
func newSpares(as func(step func() error) error) *spares {
	if as == nil {
		return nil
	}
	return &spares{as: as, keep: spareFor, own: -1}
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

// take returns a file without a name for a write in a directory; false where there
// is none. Who finds none although there was one a moment ago writes quicker than
// they are made one by one, and gets more of them.
func (s *spares) take(dir int) (spare, bool) {
	if s == nil {
		return spare{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) == 0 {
		s.want = min(2*s.want, mostSpares)
		return spare{}, false
	}
	if key, err := dirKeyOf(dir); err != nil || key != s.dir {
		return spare{}, false
	}
	last := len(s.files) - 1
	file := s.files[last]
	s.files = s.files[:last]
	return file, true
}

// A remainder is what a write has left to be let go.
type remainder struct {
	replaced int // the file that has lost its name; -1 is none
	written  int // the look of the spare that has it now; -1 is none
}

// letGo closes a remainder. The rename of a file that had its block before did not
// see to it that the content is on its way to the disk.
func (r remainder) letGo() {
	if r.replaced >= 0 {
		closeFD(r.replaced)
	}
	if r.written >= 0 {
		_ = unix.SyncFileRange(r.written, 0, 0, unix.SYNC_FILE_RANGE_WRITE) // else the kernel does it later
		closeFD(r.written)
	}
}

// follow does what is left after a write, in a moment: it lets go of the remainder
// and makes files for the next writes in that directory. dir is the caller's.
func (s *spares) follow(dir int, r remainder) {
	if s == nil || !s.later(dir, r) {
		r.letGo()
	}
}

// later has one at a time run beside calls, with a descriptor of its own.
func (s *spares) later(dir int, r remainder) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off || len(s.left) >= mostLeft {
		return false
	}
	if s.own < 0 {
		own, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return false
		}
		s.own = own
		s.busy.Add(1)
		if s.work == nil {
			s.work = time.AfterFunc(breath, s.run)
		} else {
			s.work.Reset(breath)
		}
	}
	s.left = append(s.left, r)
	return true
}

// run does what later was asked for.
func (s *spares) run() {
	defer s.busy.Done()
	for full := false; ; {
		left, dir := s.next(full)
		for _, r := range left {
			r.letGo()
		}
		if dir < 0 {
			return
		}
		full = s.refill(dir)
	}
}

// next takes what is to be let go, and the directory to make files in; -1 where
// there is nothing more to do.
func (s *spares) next(full bool) (left []remainder, dir int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left, s.left = s.left, nil
	if len(left) > 0 || !full && !s.off {
		return left, s.own
	}
	closeFD(s.own)
	s.own = -1
	return nil, -1
}

// refill makes one more file in a directory, unless there are enough that were made
// there, or none can be.
func (s *spares) refill(dir int) (full bool) {
	key, err := dirKeyOf(dir)
	if err != nil || s.enough(key) {
		return true
	}
	file, err := s.make(dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.off = s.off || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) // a file system, or a kernel, without such files
		return true
	}
	if s.off {
		file.close()
		return true
	}
	s.files = append(s.files, file)
	if s.idle == nil {
		s.idle = time.AfterFunc(s.keep, s.drop)
	} else {
		s.idle.Reset(s.keep)
	}
	return false
}

// enough reports whether there are enough files of a directory. Those of another
// one go.
func (s *spares) enough(key dirKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != s.dir {
		s.dropLocked()
		s.dir = key
	}
	s.want = max(s.want, 1)
	return s.off || len(s.files) >= s.want
}

// make makes a file without a name, and locks it.
func (s *spares) make(dir int) (file spare, err error) {
	file = spare{-1, -1}
	err = s.as(func() error {
		file.fd, err = retry(func() (int, error) {
			return unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		})
		if err == nil {
			file.look = giveBlock(file.fd)
		}
		return err
	})
	if err == nil {
		// Who cleans up knows by this that it is in use, once it has a name.
		_, _ = retry(func() (int, error) { return 0, unix.Flock(file.fd, unix.LOCK_EX) })
	}
	return file, err
}

// giveBlock has ext4 give a file its first block, and returns another descriptor of
// the file, to be read alone; -1 where it is another file system, or can't be. A
// file without a block, which replaces another, ext4 would write to the disk within
// the rename, so that a crash of the machine does not leave an empty file. Here that
// is done a moment later, by the descriptor: one to be written to would keep the
// file from being run as a program.
func giveBlock(fd int) (look int) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.EXT4_SUPER_MAGIC {
		return -1
	}
	look, err := retry(func() (int, error) { return unix.Open(procPath(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1
	}
	if err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, int64(fs.Bsize)); err != nil {
		closeFD(look)
		return -1
	}
	return look
}

func (s *spares) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked()
}

// +checklocks:s.mu
func (s *spares) dropLocked() {
	for _, file := range s.files {
		file.close()
	}
	s.files, s.want = nil, 1
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
	s.mu.Lock()
	ahead := s.work != nil && s.work.Stop()
	s.mu.Unlock()
	if ahead {
		s.run()
	}
	s.busy.Wait()
}
