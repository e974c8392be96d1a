package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// Each .git of a directory in place is a private copy inside: a mount hides the host's.
// The copy is made when a guest first meets the .git, and stays with the workspace. It
// contains HEAD, refs, index, logs, configuration and hooks of the host; objects are hard
// links in a directory of their own, which is mounted read-only and is an alternate of the
// copy. (A hard link shares its inode with the host, so the workload must never have it in
// a writable mount.) Nothing here runs git, and nothing is read through a symlink.

const (
	gitName   = "git"                // in the directory of a workspace: the private copies
	gitInside = "/var/lib/croft/git" // where gitName is mounted, read-only

	emptyGitDir  = "empty" // below gitName: hides directories that can't be read
	newGitPrefix = ".new-" // prefix of the names of incomplete copies

	// maxGitCopied bounds the bytes, and maxGitEntries the files, of one copy, and
	// maxGitTotal the bytes of all copies of a workspace. Hard links and holes count no
	// bytes.
	maxGitCopied  = 8 << 30
	maxGitTotal   = 32 << 30
	maxGitEntries = 2_000_000
)

// gitCopiesSection is the section of the state with the private copies.
const gitCopiesSection = wsdir.Section[[]gitCopy]("git")

// A gitCopy is the private copy that stands for one .git of the host. Its directory, ID
// below gitName, contains git (the Git directory), objects/N (objects of repository N,
// read-only inside) and, for a .git that is a file, link (the file inside).
type gitCopy struct {
	Path     string    `json:"path"` // of the .git on the host
	ID       string    `json:"id"`
	Worktree string    `json:"worktree,omitempty"` // name of the linked worktree that Path belongs to
	Link     bool      `json:"link,omitempty"`     // Path is a file
	Refs     string    `json:"refs"`               // digest of the refs when the copy was made
	Bytes    int64     `json:"bytes,omitempty"`    // that were copied
	Partial  bool      `json:"partial,omitempty"`  // there was no commit yet, or git wrote: the copy is made again when that has ended, unless the workload has changed its refs
	Repos    []gitRepo `json:"repos"`
}

// A gitRepo is a repository in a private copy: the first is the copy itself, the others
// are repositories of submodules.
type gitRepo struct {
	Host string `json:"host"`          // Git directory on the host
	Sub  string `json:"sub,omitempty"` // path in the copy
}

// gitDirs returns the copies as driver.GitDirs. dir is gitName of the workspace.
func gitDirs(dir string, copies []gitCopy) []driver.GitDir {
	var list []driver.GitDir
	for _, c := range copies {
		for i, r := range c.Repos {
			g := driver.GitDir{Path: c.Path, Host: r.Host, Dir: filepath.Join(dir, c.ID, "git", r.Sub), Objects: filepath.Join(dir, c.ID, "objects", strconv.Itoa(i))}
			if i == 0 {
				g.Worktree = c.Worktree
			} else {
				g.Path = r.Host
			}
			list = append(list, g)
		}
	}
	return list
}

// gitDirs lists the private copies of the workspace.
func (h *handle) gitDirs(ctx context.Context) ([]driver.GitDir, error) {
	if _, err := h.att.Guest(ctx); err != nil { // which makes them
		return nil, err
	}
	m, err := h.att.Dir.Read()
	if err != nil {
		return nil, fmt.Errorf("sandbox: read the private Git directories: %w", err)
	}
	list, err := gitCopiesSection.Get(m)
	if err != nil || list == nil {
		return nil, err
	}
	return gitDirs(h.p.store.Path(h.id, gitName), *list), nil
}

// loadGitCopies reads which private copies there are, and removes leftovers.
func (u *launchSpec) loadGitCopies(d wsdir.Dir) error {
	u.git = new([]gitCopy)
	if !u.showsHostDirs() {
		return nil
	}
	m, err := d.Read()
	if err != nil {
		return err
	}
	list, err := gitCopiesSection.Get(m)
	if err != nil {
		return err
	}
	if list != nil {
		u.git = list
	}
	return sweepGitCopies(u.gitDir, *u.git)
}

// privateGit returns the private copy that stands for a .git of the host, and makes it if
// there is none. A copy stays what it is when the host's repository changes.
func (u *launchSpec) privateGit(src gitSource) (gitCopy, error) {
	for i, c := range *u.git {
		if _, err := os.Lstat(filepath.Join(u.gitDir, c.ID)); err != nil || c.Path != src.path || c.Link != src.link {
			continue
		}
		if c.Partial && isWholeGit(src.host) && c.refsDigest(u.gitDir) == c.Refs {
			*u.git = slices.Delete(slices.Clone(*u.git), i, i+1)
			break
		}
		return c, nil
	}
	most := int64(maxGitTotal)
	for _, c := range *u.git {
		most -= c.Bytes
	}
	c, err := copyGit(u.gitDir, src, min(most, maxGitCopied))
	if err == nil {
		*u.git = append(*u.git, c)
	}
	return c, err
}

// gitStoreMounts returns the mount of the directory of the private copies, in which their
// objects are.
func (u *launchSpec) gitStoreMounts() ([]guestproto.Mount, error) {
	if u.git == nil || len(*u.git) == 0 && len(u.writableDirs()) == 0 {
		return nil, nil
	}
	if err := u.makeGitTemplate(); err != nil {
		return nil, err
	}
	return []guestproto.Mount{{Kind: guestproto.MountBind, Source: u.gitDir, Target: gitInside, ReadOnly: true}}, nil
}

// makeGitTemplate makes what git copies into a repository that it makes inside, see isOwnGit.
func (u *launchSpec) makeGitTemplate() error {
	dir := filepath.Join(u.gitDir, gitTemplateDir)
	for _, sub := range []string{"hooks", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, ownGitFile), []byte("Git made this repository in a workspace of Croft.\n"), 0o644)
}

// isShown reports whether a path of the host is shown inside.
func (u *launchSpec) isShown(path string) bool {
	if u.hostDir && paths.Inside(u.guestDir, path) {
		return true
	}
	return slices.ContainsFunc(u.binds, func(b Bind) bool { return !b.Empty && paths.Inside(b.Dir, path) })
}

// sweepGitCopies removes copies that are not listed: incomplete ones, and those of a
// process that died before it recorded them.
func sweepGitCopies(dir string, copies []gitCopy) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		known := slices.ContainsFunc(copies, func(c gitCopy) bool { return c.ID == e.Name() })
		if err == nil && !known {
			err = files.RemoveTree(filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// A gitSource is a Git directory of the host to copy.
type gitSource struct {
	fd       int    // descriptor of the Git directory
	host     string // its path
	path     string // of the .git that the copy stands for
	worktree string // linked worktree: its name; other worktrees are left out
	top      string // submodule outside: its working tree, which its configuration names relative to the host's place
	link     bool   // path is a file
}

// copyGit makes the private copy of a Git directory below dir, of at most so many bytes.
func copyGit(dir string, src gitSource, most int64) (gitCopy, error) {
	c := gitCopy{Path: src.path, ID: driver.NewID(), Worktree: src.worktree, Link: src.link}
	fresh := filepath.Join(dir, newGitPrefix+c.ID)
	w := &gitCopier{dir: fresh, inside: path.Join(gitInside, c.ID), worktree: src.worktree, most: most}
	whole := src.link || isWholeGit(src.host)
	err := w.copyAll(src)
	if err == nil {
		err = os.Rename(fresh, filepath.Join(dir, c.ID))
	}
	if err != nil {
		return c, errors.Join(fmt.Errorf("make a private copy of %s: %w: %w", src.path, fault.Of(err), err), files.RemoveTree(fresh))
	}
	c.Repos, c.Bytes, c.Partial = w.repos, w.bytes, !whole
	c.Refs = c.refsDigest(dir)
	return c, nil
}

// refsDigest returns a digest of the refs of a copy below dir, with those of its linked
// worktrees.
func (c *gitCopy) refsDigest(dir string) string {
	fd, err := openDirAt(unix.AT_FDCWD, filepath.Join(dir, c.ID, "git"))
	if err != nil {
		return ""
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	names := []string{"HEAD", "packed-refs", "refs"}
	if c.Worktree != "" {
		names = append(names, path.Join("worktrees", c.Worktree, "HEAD"))
	}
	sum := sha256.New()
	for _, name := range names {
		new(autorunScan).hashEntry(fd, name, 0, new(int), sum)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}

// privateCommits lists the repositories in whose private copy refs changed since the copy
// was made or since the last call.
func (h *handle) privateCommits() []string {
	if h.dir.State().Dir == "" && len(h.currentOptions().Binds) == 0 {
		return nil
	}
	m, err := h.att.Dir.Read()
	if err != nil {
		return nil
	}
	list, err := gitCopiesSection.Get(m)
	if err != nil || list == nil {
		return nil
	}
	h.autorun.mu.Lock()
	defer h.autorun.mu.Unlock()
	if h.autorun.refs == nil {
		h.autorun.refs = map[string]string{}
	}
	var changed []string
	for _, c := range *list {
		was, seen := h.autorun.refs[c.ID]
		if !seen {
			was = c.Refs
		}
		now := c.refsDigest(h.p.store.Path(h.id, gitName))
		if h.autorun.refs[c.ID] = now; now != was {
			changed = append(changed, c.Path)
		}
	}
	return changed
}

// A gitCopier makes one private copy.
type gitCopier struct {
	dir      string // of the copy, on the host
	inside   string // its path inside
	worktree string
	repos    []gitRepo
	bytes    int64
	most     int64 // of bytes
	entries  int
}

func (w *gitCopier) copyAll(src gitSource) error {
	if err := os.MkdirAll(filepath.Join(w.dir, "git"), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(w.dir, "objects"), 0o755); err != nil {
		return err
	}
	dst, err := openDirAt(unix.AT_FDCWD, filepath.Join(w.dir, "git"))
	if err != nil {
		return err
	}
	defer unix.Close(dst) //nolint:errcheck // a directory
	if err := w.copyRepo(src.fd, dst, "", src.host); err != nil {
		return err
	}
	if src.top != "" {
		if err := appendConfig(filepath.Join(w.dir, "git", "config"), "[core]\n\tworktree = "+quoteGitValue(src.top)+"\n"); err != nil {
			return err
		}
	}
	if !src.link {
		return nil
	}
	to := path.Join(w.inside, "git")
	if src.worktree != "" {
		to = path.Join(to, "worktrees", src.worktree)
	}
	return os.WriteFile(filepath.Join(w.dir, "link"), []byte("gitdir: "+to+"\n"), 0o644)
}

// openDirAt opens a directory without following a symlink at its end.
func openDirAt(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// skippedInGit are left out of a copy: large content of extensions.
var skippedInGit = []string{"lfs", "annex"}

// copyRepo copies a Git directory. sub is its path in the copy.
func (w *gitCopier) copyRepo(src, dst int, sub, host string) error {
	number := len(w.repos)
	w.repos = append(w.repos, gitRepo{Host: host, Sub: sub})
	objects := filepath.Join(w.dir, "objects", strconv.Itoa(number))
	if err := os.Mkdir(objects, 0o755); err != nil {
		return err
	}
	return w.eachEntry(src, func(e os.DirEntry) error {
		name := e.Name()
		switch {
		case slices.Contains(skippedInGit, name):
			return nil
		case name == "objects" && e.IsDir():
			return w.copyObjects(src, dst, objects, path.Join(w.inside, "objects", strconv.Itoa(number)))
		case name == "modules" && e.IsDir() && w.worktree != "":
			return nil // a linked worktree has its own
		case name == "modules" && e.IsDir():
			return w.inDirs(src, dst, name, func(src, dst int) error {
				return w.copyModules(src, dst, path.Join(sub, name), filepath.Join(host, name), 0)
			})
		case name == "worktrees" && e.IsDir():
			return w.inDirs(src, dst, name, func(src, dst int) error {
				return w.copyWorktrees(src, dst, path.Join(sub, name), filepath.Join(host, name))
			})
		}
		return w.copyEntry(src, dst, e, path.Join(sub, name), 0)
	})
}

// copyWorktrees copies what a repository knows of its linked worktrees.
func (w *gitCopier) copyWorktrees(src, dst int, sub, host string) error {
	return w.eachEntry(src, func(tree os.DirEntry) error {
		name := tree.Name()
		if !tree.IsDir() || w.worktree != "" && name != w.worktree {
			return nil
		}
		return w.inDirs(src, dst, name, func(src, dst int) error {
			return w.eachEntry(src, func(e os.DirEntry) error {
				if e.Name() != "modules" || !e.IsDir() {
					return w.copyEntry(src, dst, e, path.Join(sub, name, e.Name()), 0)
				}
				return w.inDirs(src, dst, e.Name(), func(src, dst int) error {
					return w.copyModules(src, dst, path.Join(sub, name, "modules"), filepath.Join(host, name, "modules"), 0)
				})
			})
		})
	})
}

// copyModules copies the repositories of submodules, whose names may have slashes.
func (w *gitCopier) copyModules(src, dst int, sub, host string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s lies more than %d directories deep: %w", sub, maxDepth, fault.ResourceExhausted)
	}
	return w.eachEntry(src, func(e os.DirEntry) error {
		name := e.Name()
		if !e.IsDir() {
			return nil
		}
		return w.inDirs(src, dst, name, func(src, dst int) error {
			var st unix.Stat_t
			if unix.Fstatat(src, "HEAD", &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
				return w.copyRepo(src, dst, path.Join(sub, name), filepath.Join(host, name))
			}
			return w.copyModules(src, dst, path.Join(sub, name), filepath.Join(host, name), depth+1)
		})
	})
}

// copyObjects makes hard links of the objects in the directory links, and a directory
// objects that borrows them; inside is the path of links inside.
func (w *gitCopier) copyObjects(src, dst int, links, inside string) error {
	return w.inDirs(src, dst, "objects", func(src, dst int) error {
		to, err := openDirAt(unix.AT_FDCWD, links)
		if err != nil {
			return err
		}
		defer unix.Close(to) //nolint:errcheck // a directory
		if err := w.linkTree(src, to, 0); err != nil {
			return err
		}
		for _, name := range []string{"info", "pack"} {
			if err := unix.Mkdirat(dst, name, 0o755); err != nil {
				return err
			}
		}
		borrowed := inside + "\n"
		if info, err := openDirAt(src, "info"); err == nil { // further alternates work inside only if they are shown there
			data, _ := readRegular(info, "alternates", maxConfigSize)
			borrowed += string(data)
			unix.Close(info) //nolint:errcheck // a directory
		}
		fd, err := unix.Openat(dst, "info/alternates", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "alternates")
		_, err = f.WriteString(borrowed)
		return errors.Join(err, f.Close())
	})
}

// linkTree makes hard links of all files of a directory of objects, or copies where that
// is impossible. Symlinks are left out.
func (w *gitCopier) linkTree(src, dst, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("objects: %w", fault.ResourceExhausted)
	}
	return w.eachEntry(src, func(e os.DirEntry) error {
		name := e.Name()
		switch {
		case e.IsDir():
			return w.inDirs(src, dst, name, func(src, dst int) error { return w.linkTree(src, dst, depth+1) })
		case !e.Type().IsRegular() || name == "alternates" || name == "http-alternates" || isGitTemp(name):
			return nil
		}
		if w.mayLink(src, name) && unix.Linkat(src, name, dst, name, 0) == nil {
			return nil
		}
		return w.copyFile(src, dst, name, "objects/"+name, math.MaxInt64)
	})
}

// mayLink reports whether the workload can read a hard link of a file: where Croft is root,
// the file may belong to another user.
func (w *gitCopier) mayLink(src int, name string) bool {
	if os.Geteuid() != 0 {
		return true
	}
	var st unix.Stat_t
	err := unix.Fstatat(src, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && (st.Uid == 0 || st.Mode&0o004 != 0)
}

// isGitTemp reports whether git is writing a file of that name.
func isGitTemp(name string) bool {
	return strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_")
}

// maxGitFile bounds a file besides objects: Git makes no larger one, but a workload can.
const maxGitFile = 1 << 30

// copyEntry copies a file or directory as it is, and a symlink as a symlink. Sockets,
// FIFOs and devices are left out. at is its path in the copy.
func (w *gitCopier) copyEntry(src, dst int, e os.DirEntry, at string, depth int) error {
	name := e.Name()
	switch {
	case depth > maxDepth:
		return fmt.Errorf("%s: %w: it is nested too deep", name, fault.ResourceExhausted)
	case e.IsDir():
		return w.inDirs(src, dst, name, func(src, dst int) error {
			return w.eachEntry(src, func(e os.DirEntry) error { return w.copyEntry(src, dst, e, path.Join(at, e.Name()), depth+1) })
		})
	case e.Type()&os.ModeSymlink != 0:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(src, name, buf)
		if err != nil {
			return nil // gone or replaced
		}
		return unix.Symlinkat(string(buf[:n]), dst, name)
	case !e.Type().IsRegular() || isGitTemp(name):
		return nil
	}
	return w.copyFile(src, dst, name, at, maxGitFile)
}

// copyFile copies a regular file of at most so many bytes, without credentials: see
// secret.GitFile.
func (w *gitCopier) copyFile(src, dst int, name, at string, most int64) error {
	clean, leaveOut := secret.GitFile(at)
	if clean != nil {
		most = secret.MaxGitFile
	}
	if leaveOut {
		return nil
	}
	from, st, err := openRegular(src, name)
	if errors.Is(err, os.ErrNotExist) || err == nil && from == nil {
		return nil // gone or replaced
	}
	if err != nil {
		return err
	}
	defer from.Close()
	if st.Size > most {
		return nil
	}
	fd, err := unix.Openat(dst, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, st.Mode&0o777|0o400)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), name)
	switch {
	case clean != nil:
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(from, most)); err == nil {
			_, err = to.Write(clean(data))
		}
	case unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil:
	default:
		var n int64
		n, err = copySparse(to, from, w.most-w.bytes+1)
		if w.bytes += n; err == nil && w.bytes > w.most {
			err = fmt.Errorf("%w: it is larger than %d bytes", fault.ResourceExhausted, w.most)
		}
	}
	return errors.Join(err, to.Close())
}

// copySparse copies at most so many bytes of data of a file, and keeps its holes. It
// returns how many bytes it copied.
func copySparse(to, from *os.File, most int64) (n int64, err error) {
	info, err := from.Stat()
	if err != nil {
		return 0, err
	}
	for end := int64(0); end < info.Size() && n < most; {
		start, err := unix.Seek(int(from.Fd()), end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // a hole up to the end
		}
		if err == nil {
			end, err = unix.Seek(int(from.Fd()), start, unix.SEEK_HOLE)
		}
		if err != nil {
			return n, err
		}
		copied, err := io.Copy(io.NewOffsetWriter(to, start), io.NewSectionReader(from, start, min(end-start, most-n)))
		if n += copied; err != nil {
			return n, err
		}
	}
	return n, to.Truncate(info.Size())
}

// eachEntry calls f for each entry of a directory.
func (w *gitCopier) eachEntry(fd int, f func(os.DirEntry) error) error {
	again, err := openDirAt(fd, ".")
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(again), fmt.Sprintf("/proc/self/fd/%d", again))
	entries, err := dir.ReadDir(-1)
	dir.Close()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if w.entries += len(entries); w.entries > maxGitEntries {
		return fmt.Errorf("%w: it contains more than %d files", fault.ResourceExhausted, maxGitEntries)
	}
	for _, e := range entries {
		if err := f(e); err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	return nil
}

// inDirs calls f with the directory name of src and a new one of that name in dst.
func (w *gitCopier) inDirs(src, dst int, name string, f func(src, dst int) error) error {
	from, err := openDirAt(src, name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // gone or replaced
	}
	if err != nil {
		return err
	}
	defer unix.Close(from) //nolint:errcheck // a directory
	if err := unix.Mkdirat(dst, name, 0o755); err != nil {
		return err
	}
	to, err := openDirAt(dst, name)
	if err != nil {
		return err
	}
	defer unix.Close(to) //nolint:errcheck // a directory
	return f(from, to)
}

// openRegular opens a regular file of a directory; nil if it is another type. It never
// blocks on a FIFO and follows no symlink.
func openRegular(dir int, name string) (*os.File, *unix.Stat_t, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd) //nolint:errcheck // it was only looked at
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), name), &st, nil
}

// readRegular returns the beginning of a regular file of a directory.
func readRegular(dir int, name string, most int64) ([]byte, error) {
	f, _, err := openRegular(dir, name)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// appendConfig appends text to a Git configuration.
func appendConfig(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + text)
	return errors.Join(err, f.Close())
}

// quoteGitValue quotes a value for a Git configuration.
func quoteGitValue(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// locateGitDir finds the Git directory outside a shown directory that the .git file at
// link, with the given content, names. ok is false unless that Git directory is a linked
// worktree or a submodule that names link in turn: a workload can write a .git file that
// names another repository of the user.
func locateGitDir(link, content string) (src gitSource, ok bool) {
	name, ok := strings.CutPrefix(content, "gitdir:")
	if !ok {
		return src, false
	}
	dir, err := evalFrom(filepath.Dir(link), strings.TrimSpace(name))
	if err != nil {
		return src, false
	}
	read := func(name string) (string, bool) {
		fd, err := openDirAt(unix.AT_FDCWD, dir)
		if err != nil {
			return "", false
		}
		defer unix.Close(fd) //nolint:errcheck // a directory
		data, err := readRegular(fd, name, maxConfigSize)
		return strings.TrimSpace(string(data)), err == nil && data != nil
	}
	if common, ok := read("commondir"); ok {
		back, _ := read("gitdir")
		at, err := evalFrom(dir, back)
		host, cerr := evalFrom(dir, common)
		// Of these, only the directories above could be anywhere.
		linked := filepath.Join(host, "worktrees", filepath.Base(dir)) == dir
		return gitSource{host: host, path: link, worktree: filepath.Base(dir), link: true}, err == nil && cerr == nil && at == link && linked
	}
	config, _ := read("config")
	top := parseGitConfig(config).worktree
	at, err := evalFrom(dir, top)
	return gitSource{host: dir, path: link, top: filepath.Dir(link), link: true}, top != "" && err == nil && at == filepath.Dir(link)
}

// evalFrom returns the path without symlinks of a name that is relative to dir.
func evalFrom(dir, name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return filepath.EvalSymlinks(name)
}
