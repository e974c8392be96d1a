// Package hostgit runs Git on this host: in repositories that are not trusted, so that it starts no other
// program, and to ask which files it would run.
package hostgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A Repository is a git repository of this host, used by plumbing commands alone.
// Its configuration and hooks run no program: no filter, hook, pager, helper or
// transport. Its work tree and index are not read.
type Repository struct {
	dir string
	env []string // of each command
}

// Open returns the repository at a path: a work tree, or a bare one.
func Open(ctx context.Context, path string) (*Repository, error) {
	out, err := (&Repository{dir: path}).Run(ctx, nil, nil, "rev-parse", "--absolute-git-dir", "--show-prefix")
	if err != nil && strings.Contains(err.Error(), "not a git repository") {
		return nil, fmt.Errorf("snapshot: repository %s: %w: it is not a git repository", path, fault.InvalidArgument)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: repository %s: %w: %w", path, fault.InvalidArgument, err)
	}
	dir, prefix, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	if prefix != "" {
		return nil, fmt.Errorf("snapshot: repository %s: %w: it is a subdirectory (%s) of a repository; name the top of its work tree", path, fault.InvalidArgument, prefix)
	}
	return &Repository{dir: dir}, nil
}

// Run runs git with an input and further variables, and returns its output.
func (r *Repository) Run(ctx context.Context, in io.Reader, env []string, args ...string) ([]byte, error) {
	cmd := r.Command(ctx, env, args...)
	cmd.Stdin = in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("git %s: %w", args[0], ctx.Err())
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("git: %w: git is not installed", fault.Unavailable)
	}
	if err != nil {
		return nil, fmt.Errorf("git %s: %s: %w", args[0], strings.TrimSpace(stderr.String()), fault.Failed)
	}
	return out, nil
}

// Command returns git as a command with further variables.
func (r *Repository) Command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	safe := []string{
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.attributesFile=/dev/null", "-c", "core.pager=cat",
		"-c", "core.untrackedCache=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.allow=never", "-c", "core.alternateRefsCommand=",
	}
	cmd := exec.CommandContext(ctx, "git", append(safe, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_ATTR_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1",
		// The user named this repository, so its owner does not matter: nothing in
		// it is run.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}, append(slices.Clip(r.env), env...)...)
	return cmd
}

// Commit returns the commit of a revision; "" is fault.NotFound.
func (r *Repository) Commit(ctx context.Context, revision string) (string, error) {
	out, err := r.Run(ctx, nil, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		if revision == "HEAD" {
			return "", fmt.Errorf("snapshot: revision %q: %w: the repository has no commit yet", revision, fault.NotFound)
		}
		return "", fmt.Errorf("snapshot: revision %q: %w", revision, fault.NotFound)
	}
	return strings.TrimSpace(string(out)), nil
}

// CheckBranch refuses the names that git branch refuses, and @, which git takes for HEAD.
func (r *Repository) CheckBranch(ctx context.Context, name string) error {
	_, err := r.Run(ctx, nil, nil, "check-ref-format", "refs/heads/"+name)
	if err != nil || name == "HEAD" || name == "@" || strings.HasPrefix(name, "-") {
		return fmt.Errorf("snapshot: branch %.200q: %w: git takes no branch of that name; "+
			"a name has letters, digits and single '.', '-' or '/' within, and is not HEAD or @", name, fault.InvalidArgument)
	}
	return nil
}

// CheckedOut returns the work tree that has a branch checked out; "" if there is
// none.
func (r *Repository) CheckedOut(ctx context.Context, ref string) (string, error) {
	out, err := r.Run(ctx, nil, nil, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return "", err
	}
	where := ""
	for line := range strings.SplitSeq(string(out), "\x00") {
		if path, ok := strings.CutPrefix(line, "worktree "); ok {
			where = path
		}
		if line == "branch "+ref {
			return where, nil
		}
	}
	return "", nil
}

// AuthorEnv returns the environment for author and committer: the given one, or
// that of the repository's configuration, or Croft.
func (r *Repository) AuthorEnv(ctx context.Context, author string) []string {
	name, mail := r.configValue(ctx, "user.name"), r.configValue(ctx, "user.email")
	if name == "" || mail == "" {
		name, mail = "Croft", "croft@localhost"
	}
	if n, rest, ok := strings.Cut(author, "<"); ok {
		name, mail = strings.TrimSpace(n), strings.TrimSuffix(strings.TrimSpace(rest), ">")
	}
	return []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail}
}

// configValue is a value of the repository's configuration; "" if unset.
func (r *Repository) configValue(ctx context.Context, key string) string {
	out, err := r.Run(ctx, nil, nil, "config", "--get", key)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Runs returns the paths below a directory that the git of this host runs or includes: hooks,
// configuration files and programs that configuration names. It asks the repositories
// of the directories that contain changed paths, and those that contain the top.
func Runs(ctx context.Context, root string, changed []string) []string {
	dirs := map[string]bool{}
	for dir := root; !dirs[dir]; dir = filepath.Dir(dir) {
		dirs[dir] = true
	}
	for _, name := range changed {
		for dir := filepath.Join(root, path.Dir(name)); !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	var list []string
	for dir := range dirs {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
			continue
		}
		for _, p := range repositoryRuns(ctx, dir) {
			for _, at := range LinkTargets(p, os.Readlink) {
				if rel, err := filepath.Rel(root, at); err == nil && filepath.IsLocal(rel) {
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
	dirs, err := userGit(ctx, top, "rev-parse", "--git-dir", "--git-common-dir")
	if err != nil {
		return nil
	}
	var list, hooks []string
	for dir := range strings.Lines(dirs) {
		dir = absolutePath(top, strings.TrimSuffix(dir, "\n"))
		hooks = append(hooks, filepath.Join(dir, "hooks"))
		list = append(list, filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"), filepath.Join(dir, "info/attributes"))
	}
	config, _ := userGit(ctx, top, "config", "--list", "--includes", "--show-origin", "-z")
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

// userGit runs git in a work tree with the configuration of the user, which is what is
// asked for. The commands that are run here start no other program.
func userGit(ctx context.Context, top string, args ...string) (string, error) {
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

// LinkTargets returns an absolute path, and each path that its symlinks lead to.
func LinkTargets(name string, readlink func(string) (string, error)) []string {
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
