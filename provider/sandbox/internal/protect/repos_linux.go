package protect

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/provider/sandbox/internal/entry"
)

// maxWatched bounds the directories that are watched; beyond, each look is a walk.
const maxWatched = 20_000

// A repoWatch knows the entries named .git in directories of the user.
type repoWatch struct {
	tops     []*shownDir
	appeared chan struct{} // has an element after a .git appeared
	done     chan struct{} // closed by close
	closing  sync.Once

	mu     sync.Mutex
	file   *os.File // inotify; nil if not all directories can be watched: then each look walks
	dirs   map[int32]lateGit
	blind  map[lateGit]bool // directories that this user may not read
	bare   map[lateGit]bool // directories with a HEAD: Git may take them for a repository
	found  map[lateGit]bool // whether it was seen to be the host's: the workload can't claim it later
	count  int64            // how often an entry appeared
	walked bool
}

// A shownDir is a directory of the user that the workload can write. Its file is closed by the
// garbage collector: it has several users.
type shownDir struct {
	inside string
	Dir
}

// now returns where the directory is: somebody may have moved it, and mounts move with it.
func (d *shownDir) now() string {
	if now, err := os.Readlink(d.ProcPath()); err == nil && d.IsAt(now) {
		return now
	}
	return d.Real
}

// A lateGit is an entry of a directory of the user.
type lateGit struct {
	top int
	rel string
}

func (w *repoWatch) inside(e lateGit) string { return filepath.Join(w.tops[e.top].inside, e.rel) }
func (w *repoWatch) host(e lateGit) string   { return filepath.Join(w.tops[e.top].now(), e.rel) }

// newRepoWatch starts to watch the directories. It returns nil if there are none.
func newRepoWatch(dirs []string) *repoWatch {
	var tops []*shownDir
	for _, dir := range dirs {
		f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			continue // no guest starts with it
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			tops = append(tops, &shownDir{dir, Dir{f, real}})
		}
	}
	if len(tops) == 0 {
		return nil
	}
	w := &repoWatch{
		tops: tops, dirs: map[int32]lateGit{}, blind: map[lateGit]bool{}, bare: map[lateGit]bool{}, found: map[lateGit]bool{},
		appeared: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
		w.file = os.NewFile(uintptr(fd), "inotify")
	}
	go w.run()
	return w
}

// run reads events until the watch is closed.
func (w *repoWatch) run() {
	w.look()
	w.mu.Lock()
	file := w.file
	w.mu.Unlock()
	if file != nil {
		if conn, err := file.SyscallConn(); err == nil {
			conn.Read(func(fd uintptr) bool { //nolint:errcheck // the file was closed
				w.mu.Lock()
				defer w.mu.Unlock()
				w.drain(int(fd))
				return w.file == nil
			})
		}
	}
	for {
		start := time.Now()
		w.look()
		select {
		case <-w.done:
			return
		case <-time.After(max(lateInterval, 20*time.Since(start))): // a twentieth of the time
		}
	}
}

func (w *repoWatch) close() {
	w.closing.Do(func() { close(w.done) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopInotify()
}

// stopInotify makes each later look a walk. w is locked. Close waits for the users of the
// descriptor, of which the caller may be one.
func (w *repoWatch) stopInotify() {
	if w.file != nil {
		go w.file.Close()
		w.file = nil
	}
}

// look lists all entries named .git that exist now, or that existed a moment ago.
func (w *repoWatch) look() []lateGit {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.walked || !w.update() {
		w.walkAll()
	}
	for e := range maps.Clone(w.blind) { // it may be readable now
		delete(w.blind, e)
		w.walkBelow(e, new(int))
	}
	return slices.SortedFunc(maps.Keys(w.found), func(a, b lateGit) int {
		return cmp.Or(cmp.Compare(strings.Count(a.rel, "/"), strings.Count(b.rel, "/")), cmp.Compare(a.rel, b.rel), cmp.Compare(a.top, b.top))
	})
}

// update handles the events that there are. It returns false if there is no inotify. w is
// locked.
func (w *repoWatch) update() bool {
	if w.file == nil {
		return false
	}
	conn, err := w.file.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { w.drain(int(fd)) })
	}
	return err == nil && w.file != nil
}

// appearances counts how often an entry has appeared, as far as that is known without a walk.
func (w *repoWatch) appearances() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.update()
	return w.count
}

// forget removes an entry that does not exist any more.
func (w *repoWatch) forget(e lateGit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.found, e)
}

// isHosts reports whether an entry was seen to be the host's.
func (w *repoWatch) isHosts(e lateGit) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found[e]
}

// isBlind reports whether there are directories that this user may not read: nothing tells
// when that changes.
func (w *repoWatch) isBlind() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.file != nil && len(w.blind) > 0
}

// setHosts records that an entry is the host's.
func (w *repoWatch) setHosts(e lateGit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.found[e]; ok {
		w.found[e] = true
	}
}

// walkAll finds the entries in all directories, and watches these. w is locked.
func (w *repoWatch) walkAll() {
	w.walked = true
	clear(w.blind)
	known := maps.Clone(w.found)
	defer func() {
		for e := range w.found {
			w.found[e] = known[e]
		}
	}()
	seen := 0
	for i := range w.tops {
		w.walkBelow(lateGit{top: i}, &seen)
	}
}

// walkBelow is walkAll for a directory and all below it.
func (w *repoWatch) walkBelow(e lateGit, seen *int) {
	fd, err := unix.Openat2(int(w.tops[e.top].File.Fd()), cmp.Or(e.rel, "."), &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err == nil {
		w.walk(fd, e, strings.Count(e.rel, "/"), seen)
	} else if errors.Is(err, os.ErrPermission) {
		w.blind[e] = true
	}
}

// walk closes fd.
func (w *repoWatch) walk(fd int, at lateGit, depth int, seen *int) {
	dir := os.NewFile(uintptr(fd), at.rel)
	defer dir.Close()
	w.watchDir(fd, at) // before it is read: what appears afterwards is an event
	entries, err := dir.ReadDir(-1)
	if *seen += len(entries); err != nil || *seen > maxScanned || depth > entry.MaxDepth {
		return // the scan for autorun files gives the reason
	}
	for _, e := range entries {
		to := lateGit{at.top, path.Join(at.rel, e.Name())}
		switch {
		case e.Name() == ".git":
			w.add(to)
		case e.Name() == "HEAD":
			w.bare[at] = true
		case e.IsDir():
			if sub, err := entry.OpenDir(fd, e.Name()); err == nil {
				w.walk(sub, to, depth+1, seen)
			} else if errors.Is(err, os.ErrPermission) {
				w.blind[to] = true
			}
		}
	}
}

func (w *repoWatch) watchDir(fd int, at lateGit) {
	if w.file == nil {
		return
	}
	conn, err := w.file.SyscallConn()
	if err == nil {
		cerr := conn.Control(func(in uintptr) {
			var wd int
			if wd, err = unix.InotifyAddWatch(int(in), fmt.Sprintf("/proc/self/fd/%d", fd), unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err == nil {
				w.dirs[int32(wd)] = at
			}
		})
		err = errors.Join(err, cerr)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) || len(w.dirs) > maxWatched {
		w.stopInotify()
	}
}

// add adds an entry. w is locked.
func (w *repoWatch) add(e lateGit) {
	w.found[e] = false
	w.count++
	select {
	case w.appeared <- struct{}{}:
	default:
	}
}

// drain handles all events that there are. w is locked.
func (w *repoWatch) drain(fd int) {
	buf := make([]byte, 64<<10)
	for w.file != nil {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n < unix.SizeofInotifyEvent {
			return // EAGAIN: all were read
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			wd, mask, size := binary.NativeEndian.Uint32(rest), binary.NativeEndian.Uint32(rest[4:]), binary.NativeEndian.Uint32(rest[12:])
			name, _, _ := strings.Cut(string(rest[unix.SizeofInotifyEvent:][:size]), "\x00")
			rest = rest[unix.SizeofInotifyEvent+int(size):]
			w.handle(int32(wd), mask, name)
		}
	}
}

func (w *repoWatch) handle(wd int32, mask uint32, name string) {
	at, known := w.dirs[wd]
	to := lateGit{at.top, path.Join(at.rel, name)}
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		w.walkAll()
	case mask&unix.IN_IGNORED != 0:
		delete(w.dirs, wd)
	case !known:
	case name == ".git":
		w.add(to)
	case name == "HEAD":
		w.bare[at] = true
	case mask&unix.IN_ISDIR != 0:
		w.walkBelow(to, new(int))
	}
}

// isInBare reports whether a directory lies in one that may be a repository, as a worktree
// or a submodule has its own there. w is locked.
func (w *repoWatch) isInBare(e lateGit) bool {
	for at := path.Dir(e.rel); at != "."; at = path.Dir(at) {
		if w.bare[lateGit{e.top, at}] {
			return true
		}
	}
	return false
}

// identity tells an entry from another one at the same path.
func (w *repoWatch) identity(e lateGit) string {
	var st unix.Statx_t
	unix.Statx(unix.AT_FDCWD, w.host(e), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st) //nolint:errcheck // it may be gone
	return w.inside(e) + "\x00" + directoryStamp(&st)
}
