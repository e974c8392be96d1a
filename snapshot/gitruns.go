package snapshot

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/workspace/driver"
)

// A destination is what a merge must know of the host that its result goes to.
type destination struct {
	root  string // absolute path of the top, without symlinks
	files bool   // the merge is into the files at root, not into a commit
}

// gitRuns returns the paths that the git of this host runs or includes: hooks,
// configuration files and programs that configuration names. It asks the repositories
// of the directories that contain changed paths, and those that contain the top.
func (d *destination) gitRuns(ctx context.Context, changes []FileChange) []string {
	dirs := map[string]bool{}
	for dir := d.root; !dirs[dir]; dir = filepath.Dir(dir) {
		dirs[dir] = true
	}
	for _, c := range changes {
		for dir := filepath.Join(d.root, path.Dir(c.Path)); !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	var list []string
	for dir := range dirs {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
			continue
		}
		for _, p := range repositoryRuns(ctx, dir) {
			for _, at := range linkTargets(p, os.Readlink) {
				if rel, err := filepath.Rel(d.root, at); err == nil && filepath.IsLocal(rel) {
					list = append(list, filepath.ToSlash(rel))
				}
			}
		}
	}
	return list
}

// repositoryRuns returns the absolute paths of files and directories that git runs or
// includes in a work tree. If git fails there, it runs nothing.
func repositoryRuns(ctx context.Context, top string) []string {
	dirs, err := hostGit(ctx, top, "rev-parse", "--git-dir", "--git-common-dir")
	if err != nil {
		return nil
	}
	var list, hooks []string
	for dir := range strings.Lines(dirs) {
		dir = absolutePath(top, strings.TrimSuffix(dir, "\n"))
		hooks = append(hooks, filepath.Join(dir, "hooks"))
		list = append(list, filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"), filepath.Join(dir, "info/attributes"))
	}
	config, _ := hostGit(ctx, top, "config", "--list", "--includes", "--show-origin", "-z")
	fields := strings.Split(config, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, _ := strings.Cut(fields[i+1], "\n")
		from := top
		if name, ok := strings.CutPrefix(fields[i], "file:"); ok {
			name = absolutePath(top, name)
			from, list = filepath.Dir(name), append(list, name)
		}
		first, _, _ := strings.Cut(key, ".")
		last := key[strings.LastIndexByte(key, '.')+1:]
		switch {
		case value == "":
		case key == "core.hookspath":
			hooks = append(hooks, absolutePath(top, value))
		case last == "path" && (first == "include" || first == "includeif"):
			list = append(list, absolutePath(from, value))
		case first == "alias" && value[0] == '!' || slices.Contains(programKeys, last):
			for _, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`;|&()<>=!$", r) }) {
				p := absolutePath(top, word)
				if info, err := os.Stat(p); err != nil || !info.IsDir() {
					list = append(list, p)
				}
			}
		}
	}
	for _, dir := range hooks {
		list = append(list, dir)
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

// programKeys are the last parts of the names of git settings whose value is a command,
// or a file that names commands.
var programKeys = []string{
	"fsmonitor", "sshcommand", "editor", "pager", "askpass", "clean", "smudge", "process", "command", "textconv", "external", "driver", "cmd",
	"program", "helper", "gitproxy", "uploadpack", "receivepack", "attributesfile", "tocmd", "cccmd", "sendmailcmd",
}

// hostGit runs git in a work tree with the configuration of the user, which is what is
// asked for. The commands that are run here start no other program.
func hostGit(ctx context.Context, top string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...)
	cmd.Dir = top
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_CONFIG"}, name)
	})
	out, err := cmd.Output()
	return string(out), err
}

// absolutePath resolves a path of a git setting.
func absolutePath(dir, name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, _ := os.UserHomeDir()
		return filepath.Join(home, rest)
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// linkTargets returns an absolute path, and each path that its symlinks lead to.
func linkTargets(name string, readlink func(string) (string, error)) []string {
	const most = 40 // as Linux has it
	list := []string{name}
	for len(list) < most {
		next := followFirst(name, readlink)
		if next == "" {
			break
		}
		list, name = append(list, next), next
	}
	return list
}

// followFirst replaces the first symlink of a path by its target; "" if it has none.
func followFirst(name string, readlink func(string) (string, error)) string {
	for at := 1; at <= len(name); at++ {
		if at < len(name) && name[at] != filepath.Separator {
			continue
		}
		target, err := readlink(name[:at])
		if err != nil {
			continue
		}
		return filepath.Join(absolutePath(filepath.Dir(name[:at]), target), name[at:])
	}
	return ""
}

// autorunTargets returns the paths of ours that autorun files lead to by symlinks from
// the top, and those that the git of the destination runs: a change of such a file is a
// change of the autorun file.
func (m *merger) autorunTargets(ctx context.Context, names []string, changes []FileChange) (*pathSet, error) {
	root, readlink, targets := "/", os.Readlink, []string{}
	if m.opts.to != nil {
		root, targets = m.opts.to.root, append(targets, m.opts.to.gitRuns(ctx, changes)...)
	}
	var failed error
	if m.opts.to == nil || !m.opts.to.files {
		readlink = func(at string) (string, error) {
			rel, err := filepath.Rel(root, at)
			if err != nil || !filepath.IsLocal(rel) || rel == "." {
				return "", os.ErrNotExist
			}
			n, err := statAt(ctx, m.ours, filepath.ToSlash(rel))
			if err != nil {
				failed = err
			}
			if n == nil || n.Type != driver.TypeSymlink {
				return "", os.ErrNotExist
			}
			return n.Target, nil
		}
	}
	for _, name := range names {
		for _, at := range linkTargets(filepath.Join(root, name), readlink)[1:] {
			if rel, err := filepath.Rel(root, at); err == nil && filepath.IsLocal(rel) {
				targets = append(targets, filepath.ToSlash(rel))
			}
		}
	}
	// A file system may ignore case.
	for i := range targets {
		targets[i] = strings.ToLower(targets[i])
	}
	return newPathSet(targets), failed
}
