package gitdir

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/provider/sandbox/internal/entry"
)

// A Source is a Git directory of the host to copy.
type Source struct {
	FD   int    // descriptor of the Git directory
	Host string // its path
	Path string // of the .git that the copy stands for

	worktree string // linked worktree: its name; other worktrees are left out
	top      string // submodule outside: its working tree, which its configuration names relative to the host's place
	link     bool   // Path is a file
}

// Locate finds the Git directory outside a shown directory that the .git file at
// link, with the given content, names. ok is false unless that Git directory is a linked
// worktree or a submodule that names link in turn: a workload can write a .git file that
// names another repository of the user.
func Locate(link, content string) (src Source, ok bool) {
	name, ok := strings.CutPrefix(content, "gitdir:")
	if !ok {
		return src, false
	}
	dir, err := evalFrom(filepath.Dir(link), strings.TrimSpace(name))
	if err != nil {
		return src, false
	}
	read := func(name string) (string, bool) {
		fd, err := entry.OpenDir(unix.AT_FDCWD, dir)
		if err != nil {
			return "", false
		}
		defer unix.Close(fd) //nolint:errcheck // a directory
		data, err := entry.ReadRegular(fd, name, maxConfigSize)
		return strings.TrimSpace(string(data)), err == nil && data != nil
	}
	if common, ok := read("commondir"); ok {
		back, _ := read("gitdir")
		at, err := evalFrom(dir, back)
		host, cerr := evalFrom(dir, common)
		// Of these, only the directories above could be anywhere.
		linked := filepath.Join(host, "worktrees", filepath.Base(dir)) == dir
		return Source{Host: host, Path: link, worktree: filepath.Base(dir), link: true}, err == nil && cerr == nil && at == link && linked
	}
	config, _ := read("config")
	top := ParseConfig(config).Worktree
	at, err := evalFrom(dir, top)
	return Source{Host: dir, Path: link, top: filepath.Dir(link), link: true}, top != "" && err == nil && at == filepath.Dir(link)
}

// evalFrom returns the path without symlinks of a name that is relative to dir.
func evalFrom(dir, name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return filepath.EvalSymlinks(name)
}

// isTemp reports whether git is writing a file of that name.
func isTemp(name string) bool {
	return strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_")
}

// IsGit reports whether Git takes a .git for one. git init makes objects last.
func IsGit(host string, dir bool) bool {
	if !dir {
		return strings.HasPrefix(string(ReadConfig(host)), "gitdir:")
	}
	has := func(name string) bool { return entry.Exists(filepath.Join(host, name)) }
	return has("HEAD") && has("objects") && has("refs")
}

// IsOwn reports whether git made a .git inside.
func IsOwn(host string, dir bool) bool {
	if dir {
		return entry.Exists(filepath.Join(host, ownFile))
	}
	to := Target(host)
	return !entry.Exists(to) || entry.Exists(filepath.Join(to, ownFile))
}

// Target returns the path of the Git directory that a .git file names.
func Target(link string) string {
	content := strings.TrimSpace(strings.TrimPrefix(string(ReadConfig(link)), "gitdir:"))
	return ConfigPath(filepath.Dir(link), content)
}

// IsWhole reports whether a Git directory has a commit, and nothing is being written.
func IsWhole(host string) bool {
	refs, _ := filepath.Glob(filepath.Join(host, "refs/heads/*")) // a fixed pattern
	entries, err := os.ReadDir(host)
	if err != nil || len(refs) == 0 && !entry.Exists(filepath.Join(host, "packed-refs")) {
		return false
	}
	packs, _ := os.ReadDir(filepath.Join(host, "objects/pack"))
	return !slices.ContainsFunc(append(entries, packs...), func(e os.DirEntry) bool { return isTemp(e.Name()) })
}

// maxConfigSize bounds how much of a configuration file is read.
const maxConfigSize = 1 << 20

// ReadConfig returns the content of a configuration file of the host, nil if there is none.
func ReadConfig(name string) []byte {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, _ := io.ReadAll(io.LimitReader(f, maxConfigSize))
	return data
}

// UserConfigs lists the configuration files of the user and of the host, which apply to
// every repository.
func UserConfigs() []string {
	list := []string{"/etc/gitconfig"}
	if dir, err := os.UserConfigDir(); err == nil {
		list = append(list, filepath.Join(dir, "git/config"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		list = append(list, filepath.Join(home, ".gitconfig"))
	}
	return list
}

// ConfigPath returns the path of a configured name, which is relative to base.
func ConfigPath(base, name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(base, name)
}
