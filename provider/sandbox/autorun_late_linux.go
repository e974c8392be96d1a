package sandbox

import (
	"cmp"
	"context"
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

	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
	"github.com/croft-run/croft/workspace/driver"
)

// A repository can appear while the guest runs: somebody clones one, adds a worktree or
// replaces a .git, on the host. Inotify shows this process each new entry named .git. Before
// a command, before a call of module FS, and while commands run, a .git that no mount covers
// gets its private copy, which the guest mounts; with {"git": "shared"} its configuration and
// hooks become read-only. Levels whose guest can't mount start it again before the next
// command, or refuse that.
//
// A repository that git makes inside is the workload's own: it has a file from the template
// that git uses inside (see gitdir.Template), or its .git is a file that names no directory of
// the host. It stays as it is, so that the workload can use and remove it. A workload
// that is fast enough can put that file into a repository of the host before the mount is
// made. So what Git runs in a repository that appeared later is always compared by the scans,
// see autorunScan.addGit.

const (
	maxWatched   = 20_000 // directories; beyond, each look is a walk
	lateInterval = 250 * time.Millisecond
	lateFirst    = 2 * time.Millisecond // the wait before the second attempt to protect a repository; it doubles
	lateLast     = 10 * time.Second
)

// A gitWatch knows the entries named .git in directories of the user.
type gitWatch struct {
	tops     []shownDir
	appeared chan struct{} // has an element after a .git appeared
	done     chan struct{} // closed by close
	closing  sync.Once

	mu     sync.Mutex
	file   *os.File // inotify; nil if not all directories can be watched: then each look walks
	dirs   map[int32]lateGit
	blind  map[lateGit]bool // directories that this user may not read
	bare   map[lateGit]bool // directories with a HEAD: Git may take them for a repository
	found  map[lateGit]bool // whether it was seen to be the host's: the workload can't claim it later
	count  int              // how often an entry appeared
	walked bool
}

// A shownDir is a directory of the user that the workload can write.
type shownDir struct {
	inside, real string
	dir          *os.File // closed by the garbage collector: it has several users
}

// now returns where the directory is: somebody may have moved it, and mounts move with it.
func (d shownDir) now() string {
	if now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", d.dir.Fd())); err == nil && sameFile(d.dir, now) {
		return now
	}
	return d.real
}

// A lateGit is an entry of a directory of the user.
type lateGit struct {
	top int
	rel string
}

func (w *gitWatch) inside(e lateGit) string { return filepath.Join(w.tops[e.top].inside, e.rel) }
func (w *gitWatch) host(e lateGit) string   { return filepath.Join(w.tops[e.top].now(), e.rel) }

// writableDirs lists the directories of the user that the workload can write.
func (u *launchSpec) writableDirs() []shownDir {
	var list []shownDir
	add := func(inside string) {
		if dir, err := os.OpenFile(inside, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
			d := shownDir{dir: dir, inside: inside}
			if d.real, err = filepath.EvalSymlinks(inside); err == nil {
				list = append(list, d)
			}
		}
	}
	if u.policy.ReadOnly || u.level.noMounts {
		return nil
	}
	if u.hostDir {
		add(u.guestDir)
	}
	for _, b := range u.binds {
		if !b.ReadOnly && !b.Empty && !b.isMissing() {
			add(b.Dir)
		}
	}
	return list
}

// newGitWatch starts to watch the directories. It returns nil if there are none.
func newGitWatch(tops []shownDir) *gitWatch {
	if len(tops) == 0 {
		return nil
	}
	w := &gitWatch{
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
func (w *gitWatch) run() {
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

func (w *gitWatch) close() {
	w.closing.Do(func() { close(w.done) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopInotify()
}

// stopInotify makes each later look a walk. w is locked. Close waits for the users of the
// descriptor, of which the caller may be one.
func (w *gitWatch) stopInotify() {
	if w.file != nil {
		go w.file.Close()
		w.file = nil
	}
}

// look lists all entries named .git that exist now, or that existed a moment ago.
func (w *gitWatch) look() []lateGit {
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
func (w *gitWatch) update() bool {
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
func (w *gitWatch) appearances() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.update()
	return w.count
}

// forget removes an entry that does not exist any more.
func (w *gitWatch) forget(e lateGit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.found, e)
}

// isHosts reports whether an entry was seen to be the host's.
func (w *gitWatch) isHosts(e lateGit) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found[e]
}

// isBlind reports whether there are directories that this user may not read: nothing tells
// when that changes.
func (w *gitWatch) isBlind() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.file != nil && len(w.blind) > 0
}

// setHosts records that an entry is the host's.
func (w *gitWatch) setHosts(e lateGit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.found[e]; ok {
		w.found[e] = true
	}
}

// walkAll finds the entries in all directories, and watches these. w is locked.
func (w *gitWatch) walkAll() {
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
func (w *gitWatch) walkBelow(e lateGit, seen *int) {
	fd, err := unix.Openat2(int(w.tops[e.top].dir.Fd()), cmp.Or(e.rel, "."), &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err == nil {
		w.walk(fd, e, strings.Count(e.rel, "/"), seen)
	} else if errors.Is(err, os.ErrPermission) {
		w.blind[e] = true
	}
}

// walk closes fd.
func (w *gitWatch) walk(fd int, at lateGit, depth int, seen *int) {
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

func (w *gitWatch) watchDir(fd int, at lateGit) {
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
func (w *gitWatch) add(e lateGit) {
	w.found[e] = false
	w.count++
	select {
	case w.appeared <- struct{}{}:
	default:
	}
}

// drain handles all events that there are. w is locked.
func (w *gitWatch) drain(fd int) {
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

func (w *gitWatch) handle(wd int32, mask uint32, name string) {
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

// openRepos lists the repositories of the host that no mount covers. pending says that there
// are entries which may become such.
func (g *guestConn) openRepos() (open []lateGit, pending bool) {
	if g.gits == nil || g.rootfs == nil {
		return nil, false
	}
	for _, e := range g.gits.look() {
		host, inside := g.gits.host(e), g.gits.inside(e)
		info, err := os.Lstat(host)
		switch {
		case errors.Is(err, os.ErrNotExist):
			g.gits.forget(e)
		case errors.Is(err, os.ErrPermission):
			pending = true // the workload can't reach it either, until it changes the mode of a directory above
		case err != nil, !info.IsDir() && !info.Mode().IsRegular(): // a symlink is reported
		case g.isCovered(host, inside, info.IsDir()):
			if g.spec.level.mountsLate() && g.isPartial(host) {
				pending = true
				if gitdir.IsWhole(host) {
					open = append(open, e)
				}
			}
		case !gitdir.IsGit(host, info.IsDir()):
			pending = true
		case g.gits.isHosts(e) || !gitdir.IsOwn(host, info.IsDir()):
			g.gits.setHosts(e)
			open = append(open, e)
		}
	}
	return open, pending || g.gits.isBlind()
}

// openOthers lists further directories that no mount covers: repositories of the host that
// are not named .git, and directories that this user may not read, in which a repository of
// the host may appear unseen.
func (g *guestConn) openOthers() []lateGit {
	if g.gits == nil || g.rootfs == nil {
		return nil
	}
	g.gits.look()
	g.gits.mu.Lock()
	list := slices.Collect(maps.Keys(g.gits.blind))
	for e := range g.gits.bare {
		at := g.gits.host(e)
		isRepo := gitdir.IsGit(at, true) || entry.Exists(filepath.Join(at, "HEAD")) && entry.Exists(filepath.Join(at, "commondir"))
		if e.rel != "" && isRepo && !g.gits.isInBare(e) && !gitdir.IsOwn(at, true) {
			list = append(list, e)
		}
	}
	g.gits.mu.Unlock()
	return slices.DeleteFunc(list, func(e lateGit) bool {
		mounted, err := g.isMount(g.gits.inside(e))
		return err != nil || mounted
	})
}

// isInBare reports whether a directory lies in one that may be a repository, as a worktree
// or a submodule has its own there. w is locked.
func (w *gitWatch) isInBare(e lateGit) bool {
	for at := path.Dir(e.rel); at != "."; at = path.Dir(at) {
		if w.bare[lateGit{e.top, at}] {
			return true
		}
	}
	return false
}

// mountsLate reports whether the guest can mount while the workload runs.
func (l *level) mountsLate() bool { return l.name == driver.IsolationNamespaces }

// isCovered reports whether mounts protect a .git.
func (g *guestConn) isCovered(host, inside string, dir bool) bool {
	names := []string{""}
	switch {
	case dir && g.spec.gitShared:
		names = sharedRunFiles(host, "", 0)
	case !dir && !g.spec.gitShared:
		to := gitdir.Target(host)
		if rel, err := filepath.Rel(filepath.Dir(host), to); err == nil && !isInGit(rel) && gitdir.IsGit(to, true) && !gitdir.IsOwn(to, true) {
			names = append(names, path.Join("..", rel)) // of git clone --separate-git-dir
		}
	}
	for _, name := range names {
		if mounted, err := g.isMount(filepath.Join(inside, name)); err == nil && !mounted {
			return false
		}
	}
	return true
}

// sharedRunFiles lists the paths, below a Git directory that is not copied, that are read-only
// if they exist: also in its worktrees and in the repositories of its submodules.
func sharedRunFiles(host, sub string, depth int) []string {
	var names []string
	for _, name := range []string{"config", "config.worktree", "commondir", "hooks", "info/attributes"} {
		names = append(names, path.Join(sub, name))
	}
	trees, _ := os.ReadDir(filepath.Join(host, sub, "worktrees"))
	for _, tree := range trees {
		for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
			names = append(names, path.Join(sub, "worktrees", tree.Name(), name))
		}
	}
	modules := path.Join(sub, "modules")
	if depth > entry.MaxDepth {
		return names
	}
	filepath.WalkDir(filepath.Join(host, modules), func(name string, e os.DirEntry, err error) error { //nolint:errcheck // it returns none
		switch rel, rerr := filepath.Rel(host, name); {
		case err != nil || rerr != nil || !e.IsDir() || gitdir.IsOwn(name, true):
		case entry.Exists(filepath.Join(name, "HEAD")):
			names = append(names, sharedRunFiles(host, rel, depth+1)...)
			return filepath.SkipDir
		}
		return nil
	})
	return names
}

// openInside opens a path inside as it is shown there, to look at it.
func (g *guestConn) openInside(target string) (fd int, err error) {
	conn, err := g.rootfs.SyscallConn() // the connection may be closed meanwhile
	if err != nil {
		return -1, err
	}
	cerr := conn.Control(func(root uintptr) {
		fd, err = unix.Openat2(int(root), strings.TrimPrefix(target, "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
	})
	return fd, errors.Join(cerr, err)
}

// isMount reports whether a path inside is a mount point, or a symlink. An error says that
// nothing is there.
func (g *guestConn) isMount(target string) (bool, error) {
	fd, err := g.openInside(target)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only looked at
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &st)
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 || st.Mode&unix.S_IFMT == unix.S_IFLNK, err
}

// isReadOnly reports whether the directory inside in which a path would be made is in a
// read-only mount.
func (g *guestConn) isReadOnly(target string) bool {
	for at := filepath.Dir(target); at != "/"; at = filepath.Dir(at) {
		if fd, err := g.openInside(at); err == nil {
			defer unix.Close(fd) //nolint:errcheck // it was only looked at
			var st unix.Statfs_t
			return unix.Fstatfs(fd, &st) == nil && st.Flags&unix.ST_RDONLY != 0
		}
	}
	return false
}

func (g *guestConn) isPartial(host string) bool {
	g.lateMu.Lock()
	defer g.lateMu.Unlock()
	return g.partial[host]
}

// setPartial records which copies were made while something wrote to the .git.
func (g *guestConn) setPartial(copies []gitdir.Copy) {
	g.lateMu.Lock()
	defer g.lateMu.Unlock()
	g.partial = map[string]bool{}
	for _, c := range copies {
		if c.Partial {
			g.partial[c.Path] = true
		}
	}
}

// protectRepos protects repositories that no mount covers. It returns those that are left,
// because the guest can't mount. With others it protects those of openOthers, too.
func (h *handle) protectRepos(ctx context.Context, g *guestConn, others bool) ([]string, error) {
	tried, _ := g.openRepos()
	if others {
		tried = append(tried, g.openOthers()...)
	}
	if len(tried) == 0 {
		return nil, nil
	}
	lock, err := supervise.Lock(ctx, h.att.Dir.Path)
	if err != nil {
		return nil, fmt.Errorf("sandbox: lock the guest: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	mounts, err := h.lateMounts(ctx, g, tried)
	mounts = slices.DeleteFunc(mounts, func(m guestproto.Mount) bool {
		mounted, err := g.isMount(m.Target)
		return err == nil && mounted && m.Kind == guestproto.MountSelf
	})
	g.Hold(ctx, mounts) //nolint:errcheck // the next line looks
	open, _ := g.openRepos()
	if others {
		open = append(open, g.openOthers()...)
	}
	var left []string
	for _, e := range open {
		left = append(left, g.gits.inside(e))
	}
	if err != nil {
		err = fmt.Errorf("sandbox: protect repositories: %w: remove %s, or make it readable", err, g.gits.host(slices.Concat(open, tried)[0]))
	}
	return left, err
}

// lateMounts makes the private copies of repositories, and returns the mounts of these. It
// requires the guest lock.
func (h *handle) lateMounts(ctx context.Context, g *guestConn, open []lateGit) ([]guestproto.Mount, error) {
	copies, err := gitdir.Read(h.att.Dir)
	if err != nil {
		return nil, err
	}
	u := *g.spec
	u.autorun, u.git = new(autorunState), copies
	before := slices.Clone(copies.List)
	var mounts []guestproto.Mount
	var errs []error
	for i, top := range g.gits.tops {
		var names []string
		for _, e := range open {
			if e.top == i {
				names = append(names, e.rel)
			}
		}
		if len(names) > 0 {
			list, err := h.lateMountsIn(&u, top, names)
			mounts, errs = append(mounts, list...), append(errs, err)
		}
	}
	if !slices.EqualFunc(before, copies.List, func(a, b gitdir.Copy) bool { return a.ID == b.ID }) {
		_, err := h.att.Dir.Update(ctx, false, copies.WriteTo)
		errs = append(errs, err)
	}
	g.setPartial(copies.List)
	errs = append(errs, h.addFound(u.autorun))
	return mounts, errors.Join(errs...)
}

// lateProtection returns an autorunProtection for a directory of the user, and how to end it.
func (h *handle) lateProtection(u *launchSpec, top shownDir) (*autorunProtection, func(), error) {
	d, err := h.p.openHostDir(top.now())
	if err != nil {
		return nil, nil, err
	}
	p := &autorunProtection{
		launch: new(launch), spec: u, scan: &autorunScan{stamps: map[string]string{}, real: d.real}, self: d.procPath(), real: d.real,
		inside: top.inside, mounts: map[string]guestproto.Mount{}, linked: map[inode]bool{}, late: true,
	}
	if p.root, err = os.OpenRoot(d.procPath()); err != nil {
		return nil, nil, errors.Join(err, d.file.Close())
	}
	return p, func() {
		defer d.file.Close()
		p.root.Close() //nolint:errcheck // closing a directory can lose nothing
	}, nil
}

// lateMountsIn is lateMounts for one directory of the user.
func (h *handle) lateMountsIn(u *launchSpec, top shownDir, names []string) ([]guestproto.Mount, error) {
	p, end, err := h.lateProtection(u, top)
	if err != nil {
		return nil, err
	}
	defer end()
	var errs []error
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(p.real, name))
		switch {
		case err != nil: // gone
		case info.IsDir() && !p.canRead(name):
			err = p.cover(name)
		case path.Base(name) != ".git":
			p.addReadOnly(name) // as a whole: there are no placeholders now
		case info.IsDir() && u.gitShared:
			for _, file := range sharedRunFiles(filepath.Join(p.real, name), "", 0) {
				p.addExisting(path.Join(name, file))
			}
		default:
			err = p.addGit(gitEntry{name, info.Mode().Type()})
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, name := range p.scan.unreadable {
		u.autorun.Hidden = append(u.autorun.Hidden, filepath.Join(p.real, name))
	}
	errs = append(errs, p.addLinked())
	// The directories above stay without a mount: a process whose working directory is
	// one of these would not see later mounts in it. Inner mounts come first, for the same
	// reason.
	mounts := slices.DeleteFunc(p.mountList(), func(m guestproto.Mount) bool { return m.Kind == guestproto.MountSelf && !m.ReadOnly })
	slices.Reverse(mounts)
	for i, m := range mounts {
		if rest, ok := strings.CutPrefix(m.Source, u.git.Dir); ok && m.Kind == guestproto.MountBind {
			mounts[i].Source = gitdir.Inside + rest
		}
	}
	return mounts, errors.Join(errs...)
}

// protectConfigured protects the files that Git on the host runs or includes by now, by the
// configuration of the repositories in the directories and of the user: all of these may have
// changed since the guest started. It returns one that is left, because the guest can't mount.
// One that does not exist gets no placeholder any more: it is named by a warning, and compared
// by the scans.
func (h *handle) protectConfigured(ctx context.Context, g *guestConn) (left string, err error) {
	if g.gits == nil || g.rootfs == nil {
		return "", nil
	}
	u := *g.spec
	u.autorun = &autorunState{Dirs: map[string]map[string]string{}}
	if u.git, err = gitdir.Read(h.att.Dir); err != nil {
		return "", err
	}
	var mounts []guestproto.Mount
	var missing []string
	entries := g.gits.look()
	for i, top := range g.gits.tops {
		p, end, err := h.lateProtection(&u, top)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			host := g.gits.host(e)
			info, serr := os.Lstat(host)
			if e.top != i || serr != nil {
				continue
			}
			if mounted, _ := g.isMount(g.gits.inside(e)); mounted || g.gits.isHosts(e) || !gitdir.IsOwn(host, info.IsDir()) {
				p.scan.gits = append(p.scan.gits, gitEntry{e.rel, info.Mode().Type()})
			}
		}
		for _, e := range p.scan.gits {
			err = errors.Join(err, p.addConfiguredGit(e))
		}
		err = errors.Join(err, p.addLinked())
		end()
		if err != nil {
			return "", err
		}
		mounts = append(mounts, p.mountList()...)
		u.autorun.Dirs[top.real] = p.scan.stamps
		for _, name := range p.missing {
			if !g.isReadOnly(filepath.Join(p.inside, name)) {
				missing = append(missing, filepath.Join(p.real, name))
			}
		}
	}
	h.autorun.mu.Lock()
	h.autorun.missing = missing
	h.autorun.mu.Unlock()
	if err := h.addFound(u.autorun); err != nil {
		return "", err
	}
	open := func(m guestproto.Mount) bool {
		mounted, err := g.isMount(m.Target)
		return m.ReadOnly && err == nil && !mounted
	}
	mounts = slices.DeleteFunc(mounts, func(m guestproto.Mount) bool { return !open(m) })
	if len(mounts) > 0 && g.spec.level.mountsLate() {
		slices.Reverse(mounts) // inner ones first, see lateMountsIn
		g.Hold(ctx, mounts)    //nolint:errcheck // the next line looks
		mounts = slices.DeleteFunc(mounts, func(m guestproto.Mount) bool { return !open(m) })
	}
	if len(mounts) > 0 {
		return mounts[0].Target, nil
	}
	return "", nil
}

// addConfiguredGit is addConfigured for the repository of an entry named .git.
func (p *autorunProtection) addConfiguredGit(e gitEntry) error {
	link := filepath.Join(p.real, e.name)
	dir := link
	if !e.mode.IsDir() {
		content := string(p.readFile(e.name, 4<<10))
		dir = gitdir.ConfigPath(filepath.Dir(link), strings.TrimSpace(strings.TrimPrefix(content, "gitdir:")))
		if !paths.Inside(p.real, dir) {
			src, ok := gitdir.Locate(link, content)
			if !ok {
				return nil
			}
			dir = src.Host
		} else if isInGit(dir) {
			return nil // a worktree or submodule of another entry
		}
	}
	_, err := p.addConfigured(dir, filepath.Dir(link))
	return err
}

// canRead reports whether this user may list a directory.
func (p *autorunProtection) canRead(name string) bool {
	fd, err := p.openDir(name)
	if err != nil {
		return !errors.Is(err, os.ErrPermission)
	}
	return unix.Close(fd) == nil
}

// A lateAttempt is when a repository that could not be protected is tried again: at first what writes
// to it, such as git clone, may be in the way; later each attempt, which freezes the workload, is rare.
type lateAttempt struct {
	wait time.Duration
	next time.Time
}

// lateRetry says when guardRepos looks again without an event. Nothing tells that git has replaced
// a protected file of a repository that is shown itself, as it does at the end of a clone.
func (g *guestConn) lateRetry(pending bool, wait time.Duration, failed map[string]lateAttempt) <-chan time.Time {
	var waits []time.Duration
	if pending {
		waits = append(waits, min(wait, lateInterval))
	}
	if g.spec.level.mountsLate() {
		if g.spec.gitShared {
			waits = append(waits, max(wait, lateFirst))
		}
		for _, a := range failed {
			waits = append(waits, time.Until(a.next))
		}
	}
	if len(waits) == 0 {
		return nil
	}
	return time.After(slices.Min(waits))
}

// guardRepos protects repositories that appear while commands run, and reports them, until
// the connection ends.
func (h *handle) guardRepos(g *guestConn) {
	var again <-chan time.Time
	var reported []lateGit
	failed := map[string]lateAttempt{} // what can't be protected, by path and identity: it delays no protection of others
	for wait := time.Duration(0); ; {
		select {
		case <-h.p.ctx.Done():
			return
		case <-g.Gone():
			return
		case <-g.gits.done:
			return
		case <-g.gits.appeared:
			wait = lateFirst
		case <-again:
			wait = min(2*wait, lateLast)
		}
		open, pending := g.openRepos()
		ids := map[string]lateAttempt{}
		for _, e := range open {
			id := g.gits.identity(e)
			ids[id] = failed[id]
		}
		failed = ids
		due := g.spec.level.mountsLate() && slices.ContainsFunc(slices.Collect(maps.Values(ids)), func(a lateAttempt) bool { return !time.Now().Before(a.next) })
		if due {
			left, err := h.protectFrozen(g)
			for id, a := range failed {
				if slices.ContainsFunc(left, func(at string) bool { return strings.HasPrefix(id, at+"\x00") }) {
					a.wait = min(max(2*a.wait, lateFirst), lateLast)
					a.next = time.Now().Add(a.wait)
					failed[id] = a
				} else {
					delete(failed, id)
				}
			}
			if err != nil {
				h.p.log.Warn("sandbox: repositories that appeared can't be protected while the workload runs", "workspace", h.id, "error", err)
			}
		}
		again = g.lateRetry(pending, wait, failed)
		if len(open) == 0 {
			continue
		}
		if !slices.Equal(open, reported) {
			reported = open
			h.reportNow()
		}
	}
}

// identity tells an entry from another one at the same path.
func (w *gitWatch) identity(e lateGit) string {
	var st unix.Statx_t
	unix.Statx(unix.AT_FDCWD, w.host(e), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st) //nolint:errcheck // it may be gone
	return w.inside(e) + "\x00" + directoryStamp(&st)
}

// protectFrozen is protectRepos while the workload is frozen, where it can be.
func (h *handle) protectFrozen(g *guestConn) ([]string, error) {
	ctx, cancel := context.WithTimeout(h.p.ctx, time.Minute)
	defer cancel()
	if _, done, err := h.acquireFreeze(ctx); err == nil && done != nil {
		defer done()
	}
	return h.protectRepos(ctx, g, false)
}

// reportNow scans, and keeps what was found for the next result. It does not put off the scan
// after the command, and takes at most a tenth of the time itself.
func (h *handle) reportNow() {
	h.autorun.mu.Lock()
	start, next, due := time.Now(), h.autorun.next, h.autorun.nextNow
	h.autorun.mu.Unlock()
	if start.Before(due) {
		return
	}
	found, _ := h.autorunChanges(true)
	h.autorun.mu.Lock()
	defer h.autorun.mu.Unlock()
	h.autorun.queued = append(h.autorun.queued, found...)
	h.autorun.next, h.autorun.nextNow = next, time.Now().Add(scanPause*time.Since(start))
}

// loadPartial reads which copies are partial.
func (g *guestConn) loadPartial(h *handle) error {
	copies, err := gitdir.Read(h.att.Dir)
	if err == nil {
		g.setPartial(copies.List)
	}
	return err
}
