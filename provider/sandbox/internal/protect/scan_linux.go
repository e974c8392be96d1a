package protect

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
)

const (
	// maxScanned bounds the entries, and maxRepos the repositories, of one scan. A guest is
	// not started for a larger directory: what was not scanned can't be protected.
	maxScanned = 2_000_000
	maxRepos   = 2_000

	maxFailures = 10 // directories that are too deep; then the scan ends
)

// An scan lists the autorun files of a directory of the user. Names are relative to
// it.
type scan struct {
	gits       []gitEntry        // entries named .git
	repos      []string          // directories that Git takes for a repository; with shared, .git and its submodules, too
	files      []string          // other autorun files, see package autorun
	unreadable []string          // directories that this user may not read
	failures   []error           // what was not scanned, and why
	stamps     map[string]string // of each autorun file, by name: changes with its content
	visited    int
	fifos      int               // FIFOs, which have stamps, too
	onlyFIFOs  bool              // the directory is read-only
	shared     bool              // the workload writes .git itself, so what is in it counts
	private    map[string]string // by name, the stamp of each .git in which nothing counts while it has this stamp; nil for all, see scanFiles
	topFD      int               // descriptor of the directory, during the scan
	real       string            // its path
}

// A gitEntry is an entry named .git.
type gitEntry struct {
	name string
	mode os.FileMode // the type
}

// scanFiles scans a directory for autorun files. It follows no symlinks. before are the
// stamps of an earlier scan: what it names gets a stamp again. shared says that the
// workload can write what is in .git. Otherwise private has the stamps of those that private
// copies have covered since the guest started; nil is for a scan before that, in which none
// counts. On an error, and if there are failures, the scan has what was found until then.
func scanFiles(dir string, shared bool, private, before map[string]string) (*scan, error) {
	s := &scan{stamps: map[string]string{}, shared: shared, private: private}
	return s, s.scan(dir, before)
}

// scanFIFOs scans a directory for FIFOs alone. The workload can use one also in a directory
// that is read-only.
func scanFIFOs(dir string) (*scan, error) {
	s := &scan{stamps: map[string]string{}, onlyFIFOs: true}
	return s, s.scan(dir, nil)
}

func (s *scan) scan(dir string, before map[string]string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		if s.topFD, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			defer unix.Close(s.topFD) //nolint:errcheck // it was only read
			s.real, err = os.Readlink(s.procPath())
		}
		err = errors.Join(err, s.walkDir(fd, "", 0, false))
		for name := range before {
			if s.stamps[name] == "" {
				s.addStamp(s.topFD, name, name)
			}
			if s.stamps[name] == "" && before[name] == absentStamp {
				s.stamps[name] = absentStamp
			}
		}
	}
	if err != nil {
		return fmt.Errorf("scan %s for autorun files: %w: %w", dir, fault.Of(err), err)
	}
	return nil
}

// walkDir scans a directory and all below it. It closes fd.
func (s *scan) walkDir(fd int, rel string, depth int, crowd bool) error {
	dir := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a directory that was removed is empty
		return err
	}
	if s.visited += len(entries); s.visited > maxScanned {
		return fmt.Errorf("it contains more than %d files: %w: name the directory of the project", maxScanned, fault.ResourceExhausted)
	}
	if !s.onlyFIFOs && isBareRepo(entries) { // what is in it is scanned all the same: anyone can make a directory with these names
		if err := s.addRepo(fd, rel); err != nil {
			return err
		}
	}
	for _, e := range entries {
		name, at := e.Name(), path.Join(rel, e.Name())
		if e.Type()&os.ModeNamedPipe != 0 {
			s.addFIFO(fd, name, at)
		}
		if name == ".git" && !s.onlyFIFOs {
			if err := s.addGit(fd, at, e.Type()); err != nil {
				return err
			}
			continue
		}
		if !s.onlyFIFOs {
			s.addFiles(fd, name, at, crowd)
		}
		if !e.IsDir() {
			continue
		}
		if err := s.walkSubdir(fd, name, at, depth, crowd || slices.Contains(autorun.PackageDirs, name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) walkSubdir(fd int, name, at string, depth int, crowd bool) error {
	if depth >= entry.MaxDepth {
		if len(s.failures) == maxFailures {
			return fmt.Errorf("more than %d directories lie too deep: %w", maxFailures, fault.ResourceExhausted)
		}
		s.failures = append(s.failures, fmt.Errorf("%s lies more than %d directories deep, and is not scanned for autorun files: %w", filepath.Join(s.real, at), entry.MaxDepth, fault.ResourceExhausted))
		return nil
	}
	sub, err := entry.OpenDir(fd, name)
	if s.addUnreadable(at, err) || err != nil {
		return nil // hidden inside; or gone, or replaced
	}
	return s.walkDir(sub, at, depth+1, crowd)
}

// addUnreadable adds a directory that this user may not read: the workload, which is the
// same user, could change its mode.
func (s *scan) addUnreadable(at string, err error) bool {
	if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return false
	}
	s.unreadable = append(s.unreadable, at)
	return true
}

// addGit adds an entry named .git, in the directory fd.
func (s *scan) addGit(fd int, at string, mode os.FileMode) error {
	if s.gits = append(s.gits, gitEntry{at, mode}); len(s.gits)+len(s.repos) > maxRepos {
		return errTooManyRepos
	}
	if !mode.IsDir() {
		s.addStamp(fd, ".git", at)
		return nil
	}
	var st unix.Statx_t
	if err := unix.Statx(fd, ".git", unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err == nil {
		s.stamps[at] = directoryStamp(&st)
	}
	sub, err := entry.OpenDir(fd, ".git")
	if s.addUnreadable(at, err) || err != nil {
		return nil
	}
	defer unix.Close(sub) //nolint:errcheck // it was only read
	if !s.shared && (s.private == nil || s.stamps[at] != "" && s.private[at] == s.stamps[at]) {
		return nil
	}
	if err := s.addRepo(sub, at); err != nil {
		return err
	}
	modules, err := entry.OpenDir(sub, "modules")
	if err != nil {
		return nil // no submodules
	}
	return s.walkDir(modules, path.Join(at, "modules"), 0, true)
}

var errTooManyRepos = fmt.Errorf("it contains more than %d repositories: %w: name the directory of the project", maxRepos, fault.ResourceExhausted)

// isBareRepo reports whether Git treats a directory itself as a repository: one with HEAD,
// and with objects and refs or a file that names where these are.
func isBareRepo(entries []os.DirEntry) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name })
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// gitRunFiles are what Git runs or includes in a repository. Those of an unfinished rebase
// or sequence may contain commands that "git rebase --continue" runs. They stay writable,
// because work in a repository needs them; changes are reported.
var gitRunFiles = []string{
	"config", "config.worktree", "commondir", "hooks", "info/attributes", "rebase-merge/git-rebase-todo", "rebase-apply", "sequencer/todo",
}

// addRepo adds a repository that the workload can write.
func (s *scan) addRepo(fd int, rel string) error {
	if s.repos = append(s.repos, rel); len(s.gits)+len(s.repos) > maxRepos {
		return errTooManyRepos
	}
	if rel != "" && s.stamps[rel] == "" {
		s.stamps[rel] = "repository"
	}
	for _, name := range gitRunFiles {
		s.addStamp(fd, name, path.Join(rel, name))
	}
	for _, name := range expandLast(fd, "worktrees/*") { // one is a Git directory, with what it says that git runs
		s.addDirectory(fd, name, path.Join(rel, name))
	}
	return s.addGitLinks(fd, rel, 0)
}

// gitWritten are the directories of a repository in which Git writes files by name.
var gitWritten = []string{"refs", "logs", "info", "objects", "worktrees", "rebase-merge", "rebase-apply", "sequencer"}

// addGitLinks adds stamps of the symlinks in a repository: the host's git would write what
// the workload chose (a message, a reflog) to the target. Git itself makes none.
func (s *scan) addGitLinks(fd int, rel string, depth int) error {
	again, err := entry.OpenDir(fd, ".")
	if err != nil {
		return nil // gone
	}
	dir := os.NewFile(uintptr(again), rel)
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if s.visited += len(entries); s.visited > maxScanned || depth > entry.MaxDepth {
		return fmt.Errorf("%s is too large or too deep: %w", rel, fault.ResourceExhausted)
	}
	for _, e := range entries {
		name, at := e.Name(), path.Join(rel, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			buf := make([]byte, unix.PathMax)
			n, _ := unix.Readlinkat(again, name, buf)
			s.stamps[at] = gitLinkStamp + string(buf[:max(n, 0)])
		}
		written := isInGit(rel) && name != "modules" && name != "hooks" || slices.Contains(gitWritten, name)
		if !e.IsDir() || depth == 0 && !written {
			continue
		}
		sub, err := entry.OpenDir(again, name)
		if err != nil {
			continue // unreadable, gone or replaced
		}
		err = s.addGitLinks(sub, at, depth+1)
		unix.Close(sub) //nolint:errcheck // it was only read
		if err != nil {
			return err
		}
	}
	return nil
}

// gitLinkStamp is the prefix of the stamp of a symlink in a repository.
const gitLinkStamp = "symlink in a repository: "

// addFiles adds the autorun files that an entry is or contains, by their names. In a crowd
// only repositories count.
func (s *scan) addFiles(fd int, name, at string, crowd bool) {
	// A repository of another version control than Git: what it contains changes with each
	// command of that; its configuration is among autorun.Files.
	if autorun.IsRepository(name) && !s.addDirectory(fd, name, at) {
		s.addStamp(fd, name, at)
	}
	if crowd {
		return
	}
	for _, rest := range autorun.Below(name) {
		for _, below := range expandLast(fd, path.Join(name, rest)) {
			found := path.Join(path.Dir(at), below)
			if s.addStamp(fd, below, found); s.stamps[found] != "" {
				s.files = append(s.files, found)
			}
		}
	}
}

// expandLast lists the paths that a path with "*" in its last name stands for.
func expandLast(fd int, name string) []string {
	if !strings.Contains(name, "*") {
		return []string{name}
	}
	sub, err := entry.OpenDir(fd, path.Dir(name))
	if err != nil {
		return nil
	}
	dir := os.NewFile(uintptr(sub), name)
	defer dir.Close()
	entries, _ := dir.Readdirnames(entry.MaxTree)
	var list []string
	for _, e := range entries {
		if ok, err := path.Match(path.Base(name), e); ok && err == nil {
			list = append(list, path.Join(path.Dir(name), e))
		}
	}
	return list
}

// addDirectory adds a stamp of a directory that stays the same when files in it change.
func (s *scan) addDirectory(fd int, name, at string) bool {
	var st unix.Statx_t
	err := unix.Statx(fd, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_BTIME, &st)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	s.stamps[at] = directoryStamp(&st)
	return true
}

// directoryStamp tells a directory from another one at the same path; inode numbers are used
// again.
func directoryStamp(st *unix.Statx_t) string {
	return fmt.Sprintf("directory %d %d.%09d", st.Ino, st.Btime.Sec, st.Btime.Nsec)
}

// addStamp records the type and the content of an entry, so that a later scan detects
// changes, whatever its size and times are. The stamp of a symlink is its target, and what
// that contains if it lies in the directory.
func (s *scan) addStamp(fd int, name, at string) {
	sum := entry.NewDigest()
	kind := sum.Add(fd, name)
	if kind == 0 {
		return
	}
	if kind == unix.S_IFLNK {
		if to := resolveInside(s.procPath(), s.real, at); to != "" {
			sum.Add(s.topFD, to)
		}
	}
	s.stamps[at] = fmt.Sprintf("%o %s", kind, sum)
}

func (s *scan) procPath() string { return fmt.Sprintf("/proc/self/fd/%d", s.topFD) }

// resolveInside resolves the symlink at in a directory, which is open as top and has the
// path real. It returns the target's path in the directory, "" if the target is outside or
// does not exist.
func resolveInside(top, real, at string) string {
	fd, err := unix.Open(top+"/"+at, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd) //nolint:errcheck // it was only looked at
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return ""
	}
	to, inside := strings.CutPrefix(path, real+"/")
	if !inside {
		return ""
	}
	return to
}

// absentStamp is the stamp of a file that does not exist, and that the host's git would run or
// include.
const absentStamp = "absent"

// addFIFO records a FIFO. Its times change with its use, so its inode counts.
func (s *scan) addFIFO(fd int, name, at string) {
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		s.stamps[at] = fmt.Sprintf("%s%d", fifoStamp, st.Ino)
		s.fifos++
	}
}

// fifoStamp begins the stamps of FIFOs.
const fifoStamp = "FIFO: "

// changedSince lists the autorun files that are new or have another stamp. Those at the top
// are first: tools run them most often.
func (s *scan) changedSince(before map[string]string) []string {
	var changed []string
	for name, stamp := range s.stamps {
		if before[name] != stamp && !s.isInNewRepo(name, before) {
			changed = append(changed, name)
		}
	}
	slices.SortFunc(changed, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	return changed
}

// isInNewRepo reports whether a file lies in a .git that is new itself, which is reported in
// its place.
func (s *scan) isInNewRepo(name string, before map[string]string) bool {
	if strings.HasPrefix(s.stamps[name], gitLinkStamp) {
		return false
	}
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if path.Base(at) == ".git" && s.stamps[at] != "" && before[at] != s.stamps[at] {
			return true
		}
	}
	return false
}

// plantedIn lists what Git runs in a repository that is new, or in its hooks, which changed:
// hooks besides samples, and configuration that names programs. at is the directory of the
// user.
func plantedIn(at, name string) []string {
	const most = 40 // Git has fewer hooks
	hooks := name
	var list []string
	if path.Base(name) == ".git" {
		hooks = path.Join(name, "hooks")
		for _, file := range []string{"config", "config.worktree"} {
			if gitdir.ParseConfig(string(gitdir.ReadConfig(filepath.Join(at, name, file)))).Runs {
				list = append(list, path.Join(name, file))
			}
		}
	}
	if path.Base(hooks) != "hooks" || !isInGit(hooks) {
		return list
	}
	entries, _ := os.ReadDir(filepath.Join(at, hooks))
	for _, e := range entries {
		if !e.IsDir() && !strings.HasSuffix(e.Name(), ".sample") && len(list) < most { // the workload may still make it executable
			list = append(list, path.Join(hooks, e.Name()))
		}
	}
	return list
}

// An inode identifies a file on this host.
type inode struct{ dev, ino uint64 }

// findLinks lists the names of files in the directory at path that are among inodes.
func findLinks(dir string, inodes map[inode]bool) ([]string, error) {
	var found []string
	var walk func(fd int, rel string, depth int)
	walk = func(fd int, rel string, depth int) {
		dir := os.NewFile(uintptr(fd), rel)
		defer dir.Close()
		entries, _ := dir.ReadDir(-1)
		for _, e := range entries {
			at := path.Join(rel, e.Name())
			switch {
			case e.Name() == ".git" || depth > entry.MaxDepth:
			case e.IsDir():
				if sub, err := entry.OpenDir(fd, e.Name()); err == nil {
					walk(sub, at, depth+1)
				}
			case e.Type().IsRegular():
				var st unix.Stat_t
				if unix.Fstatat(fd, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Nlink > 1 && inodes[inode{st.Dev, st.Ino}] {
					found = append(found, at)
				}
			}
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	walk(fd, "", 0)
	return found, nil
}
