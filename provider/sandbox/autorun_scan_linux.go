package sandbox

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// autorunNames are the names of autorun files in a project, besides Git's: editor tasks and
// configuration of tools that run by themselves. A process in the workspace could write
// code to them that the user then runs outside the sandbox.
var autorunNames = []string{
	".husky", ".vscode", ".idea", ".devcontainer", ".zed", ".fleet", ".envrc", ".mise.toml", "mise.toml", ".tool-versions", ".gitmodules",
	".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".ripgreprc",
}

// topAutorunNames are autorun files only at the top of a project: hooks and servers that
// coding agents start. Further down, in their home directories, agents write the same
// names all the time.
var topAutorunNames = []string{
	".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".cursor/mcp.json", ".cursor/hooks.json", ".codex/config.toml",
	".gemini/settings.json", "opencode.json", "opencode.jsonc", ".opencode/plugin", ".opencode/plugins",
}

// packageDirs are directories of installed packages, which may contain editor settings of
// their authors. autorunNames do not count there.
var packageDirs = []string{"node_modules", "vendor", ".venv", "site-packages"}

const (
	// maxScanned bounds the entries, and maxRepos the repositories, of one scan. A larger
	// directory is refused: what was not scanned can't be protected.
	maxScanned = 2_000_000
	maxRepos   = 2_000
	maxDepth   = 100 // of nested directories; each needs a descriptor
)

// An autorunScan lists the autorun files of a directory of the user. Names are relative to
// it.
type autorunScan struct {
	repos       []string          // Git repositories: ".git", "lib/.git", "lib.git"
	gitLinks    []string          // .git files that name a repository elsewhere
	files       []string          // other autorun files, see autorunNames
	linkTargets map[string]string // of symlinks among files and hooks: targets that lie in the directory
	stamps      map[string]string // stamp of each autorun file, by name
	topNames    map[string]bool   // names at the top in lower case; nil if unknown
	visited     int
	topFD       int    // descriptor of the directory, during the scan
	real        string // its path
}

// scanAutorun scans a directory for autorun files. It follows no symlinks.
func scanAutorun(dir string) (*autorunScan, error) {
	s := &autorunScan{stamps: map[string]string{}, linkTargets: map[string]string{}}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		if s.topFD, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			defer unix.Close(s.topFD) //nolint:errcheck // it was only read
			s.real, err = os.Readlink(s.procPath())
		}
		err = errors.Join(err, s.walkDir(fd, "", 0, false))
		s.addTopFiles()
	}
	if err != nil {
		return nil, fmt.Errorf("scan %s for autorun files: %w: %w", dir, fault.Of(err), err)
	}
	return s, nil
}

// walkDir scans a directory and all below it. It closes fd.
func (s *autorunScan) walkDir(fd int, rel string, depth int, crowd bool) error {
	dir := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a directory that was removed is empty
		return err
	}
	if s.visited += len(entries); s.visited > maxScanned {
		return fmt.Errorf("it contains more than %d files: %w: name the directory of the project", maxScanned, fault.ResourceExhausted)
	}
	if rel == "" {
		s.recordTopNames(entries)
	}
	if isBareRepo(entries) {
		return s.addRepo(fd, rel)
	}
	for _, e := range entries {
		name, at := e.Name(), path.Join(rel, e.Name())
		switch {
		case name == ".git" && !e.IsDir():
			s.gitLinks = append(s.gitLinks, at)
			s.addStamp(fd, name, at)
			continue
		case slices.Contains(autorunNames, name) && !crowd:
			s.files = append(s.files, at)
			s.addStamp(fd, name, at)
			if e.IsDir() && rel != "" { // not protected there, see autorunProtection.collect
				s.addTreeStamp(fd, name, at)
			}
			if e.Type()&os.ModeSymlink != 0 {
				s.addLinkTarget(at)
			}
			continue
		case !e.IsDir():
			continue
		}
		if err := s.walkSubdir(fd, name, at, depth, crowd || slices.Contains(packageDirs, name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *autorunScan) walkSubdir(fd int, name, at string, depth int, crowd bool) error {
	if depth >= maxDepth {
		return fmt.Errorf("%s lies more than %d directories deep: %w", at, maxDepth, fault.ResourceExhausted)
	}
	sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err != nil && name == ".git": // it counts whatever its type
		s.gitLinks = append(s.gitLinks, at)
		s.addStamp(fd, name, at)
		return nil
	case err != nil:
		return nil // it was removed or replaced, or this user can't read it; then no program of this user runs its files
	case name == ".git":
		defer unix.Close(sub) //nolint:errcheck // it was only read
		return s.addRepo(sub, at)
	}
	return s.walkDir(sub, at, depth+1, crowd)
}

// isBareRepo reports whether Git treats a directory itself as a repository.
func isBareRepo(entries []os.DirEntry) bool {
	found := 0
	for _, e := range entries {
		switch e.Name() {
		case "HEAD", "objects", "refs":
			found++
		}
	}
	return found == 3
}

// gitTodoFiles are the todo lists of an unfinished rebase or sequence, which may contain
// commands that "git rebase --continue" runs. They stay writable, because work in a
// repository needs them; changes are reported.
var gitTodoFiles = []string{"rebase-merge/git-rebase-todo", "rebase-apply", "sequencer/todo"}

// addRepo adds a repository and the repositories of its submodules.
func (s *autorunScan) addRepo(fd int, rel string) error {
	if s.repos = append(s.repos, rel); len(s.repos) > maxRepos {
		return fmt.Errorf("it contains more than %d repositories: %w: name the directory of the project", maxRepos, fault.ResourceExhausted)
	}
	s.addStamp(fd, ".", rel)
	for _, name := range gitTodoFiles {
		s.addStamp(fd, name, path.Join(rel, name))
	}
	s.addHookLinks(fd, rel)
	modules, err := unix.Openat(fd, "modules", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // no submodules
	}
	return s.walkDir(modules, path.Join(rel, "modules"), 0, true)
}

// addStamp records the type and inode of an entry, and size and mtime unless it is a
// directory, so that a later scan detects changes.
func (s *autorunScan) addStamp(fd int, name, at string) {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return
	}
	stamp := fmt.Sprintf("%o %d", st.Mode&unix.S_IFMT, st.Ino)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		stamp += fmt.Sprintf(" %d %d.%09d", st.Size, st.Mtim.Sec, st.Mtim.Nsec)
	}
	s.stamps[at] = stamp
}

// recordTopNames records the names at the top in lower case, because some file systems are
// case-insensitive.
func (s *autorunScan) recordTopNames(entries []os.DirEntry) {
	s.topNames = map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
			s.topNames = nil // case folding beyond ASCII depends on the file system
			return
		}
		s.topNames[strings.ToLower(name)] = true
	}
}

// mayHaveTop reports whether a path from the top may exist.
func (s *autorunScan) mayHaveTop(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return s.topNames == nil || s.topNames[strings.ToLower(first)]
}

// addTopFiles adds the files of topAutorunNames.
func (s *autorunScan) addTopFiles() {
	for _, name := range topAutorunNames {
		if !s.mayHaveTop(name) {
			continue
		}
		if s.addStamp(s.topFD, name, name); s.stamps[name] == "" {
			continue
		}
		s.files = append(s.files, name)
		if to, stamp := resolveInside(s.procPath(), s.real, name); to != name {
			if s.stamps[name] += " " + stamp; to != "" {
				s.linkTargets[name] = to
			}
		}
	}
}

// addTreeStamp adds a digest of the entries of a directory, of at most maxTreeEntries, to
// its stamp.
func (s *autorunScan) addTreeStamp(fd int, name, at string) {
	sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	inner := &autorunScan{stamps: map[string]string{}}
	sum := sha256.New()
	inner.hashTree(sub, at, 0, sum)
	s.visited += inner.visited
	s.stamps[at] += fmt.Sprintf(" %x", sum.Sum(nil)[:8])
}

// maxTreeEntries bounds the entries that addTreeStamp and addHookLinks read.
const maxTreeEntries = 10_000

func (s *autorunScan) hashTree(fd int, rel string, depth int, sum io.Writer) {
	dir := os.NewFile(uintptr(fd), rel)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if s.visited += len(names); err != nil || s.visited > maxTreeEntries || depth > maxDepth {
		return
	}
	slices.Sort(names)
	for _, name := range names {
		at := path.Join(rel, name)
		s.addStamp(fd, name, at)
		fmt.Fprintf(sum, "%s\x00%s\x00", at, s.stamps[at])
		if sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			s.hashTree(sub, at, depth+1, sum)
		}
	}
}

// addHookLinks adds the targets of hooks of a repository that are symlinks.
func (s *autorunScan) addHookLinks(fd int, rel string) {
	sub, err := unix.Openat(fd, "hooks", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(sub), "hooks")
	defer dir.Close()
	entries, err := dir.ReadDir(maxTreeEntries)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			s.addLinkTarget(path.Join(rel, "hooks", e.Name()))
		}
	}
}

func (s *autorunScan) procPath() string { return fmt.Sprintf("/proc/self/fd/%d", s.topFD) }

// addLinkTarget records the target of a symlink in its stamp, also when it does not exist:
// the workload could create it.
func (s *autorunScan) addLinkTarget(at string) {
	to, stamp := resolveInside(s.procPath(), s.real, at)
	if s.stamps[at] += " " + stamp; to != "" {
		s.linkTargets[at] = to
	}
}

// resolveInside resolves the symlink at in a directory, which is open as top and has the
// path real. It returns the target's path in the directory, "" if the target is outside,
// and a stamp of the target.
func resolveInside(top, real, at string) (to, stamp string) {
	fd, err := unix.Open(top+"/"+at, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", "leads nowhere"
	}
	defer unix.Close(fd) //nolint:errcheck // it was only looked at
	var st unix.Stat_t
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err = errors.Join(err, unix.Fstat(fd, &st)); err != nil {
		return "", "leads nowhere"
	}
	to, inside := strings.CutPrefix(path, real+"/")
	if !inside {
		return "", "leads outside"
	}
	return to, fmt.Sprintf("leads to %d %d %d.%09d", st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec)
}

// isEmpty reports whether the directory contains no autorun files.
func (s *autorunScan) isEmpty() bool { return len(s.stamps) == 0 }

// changedSince lists the autorun files that are new or have another stamp.
func (s *autorunScan) changedSince(before map[string]string) []string {
	var changed []string
	for name, stamp := range s.stamps {
		if before[name] != stamp {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}
