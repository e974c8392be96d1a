package files

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// A walk visits a tree with one worker for each processor. A worker reads a directory,
// queues its subdirectories for any worker, and visits its files itself.
type walk struct {
	ctx  context.Context
	base system // where the plan starts, after symlinks that the caller named
	plan *search.Plan
	do   visitor

	mu   sync.Mutex
	more *sync.Cond
	todo []task // guarded by mu; a stack, which stays short
	busy int    // workers that may still add to todo; guarded by mu
	err  error  // the first error; guarded by mu
}

// A visitor is the part of a walk in which Glob and Grep differ.
type visitor interface {
	// shouldEnter reports whether to read a directory.
	shouldEnter(path string) bool
	// reportUnreadable records a directory that can't be read.
	reportUnreadable(path string)
	// visitEntries handles the entries of a directory. It may queue files, which visitFiles
	// then handles in parts.
	visitEntries(w *worker, d *walkDir)
	visitFiles(w *worker, d *walkDir, items []walkItem)
}

// A task is a directory to read or, with items, files of a directory to search.
type task struct {
	dir   *walkDir
	items []walkItem
}

// A walkDir is a directory of the walk.
type walkDir struct {
	path  string
	ig    *search.Ignore
	fd    int
	users atomic.Int32 // tasks that use fd
	items []walkItem   // entries that the plan selects, and directories that it enters
}

// A walkItem is an entry of a directory. A directory that the walk enters has a trailing
// slash in its path, which sorts it where the paths below it belong.
type walkItem struct {
	path string
	typ  byte
	sub  *walkDir     // set if the directory is entered
	info *driver.Info // if requested
}

// A worker has the buffers of one goroutine of a walk.
type worker struct {
	*walk
	dents []byte // for getdents
	names []byte // of the entries of a directory, each with a NUL
	types []byte
	data  []byte // content of a file
}

// prefixLen is the length of an entry's path before its name.
func (d *walkDir) prefixLen() int {
	if d.path == "." {
		return 0
	}
	return len(d.path) + 1
}

func (d *walkDir) release() {
	if d.users.Add(-1) == 0 {
		closeFD(d.fd)
	}
}

// openDirBelow opens a directory without following any symlink.
func (s system) openDirBelow(name string) (int, error) {
	return s.resolvePath(name, unix.O_RDONLY|unix.O_DIRECTORY, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
}

// relativePath returns path relative to dir, which contains it.
func relativePath(dir, path string) string {
	switch dir {
	case path:
		return "."
	case ".":
		return path
	}
	return path[len(dir)+1:]
}

// run walks the tree and waits for all workers.
func (w *walk) run(s system, top *walkDir) error {
	fd, err := s.open(w.plan.Start, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	w.base = system{fd: fd}
	w.more = sync.NewCond(&w.mu)
	w.todo = []task{{dir: top}}
	stop := context.AfterFunc(w.ctx, func() { w.stopWith(w.ctx.Err()) })
	defer stop()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			wk := &worker{walk: w, dents: make([]byte, 32<<10), data: make([]byte, 64<<10)}
			for t, ok := w.nextTask(); ok; t, ok = w.nextTask() {
				wk.runTask(t)
				w.finishTask()
			}
		})
	}
	wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.todo {
		if t.items != nil {
			t.dir.release()
		}
	}
	return w.err
}

func (w *walk) stopWith(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.more.Broadcast()
}

func (w *walk) nextTask() (task, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.todo) == 0 && w.busy > 0 && w.err == nil {
		w.more.Wait()
	}
	if len(w.todo) == 0 || w.err != nil {
		return task{}, false
	}
	t := w.todo[len(w.todo)-1]
	w.todo = w.todo[:len(w.todo)-1]
	w.busy++
	return t, true
}

func (w *walk) finishTask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy--; w.busy == 0 && len(w.todo) == 0 {
		w.more.Broadcast()
	}
}

func (w *walk) add(tasks ...task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.todo = append(w.todo, tasks...)
	if len(tasks) == 1 {
		w.more.Signal()
	} else {
		w.more.Broadcast()
	}
}

func (w *worker) runTask(t task) {
	if t.items != nil {
		w.do.visitFiles(w, t.dir, t.items)
		t.dir.release()
		return
	}
	if !w.do.shouldEnter(t.dir.path) {
		return
	}
	if err := w.readDir(t.dir); ignoreGone(err) != nil || errors.Is(err, unix.EACCES) {
		w.do.reportUnreadable(t.dir.path)
	}
}

// readDir lists a directory by the rules of the plan and visits it.
func (w *worker) readDir(d *walkDir) error {
	fd, err := w.base.openDirBelow(relativePath(w.plan.Start, d.path))
	if err != nil {
		return err
	}
	d.fd = fd
	d.users.Store(1)
	defer d.release()
	if err := w.listDir(d); err != nil {
		return err
	}
	w.do.visitEntries(w, d)
	return nil
}

// listDir sets d.items.
func (w *worker) listDir(d *walkDir) error {
	w.names, w.types = w.names[:0], w.types[:0]
	var prefix string
	if d.path != "." {
		prefix = d.path + "/"
	}
	ignores := false
	err := eachEntry(d.fd, w.dents, func(name []byte, typ byte) {
		if name[0] == '.' {
			if IsTemp(string(name)) {
				return
			}
			ignores = ignores || w.plan.Reads(string(name))
		}
		w.names = append(append(append(w.names, prefix...), name...), '/')
		w.types = append(w.types, typ)
	})
	if err != nil {
		return err
	}
	if ignores {
		if data, err := readSmall(d.fd, search.IgnoreFile); err == nil {
			d.ig = d.ig.With(d.path, data)
		}
	}
	w.applyPlan(d, string(w.names), len(prefix))
	return nil
}

// applyPlan keeps the entries that the plan selects. names has the paths of all entries,
// each with a trailing slash, in one allocation.
func (w *worker) applyPlan(d *walkDir, names string, prefix int) {
	d.items = make([]walkItem, 0, len(w.types))
	for _, typ := range w.types {
		end := prefix + strings.IndexByte(names[prefix:], '/')
		path, name, under := names[:end], names[prefix:end], names[:end+1]
		names = names[end+1:]
		if typ == unix.DT_UNKNOWN {
			typ = typeOf(d.fd, name)
		}
		isDir := typ == unix.DT_DIR
		if w.plan.Takes(path, name, isDir, d.ig) {
			d.items = append(d.items, walkItem{path: path, typ: typ})
		}
		if isDir && w.plan.Enters(path, name, d.ig) {
			d.items = append(d.items, walkItem{path: under, typ: typ, sub: &walkDir{path: path, ig: d.ig}})
		}
	}
	slices.SortFunc(d.items, func(a, b walkItem) int { return strings.Compare(a.path[prefix:], b.path[prefix:]) })
}

// typeOf stats an entry whose type getdents does not report.
func typeOf(fd int, name string) byte {
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_UNKNOWN
	}
	return byte(st.Mode & unix.S_IFMT >> 12)
}

// queueSubdirs queues the directories in d.
func (w *worker) queueSubdirs(d *walkDir) {
	var tasks []task
	for i := len(d.items) - 1; i >= 0; i-- { // the queue is a stack
		if sub := d.items[i].sub; sub != nil {
			tasks = append(tasks, task{dir: sub})
		}
	}
	if len(tasks) > 0 {
		w.add(tasks...)
	}
}

// readSmall reads a file in a directory without following a symlink.
func readSmall(dir int, name string) ([]byte, error) {
	fd, err := openFileAt(dir, name)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	const most = 10 << 20
	if err := checkRegular(&st); err != nil || st.Size > most {
		return nil, errNotRegular
	}
	buf := make([]byte, st.Size)
	n, err := pread(fd, buf, 0)
	return buf[:max(n, 0)], err
}

func openFileAt(dir int, name string) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, openFlags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// ignoreRulesAbove collects the rules of .gitignore files above the start of the plan.
func (s system) ignoreRulesAbove(p *search.Plan) (*search.Ignore, bool) {
	return p.Above(func(path string) []byte {
		fd, err := s.open(path, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return nil
		}
		defer closeFD(fd)
		data, err := readSmall(fd, search.IgnoreFile)
		if err != nil {
			return nil
		}
		return data
	})
}

// checkStart checks the directory where a plan starts. It returns false if nothing can
// match.
func (s system) checkStart(p *search.Plan) (bool, error) {
	if err := s.checkDir(p.Path); err != nil || p.Start == p.Path {
		return err == nil, err
	}
	err := s.checkDir(p.Start)
	switch fault.Of(err) {
	case "":
		return true, nil
	case fault.NotFound, fault.InvalidArgument:
		return false, nil
	}
	return false, err
}

func (s system) checkDir(name string) error {
	fd, err := s.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
