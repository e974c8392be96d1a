package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// trapNames are what others run later, by its name in a project: tasks of editors
// and configuration of tools that start by themselves. A process in the workspace
// could plant there what its user then starts outside.
var trapNames = []string{
	".husky", ".vscode", ".idea", ".devcontainer", ".zed", ".fleet", ".envrc", ".mise.toml", ".tool-versions", ".gitmodules", ".pre-commit-config.yaml",
}

// crowded are directories that packages of others are put into, with whatever
// editors their authors use.
var crowded = []string{"node_modules", "vendor", ".venv", "site-packages"}

const (
	// mostLooked bounds the names that a survey looks at, and mostRepos the
	// repositories that it may find. Beyond, a directory is refused: what was not
	// looked at can't be kept.
	mostLooked = 2_000_000
	mostRepos  = 2_000
	mostDeep   = 100 // directories within directories; each holds a descriptor
)

// A survey is what a directory of the user's holds that others run later. Names
// are relative to it.
type survey struct {
	repos []string          // directories that Git takes for a repository: ".git", "lib/.git", "lib.git"
	links []string          // a .git that is a file and names such a directory
	traps []string          // other names, see trapNames
	signs map[string]string // what each of them is, by its name
	looks int
}

// look surveys a directory. It follows no symlink.
func look(dir string) (*survey, error) {
	s := &survey{signs: map[string]string{}}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = s.walk(fd, "", 0, false)
	}
	if err != nil {
		return nil, fmt.Errorf("look for repositories in %s: %w: %w", dir, fault.Of(err), err)
	}
	return s, nil
}

// walk looks at a directory, by a descriptor that it closes, and at all below.
func (s *survey) walk(fd int, rel string, depth int, crowd bool) error {
	dir := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // what goes away meanwhile holds nothing
		return err
	}
	if s.looks += len(entries); s.looks > mostLooked {
		return fmt.Errorf("it holds more than %d files: %w: name the project itself", mostLooked, fault.ResourceExhausted)
	}
	if bare(entries) {
		return s.repo(fd, rel)
	}
	for _, e := range entries {
		name, at := e.Name(), path.Join(rel, e.Name())
		switch {
		case name == ".git" && !e.IsDir():
			s.links = append(s.links, at)
			s.sign(fd, name, at)
			continue
		case slices.Contains(trapNames, name) && !crowd:
			s.traps = append(s.traps, at)
			s.sign(fd, name, at)
			continue
		case !e.IsDir():
			continue
		}
		if err := s.enter(fd, name, at, depth, crowd || slices.Contains(crowded, name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *survey) enter(fd int, name, at string, depth int, crowd bool) error {
	if depth >= mostDeep {
		return fmt.Errorf("%s lies more than %d directories deep: %w", at, mostDeep, fault.ResourceExhausted)
	}
	sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err != nil && name == ".git": // whatever it is, it has that name
		s.links = append(s.links, at)
		s.sign(fd, name, at)
		return nil
	case err != nil:
		return nil //nolint:nilerr // gone, replaced, or not even its owner's to read, and then nobody runs what is in it
	case name == ".git":
		defer unix.Close(sub) //nolint:errcheck // it was only read
		return s.repo(sub, at)
	}
	return s.walk(sub, at, depth+1, crowd)
}

// bare reports whether Git takes a directory itself for a repository.
func bare(entries []os.DirEntry) bool {
	found := 0
	for _, e := range entries {
		switch e.Name() {
		case "HEAD", "objects", "refs":
			found++
		}
	}
	return found == 3
}

// repo notes a repository, and those of its submodules, which lie in it.
func (s *survey) repo(fd int, rel string) error {
	if s.repos = append(s.repos, rel); len(s.repos) > mostRepos {
		return fmt.Errorf("it holds more than %d repositories: %w: name the project itself", mostRepos, fault.ResourceExhausted)
	}
	s.sign(fd, ".", rel)
	modules, err := unix.Openat(fd, "modules", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // it has none
	}
	return s.walk(modules, path.Join(rel, "modules"), 0, true)
}

// sign notes what something is, so that a change is seen: of a directory only
// which one it is, and of a file also when it was written.
func (s *survey) sign(fd int, name, at string) {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return
	}
	sign := fmt.Sprintf("%o %d", st.Mode&unix.S_IFMT, st.Ino)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		sign += fmt.Sprintf(" %d %d.%09d", st.Size, st.Mtim.Sec, st.Mtim.Nsec)
	}
	s.signs[at] = sign
}

// empty reports whether there is nothing that others run later.
func (s *survey) empty() bool { return len(s.signs) == 0 }

// news lists what is there now and was not before, or is something else.
func (s *survey) news(before map[string]string) []string {
	var news []string
	for name, sign := range s.signs {
		if before[name] != sign {
			news = append(news, name)
		}
	}
	slices.Sort(news)
	return news
}

// gitNames reads, from the configuration of a repository, names of further files
// that Git runs or takes configuration from: its hooks, and what it includes. They
// are relative to the directory that holds the working tree, where they lie in it.
// worktree tells whether the repository has a file config.worktree.
func gitNames(config io.Reader, gitDir string) (names []string, worktree bool) {
	data, err := io.ReadAll(io.LimitReader(config, 1<<20))
	if err != nil {
		return nil, false
	}
	section := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section, line, _ = strings.Cut(line[1:], "]")
			section, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(section)), " ")
		}
		key, value, _ := strings.Cut(line, "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`)
		outside := path.IsAbs(value) || strings.HasPrefix(value, "~") // where nobody inside can write
		switch {
		case section == "core" && key == "hookspath" && !outside:
			names = append(names, path.Join(path.Dir(gitDir), value))
		case (section == "include" || section == "includeif") && key == "path" && !outside:
			names = append(names, path.Join(gitDir, value))
		case section == "extensions" && key == "worktreeconfig":
			worktree = true
		}
	}
	return names, worktree
}
