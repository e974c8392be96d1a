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

// trapNames are what others run later, by its name in a project: tasks of editors
// and configuration of tools that start by themselves. A process in the workspace
// could plant there what its user then starts outside.
var trapNames = []string{
	".husky", ".vscode", ".idea", ".devcontainer", ".zed", ".fleet", ".envrc", ".mise.toml", "mise.toml", ".tool-versions", ".gitmodules",
	".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".ripgreprc",
}

// topTraps are such names at the top of a project alone: what coding agents run by
// themselves there, hooks and servers. In their homes, further down, they write the
// same names all the time.
var topTraps = []string{
	".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".cursor/mcp.json", ".cursor/hooks.json", ".codex/config.toml",
	".gemini/settings.json", "opencode.json", "opencode.jsonc", ".opencode/plugin", ".opencode/plugins",
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
	leads map[string]string // symlinks among traps, and in hooks, that lead to what lies in the directory itself: to where
	signs map[string]string // what each of them is, by its name
	names map[string]bool   // what is at the top, see note
	looks int
	top   int    // descriptor of the directory, while looking
	real  string // its path
}

// look surveys a directory. It follows no symlink.
func look(dir string) (*survey, error) {
	s := &survey{signs: map[string]string{}, leads: map[string]string{}}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		if s.top, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			defer unix.Close(s.top) //nolint:errcheck // it was only read
			s.real, err = os.Readlink(s.self())
		}
		err = errors.Join(err, s.walk(fd, "", 0, false))
		s.tops()
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
	if rel == "" {
		s.note(entries)
	}
	if bareRepo(entries) {
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
			if e.IsDir() && rel != "" { // where it is not kept, see protection
				s.signAll(fd, name, at)
			}
			if e.Type()&os.ModeSymlink != 0 {
				s.lead(at)
			}
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
		return nil // gone, replaced, or not even its owner's to read, and then nobody runs what is in it
	case name == ".git":
		defer unix.Close(sub) //nolint:errcheck // it was only read
		return s.repo(sub, at)
	}
	return s.walk(sub, at, depth+1, crowd)
}

// bareRepo reports whether Git takes a directory itself for a repository.
func bareRepo(entries []os.DirEntry) bool {
	found := 0
	for _, e := range entries {
		switch e.Name() {
		case "HEAD", "objects", "refs":
			found++
		}
	}
	return found == 3
}

// unfinished are what Git goes on with when its user tells it to, and that may name
// programs to run. Who works in a repository needs them; what is left is told.
var unfinished = []string{"rebase-merge/git-rebase-todo", "rebase-apply", "sequencer/todo"}

// repo notes a repository, and those of its submodules, which lie in it.
func (s *survey) repo(fd int, rel string) error {
	if s.repos = append(s.repos, rel); len(s.repos) > mostRepos {
		return fmt.Errorf("it holds more than %d repositories: %w: name the project itself", mostRepos, fault.ResourceExhausted)
	}
	s.sign(fd, ".", rel)
	for _, name := range unfinished {
		s.sign(fd, name, path.Join(rel, name))
	}
	s.hooks(fd, rel)
	modules, err := unix.Openat(fd, "modules", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // it has none
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

// note keeps what is at the top. There are file systems that take names for the same
// which differ in case.
func (s *survey) note(entries []os.DirEntry) {
	s.names = map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
			s.names = nil // what such a name is the same as is not known here
			return
		}
		s.names[strings.ToLower(name)] = true
	}
}

// mayHave reports whether something could be at a path from the top.
func (s *survey) mayHave(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return s.names == nil || s.names[strings.ToLower(first)]
}

// tops looks for what counts at the top alone.
func (s *survey) tops() {
	for _, name := range topTraps {
		if !s.mayHave(name) {
			continue
		}
		if s.sign(s.top, name, name); s.signs[name] == "" {
			continue
		}
		s.traps = append(s.traps, name)
		if to, sign := leadsTo(s.self(), s.real, name); to != name {
			if s.signs[name] += " " + sign; to != "" {
				s.leads[name] = to
			}
		}
	}
}

// signAll adds to the sign of a directory what is in it, as far as it is not too
// much for what it is.
func (s *survey) signAll(fd int, name, at string) {
	sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	inner := &survey{signs: map[string]string{}}
	sum := sha256.New()
	inner.all(sub, at, 0, sum)
	s.looks += inner.looks
	s.signs[at] += fmt.Sprintf(" %x", sum.Sum(nil)[:8])
}

// mostInside bounds the names that are looked at in such a directory.
const mostInside = 10_000

func (s *survey) all(fd int, rel string, depth int, sum io.Writer) {
	dir := os.NewFile(uintptr(fd), rel)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if s.looks += len(names); err != nil || s.looks > mostInside || depth > mostDeep {
		return
	}
	slices.Sort(names)
	for _, name := range names {
		at := path.Join(rel, name)
		s.sign(fd, name, at)
		fmt.Fprintf(sum, "%s\x00%s\x00", at, s.signs[at])
		if sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			s.all(sub, at, depth+1, sum)
		}
	}
}

// hooks follows the hooks of a repository that are symlinks.
func (s *survey) hooks(fd int, rel string) {
	sub, err := unix.Openat(fd, "hooks", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(sub), "hooks")
	defer dir.Close()
	entries, err := dir.ReadDir(mostInside)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			s.lead(path.Join(rel, "hooks", e.Name()))
		}
	}
}

func (s *survey) self() string { return fmt.Sprintf("/proc/self/fd/%d", s.top) }

// lead notes where a symlink leads. Where that does not exist someone could make
// it.
func (s *survey) lead(at string) {
	to, sign := leadsTo(s.self(), s.real, at)
	if s.signs[at] += " " + sign; to != "" {
		s.leads[at] = to
	}
}

// leadsTo follows a path in a directory, which is open as top and lies at real, and
// returns where in the directory it leads, "" for elsewhere, and what is there.
func leadsTo(top, real, at string) (to, sign string) {
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
