package files

import (
	"errors"
	"os"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// A notifier watches directories with inotify. Each directory is opened below the root and
// watched by its descriptor, so no name is resolved outside the root.
type notifier struct {
	base  system // the watched directory
	top   string // name of base
	only  string // the name of a watched file, or ""
	deep  bool
	batch *batch
	file  *os.File // inotify; closing it ends run
	wg    sync.WaitGroup

	// Owned by run after it is started.
	dirs map[int32]*watchedDir
}

// A watchedDir has the names of its entries, because inotify reports a new file and the
// replacement of a file alike.
type watchedDir struct {
	path  string
	names map[string]bool
}

func (s system) watch(name string, isDir bool, o *driver.WatchOptions, b *batch) (changeSource, error) {
	top, only := name, ""
	if !isDir {
		top, only = splitName(name)
	}
	dir, err := s.open(top, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		closeFD(dir)
		if inotifyIsFull(err) {
			return s.watchByPolling(name, isDir, o, b)
		}
		return nil, err
	}
	n := &notifier{
		base: system{fd: dir}, top: top, only: only, deep: o.Recursive && isDir, batch: b,
		file: os.NewFile(uintptr(fd), "inotify"), dirs: map[int32]*watchedDir{},
	}
	if err := n.watchDir(top, false); err != nil {
		_ = n.close() // the call fails anyway
		if errors.Is(err, unix.ENOENT) && !hasProc() || inotifyIsFull(err) {
			return s.watchByPolling(name, isDir, o, b)
		}
		return nil, err
	}
	n.wg.Go(n.run)
	return n, nil
}

// inotifyIsFull reports whether this user has no further inotify instance or watch. All
// workspaces share them: those of one must not take the watchers of the others.
func inotifyIsFull(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENOSPC) }

// hasProc reports whether /proc/self/fd is available.
func hasProc() bool { return unix.Access("/proc/self/fd", unix.F_OK) == nil }

func (n *notifier) close() error {
	err := n.file.Close()
	n.wg.Wait()
	return errors.Join(err, n.base.close())
}

// watchDir watches a directory and, if recursive, those below it. It adds the watch before
// it lists the directory, so that entries created meanwhile are reported at least once.
// With report, all entries are reported as new.
func (n *notifier) watchDir(path string, report bool) error {
	fd, err := n.base.openDirBelow(relativePath(n.top, path))
	if err != nil {
		return err
	}
	defer closeFD(fd)
	conn, err := n.inotifyFD()
	if err != nil {
		return err
	}
	wd, err := unix.InotifyAddWatch(conn, procPath(fd), watchMask)
	if err != nil {
		return err
	}
	d := &watchedDir{path: path, names: map[string]bool{}}
	n.dirs[int32(wd)] = d
	var subs []string
	err = EachEntry(fd, func(name []byte, typ byte) {
		base := string(name)
		if IsTemp(base) {
			return
		}
		d.names[base] = true
		if report {
			n.reportChange(base, driver.Change{Path: joinName(path, base), Op: driver.OpCreate})
		}
		if typ == unix.DT_UNKNOWN {
			typ = typeOf(fd, base)
		}
		if typ == unix.DT_DIR && n.deep {
			subs = append(subs, joinName(path, base))
		}
	})
	for _, sub := range subs {
		if err == nil {
			err = ignoreGoneOrDeep(n.watchDir(sub, report))
		}
	}
	return err
}

// ignoreGone drops the error of a directory that was removed or is not readable.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, errNotDir) {
		return nil
	}
	return err
}

// ignoreGoneOrDeep is ignoreGone, also for paths that are too long.
func ignoreGoneOrDeep(err error) error {
	if errors.Is(err, unix.ENAMETOOLONG) {
		return nil
	}
	return ignoreGone(err)
}

// inotifyFD returns the descriptor of n.file. Unlike os.File.Fd it does not make the
// descriptor blocking.
func (n *notifier) inotifyFD() (int, error) {
	conn, err := n.file.SyscallConn()
	if err != nil {
		return -1, err
	}
	var fd int
	err = conn.Control(func(f uintptr) { fd = int(f) })
	return fd, err
}

// run reads events until the file is closed.
func (n *notifier) run() {
	buf := make([]byte, 64<<10)
	for {
		m, err := n.file.Read(buf)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				n.batch.markOverflow()
			}
			return
		}
		for rest := buf[:m]; len(rest) >= unix.SizeofInotifyEvent; {
			ev := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
			end := unix.SizeofInotifyEvent + int(ev.Len)
			name := rest[unix.SizeofInotifyEvent:end]
			n.handleEvent(ev.Wd, ev.Mask, string(name[:cstringLen(name)]))
			rest = rest[end:]
		}
	}
}

func (n *notifier) handleEvent(wd int32, mask uint32, base string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		n.batch.markOverflow()
		n.rescan()
		return
	}
	d := n.dirs[wd]
	if d == nil || IsTemp(base) {
		return
	}
	if base == "" {
		n.handleSelf(wd, d, mask)
		return
	}
	path := joinName(d.path, base)
	switch {
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		n.handleCreate(d, base, path, mask)
	case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		delete(d.names, base)
		if mask&unix.IN_MOVED_FROM != 0 && mask&unix.IN_ISDIR != 0 {
			n.dropWatches(path) // for deleted directories the kernel removes the watches
		}
		n.reportChange(base, driver.Change{Path: path, Op: driver.OpRemove, Moved: mask&unix.IN_MOVED_FROM != 0})
	case mask&unix.IN_MODIFY != 0:
		n.reportChange(base, driver.Change{Path: path, Op: driver.OpWrite})
	case mask&unix.IN_ATTRIB != 0:
		n.reportChange(base, driver.Change{Path: path, Op: driver.OpChmod})
	}
}

func (n *notifier) handleCreate(d *watchedDir, base, path string, mask uint32) {
	op := driver.OpCreate
	if d.names[base] && mask&unix.IN_MOVED_TO != 0 {
		op = driver.OpWrite // it replaces an entry
	}
	d.names[base] = true
	n.reportChange(base, driver.Change{Path: path, Op: op})
	if mask&unix.IN_ISDIR != 0 && n.deep {
		if ignoreGoneOrDeep(n.watchDir(path, true)) != nil {
			n.batch.markOverflow() // too many watches: changes below it are not seen
		}
	}
}

// handleSelf handles events of a watched directory itself. Below the top, the watch of the
// parent reports the same events.
func (n *notifier) handleSelf(wd int32, d *watchedDir, mask uint32) {
	switch {
	case mask&unix.IN_IGNORED != 0:
		delete(n.dirs, wd)
	case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0 && d.path == n.top && n.only == "":
		n.batch.addChange(driver.Change{Path: d.path, Op: driver.OpRemove, Moved: mask&unix.IN_MOVE_SELF != 0})
	case mask&unix.IN_ATTRIB != 0 && d.path == n.top && n.only == "":
		n.batch.add(d.path, driver.OpChmod)
	}
}

// dropWatches removes the watches of a directory that was moved away, and of all below it.
func (n *notifier) dropWatches(path string) {
	fd, err := n.inotifyFD()
	for wd, d := range n.dirs {
		if d.path != path && !strings.HasPrefix(d.path, path+"/") {
			continue
		}
		delete(n.dirs, wd)
		if err == nil {
			_, _ = unix.InotifyRmWatch(fd, uint32(wd)) // it may be gone already
		}
	}
}

// rescan adds watches for directories whose events were lost.
func (n *notifier) rescan() {
	if err := ignoreGone(n.watchDir(n.top, false)); err != nil {
		n.batch.markOverflow()
	}
}

// reportChange adds a change, unless a single other name is watched.
func (n *notifier) reportChange(base string, c driver.Change) {
	if n.only == "" || n.only == base {
		n.batch.addChange(c)
	}
}

// markOverflow records that changes were missed.
func (b *batch) markOverflow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.overflow = true
	b.wakeLocked()
}
