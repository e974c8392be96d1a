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

// autorunNames are what others run later, by its name in a project: tasks of editors
// and configuration of tools that start by themselves. A process in the workspace
// could plant there what its user then starts outside.
var autorunNames = []string{
	".husky", ".vscode", ".idea", ".devcontainer", ".zed", ".fleet", ".envrc", ".mise.toml", "mise.toml", ".tool-versions", ".gitmodules",
	".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".ripgreprc",
}

// topAutorunNames are such names at the top of a project alone: what coding agents run by
// themselves there, hooks and servers. In their homes, further down, they write the
// same names all the time.
var topAutorunNames = []string{
	".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".cursor/mcp.json", ".cursor/hooks.json", ".codex/config.toml",
	".gemini/settings.json", "opencode.json", "opencode.jsonc", ".opencode/plugin", ".opencode/plugins",
}

// packageDirs are directories that packages of others are put into, with whatever
// editors their authors use.
var packageDirs = []string{"node_modules", "vendor", ".venv", "site-packages"}

const (
	// maxScanned bounds the names that a survey looks at, and mostRepos the
	// repositories that it may find. Beyond, a directory is refused: what was not
	// looked at can't be kept.
	maxScanned = 2_000_000
	maxRepos   = 2_000
	maxDepth   = 100 // directories within directories; each holds a descriptor
)

// A autorunScan is what a directory of the user's holds that others run later. Names
// are relative to it.
type autorunScan struct {
	repos       []string          // directories that Git takes for a repository: ".git", "lib/.git", "lib.git"
	gitLinks    []string          // a .git that is a file and names such a directory
	files       []string          // other names, see trapNames
	linkTargets map[string]string // symlinks among traps, and in hooks, that lead to what lies in the directory itself: to where
	stamps      map[string]string // what each of them is, by its name
	topNames    map[string]bool   // what is at the top, see note
	visited     int
	topFD       int    // descriptor of the directory, while looking
	real        string // its path
}

// scanAutorun surveys a directory. It follows no symlink.
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
		return nil, fmt.Errorf("look for repositories in %s: %w: %w", dir, fault.Of(err), err)
	}
	return s, nil
}

// walkDir looks at a directory, by a descriptor that it closes, and at all below.
func (s *autorunScan) walkDir(fd int, rel string, depth int, crowd bool) error {
	dir := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // what goes away meanwhile holds nothing
		return err
	}
	if s.visited += len(entries); s.visited > maxScanned {
		return fmt.Errorf("it holds more than %d files: %w: name the project itself", maxScanned, fault.ResourceExhausted)
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
			if e.IsDir() && rel != "" { // where it is not kept, see protection
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
	case err != nil && name == ".git": // whatever it is, it has that name
		s.gitLinks = append(s.gitLinks, at)
		s.addStamp(fd, name, at)
		return nil
	case err != nil:
		return nil // gone, replaced, or not even its owner's to read, and then nobody runs what is in it
	case name == ".git":
		defer unix.Close(sub) //nolint:errcheck // it was only read
		return s.addRepo(sub, at)
	}
	return s.walkDir(sub, at, depth+1, crowd)
}

// isBareRepo reports whether Git takes a directory itself for a repository.
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

// gitTodoFiles are what Git goes on with when its user tells it to, and that may name
// programs to run. Who works in a repository needs them; what is left is told.
var gitTodoFiles = []string{"rebase-merge/git-rebase-todo", "rebase-apply", "sequencer/todo"}

// addRepo notes a repository, and those of its submodules, which lie in it.
func (s *autorunScan) addRepo(fd int, rel string) error {
	if s.repos = append(s.repos, rel); len(s.repos) > maxRepos {
		return fmt.Errorf("it holds more than %d repositories: %w: name the project itself", maxRepos, fault.ResourceExhausted)
	}
	s.addStamp(fd, ".", rel)
	for _, name := range gitTodoFiles {
		s.addStamp(fd, name, path.Join(rel, name))
	}
	s.addHookLinks(fd, rel)
	modules, err := unix.Openat(fd, "modules", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // it has none
	}
	return s.walkDir(modules, path.Join(rel, "modules"), 0, true)
}

// addStamp notes what something is, so that a change is seen: of a directory only
// which one it is, and of a file also when it was written.
func (s *autorunScan) addStamp(fd int, name, at string) {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return
	}
	sign := fmt.Sprintf("%o %d", st.Mode&unix.S_IFMT, st.Ino)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		sign += fmt.Sprintf(" %d %d.%09d", st.Size, st.Mtim.Sec, st.Mtim.Nsec)
	}
	s.stamps[at] = sign
}

// recordTopNames keeps what is at the top. There are file systems that take names for the same
// which differ in case.
func (s *autorunScan) recordTopNames(entries []os.DirEntry) {
	s.topNames = map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
			s.topNames = nil // what such a name is the same as is not known here
			return
		}
		s.topNames[strings.ToLower(name)] = true
	}
}

// mayHaveTop reports whether something could be at a path from the top.
func (s *autorunScan) mayHaveTop(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return s.topNames == nil || s.topNames[strings.ToLower(first)]
}

// addTopFiles looks for what counts at the top alone.
func (s *autorunScan) addTopFiles() {
	for _, name := range topAutorunNames {
		if !s.mayHaveTop(name) {
			continue
		}
		if s.addStamp(s.topFD, name, name); s.stamps[name] == "" {
			continue
		}
		s.files = append(s.files, name)
		if to, sign := resolveInside(s.procPath(), s.real, name); to != name {
			if s.stamps[name] += " " + sign; to != "" {
				s.linkTargets[name] = to
			}
		}
	}
}

// addTreeStamp adds to the sign of a directory what is in it, as far as it is not too
// much for what it is.
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

// maxTreeEntries bounds the names that are looked at in such a directory.
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

// addHookLinks follows the hooks of a repository that are symlinks.
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

// addLinkTarget notes where a symlink leads. Where that does not exist someone could make
// it.
func (s *autorunScan) addLinkTarget(at string) {
	to, sign := resolveInside(s.procPath(), s.real, at)
	if s.stamps[at] += " " + sign; to != "" {
		s.linkTargets[at] = to
	}
}

// resolveInside follows a path in a directory, which is open as top and lies at real, and
// returns where in the directory it leads, "" for elsewhere, and what is there.
func resolveInside(top, real, at string) (to, sign string) {
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

// isEmpty reports whether there is nothing that others run later.
func (s *autorunScan) isEmpty() bool { return len(s.stamps) == 0 }

// changedSince lists what is there now and was not before, or is something else.
func (s *autorunScan) changedSince(before map[string]string) []string {
	var news []string
	for name, sign := range s.stamps {
		if before[name] != sign {
			news = append(news, name)
		}
	}
	slices.Sort(news)
	return news
}
