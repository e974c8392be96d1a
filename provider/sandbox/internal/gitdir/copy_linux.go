package gitdir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// makeCopy makes the private copy of a Git directory below dir, of at most so many bytes.
func makeCopy(dir string, src Source, most int64) (Copy, error) {
	c := Copy{Path: src.Path, ID: driver.NewID(), Worktree: src.worktree, Link: src.link}
	fresh := filepath.Join(dir, newPrefix+c.ID)
	w := &copier{dir: fresh, inside: path.Join(Inside, c.ID), worktree: src.worktree, most: most}
	whole := src.link || IsWhole(src.Host)
	err := w.copyAll(src)
	if err == nil {
		err = os.Rename(fresh, filepath.Join(dir, c.ID))
	}
	if err != nil {
		return c, errors.Join(fmt.Errorf("make a private copy of %s: %w: %w", src.Path, fault.Of(err), err), files.RemoveTree(fresh))
	}
	c.Repos, c.Bytes, c.Partial = w.repos, w.bytes, !whole
	c.Refs = c.RefsDigest(dir)
	return c, nil
}

// A copier makes one private copy.
type copier struct {
	dir      string // of the copy, on the host
	inside   string // its path inside
	worktree string
	repos    []Repo
	bytes    int64
	most     int64 // of bytes
	entries  int
}

func (w *copier) copyAll(src Source) error {
	if err := os.MkdirAll(filepath.Join(w.dir, "git"), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(w.dir, "objects"), 0o755); err != nil {
		return err
	}
	dst, err := entry.OpenDir(unix.AT_FDCWD, filepath.Join(w.dir, "git"))
	if err != nil {
		return err
	}
	defer unix.Close(dst) //nolint:errcheck // a directory
	if err := w.copyRepo(src.FD, dst, "", src.Host); err != nil {
		return err
	}
	if src.top != "" {
		config, err := os.OpenFile(filepath.Join(w.dir, "git", "config"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(src.top)
		_, err = config.WriteString("\n[core]\n\tworktree = \"" + quoted + "\"\n")
		if err = errors.Join(err, config.Close()); err != nil {
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

// skipped are left out of a copy: large content of extensions.
var skipped = []string{"lfs", "annex"}

// copyRepo copies a Git directory. sub is its path in the copy.
func (w *copier) copyRepo(src, dst int, sub, host string) error {
	number := len(w.repos)
	w.repos = append(w.repos, Repo{Host: host, Sub: sub})
	objects := filepath.Join(w.dir, "objects", strconv.Itoa(number))
	if err := os.Mkdir(objects, 0o755); err != nil {
		return err
	}
	return w.eachEntry(src, func(e os.DirEntry) error {
		name := e.Name()
		switch {
		case slices.Contains(skipped, name):
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
func (w *copier) copyWorktrees(src, dst int, sub, host string) error {
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
func (w *copier) copyModules(src, dst int, sub, host string, depth int) error {
	if depth > entry.MaxDepth {
		return fmt.Errorf("%s lies more than %d directories deep: %w", sub, entry.MaxDepth, fault.ResourceExhausted)
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
func (w *copier) copyObjects(src, dst int, links, inside string) error {
	return w.inDirs(src, dst, "objects", func(src, dst int) error {
		to, err := entry.OpenDir(unix.AT_FDCWD, links)
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
		if info, err := entry.OpenDir(src, "info"); err == nil { // further alternates work inside only if they are shown there
			data, _ := entry.ReadRegular(info, "alternates", maxConfigSize)
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
func (w *copier) linkTree(src, dst, depth int) error {
	if depth > entry.MaxDepth {
		return fmt.Errorf("objects: %w", fault.ResourceExhausted)
	}
	return w.eachEntry(src, func(e os.DirEntry) error {
		name := e.Name()
		switch {
		case e.IsDir():
			return w.inDirs(src, dst, name, func(src, dst int) error { return w.linkTree(src, dst, depth+1) })
		case !e.Type().IsRegular() || name == "alternates" || name == "http-alternates" || isTemp(name):
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
func (w *copier) mayLink(src int, name string) bool {
	if os.Geteuid() != 0 {
		return true
	}
	var st unix.Stat_t
	err := unix.Fstatat(src, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && (st.Uid == 0 || st.Mode&0o004 != 0)
}

// maxFile bounds a file besides objects: Git makes no larger one, but a workload can.
const maxFile = 1 << 30

// copyEntry copies a file or directory as it is, and a symlink as a symlink. Sockets,
// FIFOs and devices are left out. at is its path in the copy.
func (w *copier) copyEntry(src, dst int, e os.DirEntry, at string, depth int) error {
	name := e.Name()
	switch {
	case depth > entry.MaxDepth:
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
	case !e.Type().IsRegular() || isTemp(name):
		return nil
	}
	return w.copyFile(src, dst, name, at, maxFile)
}

// copyFile copies a regular file of at most so many bytes, without credentials: see
// secret.GitFile.
func (w *copier) copyFile(src, dst int, name, at string, most int64) error {
	clean, leaveOut := secret.GitFile(at)
	if clean != nil {
		most = secret.MaxGitFile
	}
	if leaveOut {
		return nil
	}
	from, st, err := entry.OpenRegular(src, name)
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
func (w *copier) eachEntry(fd int, f func(os.DirEntry) error) error {
	again, err := entry.OpenDir(fd, ".")
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(again), fmt.Sprintf("/proc/self/fd/%d", again))
	entries, err := dir.ReadDir(-1)
	dir.Close()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if w.entries += len(entries); w.entries > maxEntries {
		return fmt.Errorf("%w: it contains more than %d files", fault.ResourceExhausted, maxEntries)
	}
	for _, e := range entries {
		if err := f(e); err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	return nil
}

// inDirs calls f with the directory name of src and a new one of that name in dst.
func (w *copier) inDirs(src, dst int, name string, f func(src, dst int) error) error {
	from, err := entry.OpenDir(src, name)
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
	to, err := entry.OpenDir(dst, name)
	if err != nil {
		return err
	}
	defer unix.Close(to) //nolint:errcheck // a directory
	return f(from, to)
}

// CleanTree writes clean forms of the files with credentials in the Git directories of a tree,
// below the new directory to: see secret.GitFile. found says whether there are such files.
func CleanTree(tree, to string) (found bool, err error) {
	if err := errors.Join(files.RemoveTree(to), os.Mkdir(to, 0o755)); err != nil {
		return false, err
	}
	from, err := os.OpenRoot(tree)
	if err != nil {
		return false, err
	}
	defer from.Close() //nolint:errcheck // it was only read
	// The names come without the root, which looks at each directory above: a third of the time.
	err = filepath.WalkDir(tree, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || !e.Type().IsRegular():
			return err
		}
		name = strings.TrimPrefix(name[len(tree):], "/")
		clean, leaveOut := gitFileOf(from, name)
		if clean == nil && !leaveOut {
			return nil
		}
		wrote, err := writeClean(from, to, name, clean)
		found = found || wrote
		return err
	})
	return found, err
}

// gitFileOf is secret.GitFile for a file of a tree: a Git directory is named .git or NAME.git,
// or has HEAD, objects and refs.
func gitFileOf(root *os.Root, name string) (clean func([]byte) []byte, leaveOut bool) {
	for i := range name {
		if name[i] != '/' {
			continue
		}
		dir := path.Base(name[:i])
		if autorun.IsGit(dir) || strings.HasSuffix(dir, ".git") {
			return secret.GitFile(name[i+1:])
		}
	}
	// Git takes a directory of any name for a repository.
	if clean, leaveOut = secret.GitFile(path.Base(name)); clean == nil && !leaveOut {
		return nil, false
	}
	for _, part := range []string{"HEAD", "objects", "refs"} {
		if _, err := root.Lstat(path.Join(path.Dir(name), part)); err != nil {
			return nil, false
		}
	}
	return clean, leaveOut
}

// writeClean writes the clean form of a file below to, with the modes of the tree. What is
// left out, and what is too large to be cleaned, is empty.
func writeClean(from *os.Root, to, name string, clean func([]byte) []byte) (wrote bool, err error) {
	f, err := from.Open(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	var data []byte
	if clean != nil && info.Size() <= secret.MaxGitFile {
		was, err := io.ReadAll(io.LimitReader(f, secret.MaxGitFile))
		if err != nil {
			return false, err
		}
		if data = clean(was); bytes.Equal(data, was) {
			return false, nil
		}
	}
	for i := range name {
		if name[i] != '/' {
			continue
		}
		dir, err := from.Stat(name[:i])
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, name[:i]), dir.Mode().Perm()|0o700)
		}
		if err == nil {
			err = os.Chmod(filepath.Join(to, name[:i]), dir.Mode().Perm()|0o700) // whatever the umask
		}
		if err != nil {
			return false, err
		}
	}
	at := filepath.Join(to, name)
	return true, errors.Join(os.WriteFile(at, data, 0o600), os.Chmod(at, info.Mode().Perm()))
}
