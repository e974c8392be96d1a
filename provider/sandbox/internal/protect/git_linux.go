package protect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
)

// addGit adds the mount of an entry named .git: of its private copy, unless the workload
// shares the host's. One that can't be read is covered as a whole, so that a workload that
// makes such a one prevents nothing. While the guest runs, that is so for every failure.
func (p *protection) addGit(e gitEntry) error {
	err := p.addReadableGit(e)
	switch {
	case err == nil, errors.Is(err, os.ErrNotExist), !p.late && !errors.Is(err, os.ErrPermission):
		return err
	case !e.mode.IsDir():
		p.addReadOnly(e.name)
		return nil
	}
	return p.cover(e.name)
}

// cover hides a directory that can't be read, and lists it as such.
func (p *protection) cover(name string) error {
	p.scan.unreadable = append(p.scan.unreadable, name)
	return p.hide(name)
}

func (p *protection) addReadableGit(e gitEntry) error {
	switch {
	case slices.Contains(p.scan.unreadable, e.name):
		return nil
	case !e.mode.IsDir() && !e.mode.IsRegular():
		return fmt.Errorf("%s is neither a directory nor a file, and can't be protected: %w: remove it, or copy the directory", e.name, fault.Unsupported)
	case e.mode.IsRegular():
		return p.addGitFile(e.name)
	case p.settings.Shared:
		return nil // it is among the repositories
	}
	return p.addPrivateGit(e.name)
}

// addPrivateGit hides a Git directory in the directory by its private copy.
func (p *protection) addPrivateGit(name string) error {
	fd, err := p.openDir(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	host := filepath.Join(p.real, name)
	c, err := p.settings.Git.Get(gitdir.Source{FD: fd, Host: host, Path: host})
	if err != nil {
		return err
	}
	p.addMount(name, guestproto.Mount{Kind: guestproto.MountBind, Source: filepath.Join(p.settings.Git.Dir, c.ID, "git")})
	top := path.Dir(name)
	if path.Base(name) != ".git" {
		top = ""
	}
	_, err = p.addConfigured(host, filepath.Join(p.real, top))
	return err
}

// addGitFile adds the mount of a .git that is a file. A Git directory that it names in a
// directory that is shown is a private copy there. One elsewhere is copied if it belongs to
// the file; otherwise it is not seen inside.
func (p *protection) addGitFile(name string) error {
	link := filepath.Join(p.real, name)
	content := string(p.readFile(name, 4<<10))
	to := strings.TrimSpace(strings.TrimPrefix(content, "gitdir:"))
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(link), to)
	}
	to = filepath.Clean(to)
	if rel, err := filepath.Rel(p.real, to); err == nil && filepath.IsLocal(rel) {
		p.addReadOnly(name)
		return p.addSeparateGit(filepath.ToSlash(rel))
	}
	src, ok := gitdir.Locate(link, content)
	if !ok || p.settings.Shared || p.settings.IsShown(src.Host) || p.settings.CheckGit(src.Host) != nil {
		p.addReadOnly(name)
		return nil
	}
	fd, err := entry.OpenDir(unix.AT_FDCWD, src.Host)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", src.Host, fault.Of(err), err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	src.FD = fd
	c, err := p.settings.Git.Get(src)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.settings.Git.Dir, c.ID)
	p.addMount(name, guestproto.Mount{Kind: guestproto.MountBind, Source: filepath.Join(dir, "link"), ReadOnly: true})
	p.extra = append(p.extra, guestproto.Mount{Kind: guestproto.MountBind, Source: filepath.Join(dir, "git"), Target: path.Join(gitdir.Inside, c.ID, "git")})
	_, err = p.addConfigured(src.Host, filepath.Dir(link))
	return err
}

// addSeparateGit hides a Git directory that a .git file names and that is not in another
// one.
func (p *protection) addSeparateGit(name string) error {
	isRepo := slices.Contains(p.scan.repos, name) || p.late && gitdir.IsGit(filepath.Join(p.real, name), true)
	if p.settings.Shared || isInGit(name) || !isRepo {
		return nil
	}
	p.scan.repos = slices.DeleteFunc(p.scan.repos, func(repo string) bool { return repo == name })
	return p.addPrivateGit(name)
}

// isInGit reports whether a path leads into a .git.
func isInGit(name string) bool { return slices.Contains(strings.Split(name, "/"), ".git") }

// isHidden reports whether a path lies in a private copy: the workload does not reach the
// host's file there.
func (p *protection) isHidden(name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		if m, ok := p.mounts[at]; ok && m.Kind == guestproto.MountBind {
			return true
		}
	}
	if p.settings.Shared {
		return false
	}
	copied := func(c gitdir.Copy) bool { return paths.Inside(c.Repos[0].Host, filepath.Join(p.real, name)) }
	return isInGit(name) || p.late && slices.ContainsFunc(p.settings.Git.List, copied)
}

// addRepo adds the hooks and the configuration of a repository that is not copied.
func (p *protection) addRepo(dir string) error {
	for _, h := range placeholders {
		if err := p.reservePlaceholder(dir, h); err != nil {
			return err
		}
	}
	top := dir
	if path.Base(dir) == ".git" {
		top = path.Dir(dir)
	}
	perTree, err := p.addConfigured(filepath.Join(p.real, dir), filepath.Join(p.real, top))
	if err != nil {
		return err
	}
	shared := p.settings.Shared && isInGit(dir)
	if perTree || shared {
		if err := p.reservePlaceholder(dir, placeholder{name: "config.worktree"}); err != nil {
			return err
		}
	}
	if shared {
		if err := p.reserveAttributes(path.Join(dir, "info")); err != nil {
			return err
		}
	}
	p.addExisting(path.Join(dir, "config.worktree"))
	p.addExisting(path.Join(dir, "info/attributes"))
	trees, err := p.readNames(path.Join(dir, "worktrees"))
	if err != nil {
		return nil // no worktrees
	}
	for _, tree := range trees {
		at := path.Join(dir, "worktrees", tree)
		if info, err := p.root.Lstat(at); err != nil || !info.IsDir() {
			continue
		}
		for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
			p.addExisting(path.Join(at, name))
		}
		if perTree || shared {
			if err := p.reservePlaceholder(at, placeholder{name: "config.worktree"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// reserveAttributes reserves the attributes of a repository in its directory info, which
// stays writable.
func (p *protection) reserveAttributes(info string) error {
	if err := p.root.Mkdir(info, 0o755); err == nil {
		p.madeDirs = append(p.madeDirs, info)
	}
	if st, err := p.root.Lstat(info); err != nil || !st.IsDir() {
		return fmt.Errorf("%s is no directory, and can't be protected: %w", info, fault.Unsupported)
	}
	return p.reservePlaceholder(info, placeholder{name: "attributes"})
}

// maxIncludes bounds the configuration files that are read.
const maxIncludes = 64

// addConfigured adds what a repository of the host runs or includes in the directory, by
// its configuration or by symlinks, and reports whether its worktrees have configurations
// of their own. dir is the Git directory, and top the working tree, both paths of the host.
func (p *protection) addConfigured(dir, top string) (perTree bool, err error) {
	p.noteLinks(filepath.Join(dir, "info/attributes"), 0)
	hooks := []string{filepath.Join(dir, "hooks")}
	if names, err := os.ReadDir(hooks[0]); err == nil {
		for _, e := range names[:min(len(names), entry.MaxTree)] {
			if e.Type()&os.ModeSymlink == 0 {
				continue // read-only with its directory
			}
			if err := p.claim(filepath.Join(hooks[0], e.Name()), false); err != nil {
				return false, err
			}
		}
	}
	own := []string{filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree")}
	files := append(slices.Clone(own), gitdir.UserConfigs()...)
	for i := 0; i < len(files) && i < maxIncludes; i++ {
		if _, err := os.Stat(files[i]); err == nil {
			if err := p.claim(files[i], false); err != nil {
				return false, err
			}
		}
		c := gitdir.ParseConfig(string(gitdir.ReadConfig(files[i])))
		perTree = perTree || c.PerTree
		if c.Worktree != "" && i < len(own) {
			top = gitdir.ConfigPath(dir, c.Worktree)
		}
		for _, name := range c.Hooks {
			for _, base := range append(p.linkedWorktrees(), top) {
				hooks = append(hooks, gitdir.ConfigPath(base, name))
			}
		}
		for _, name := range c.Includes {
			at := gitdir.ConfigPath(filepath.Dir(files[i]), name)
			if err := p.claim(at, false); err != nil {
				return false, err
			}
			if !slices.Contains(files, at) {
				files = append(files, at)
			}
		}
	}
	for _, name := range hooks {
		if err := p.claim(name, true); err != nil {
			return false, err
		}
	}
	return perTree, nil
}

// linkedWorktrees lists the worktrees in the directory of repositories that lie elsewhere.
func (p *protection) linkedWorktrees() []string {
	var dirs []string
	for _, e := range p.scan.gits {
		if e.mode.IsRegular() && strings.Contains(string(p.readFile(e.name, 4<<10)), "/worktrees/") {
			dirs = append(dirs, filepath.Join(p.real, path.Dir(e.name)))
		}
	}
	return dirs
}

// A placeholder is a file or directory that is created where Git would read one.
type placeholder struct {
	name    string
	content string // of a file
	dir     bool
}

// The content of commondir names the directory itself, which is the default.
var placeholders = []placeholder{{name: "commondir", content: ".\n"}, {name: "config"}, {name: "hooks", dir: true}}

// reservePlaceholder adds a file that Git reads, and creates it if it does not exist. The
// guest holds a flock on what was created, as long as it lives.
func (p *protection) reservePlaceholder(dir string, h placeholder) error {
	if p.late {
		return nil
	}
	name := path.Join(dir, h.name)
	err := p.createPlaceholder(dir, name, h)
	switch {
	case errors.Is(err, os.ErrExist):
		// It may be a placeholder of this or another guest. An empty file could be one of the user.
		if !h.dir && h.content != "" && string(p.readFile(name, int64(len(h.content))+1)) == h.content {
			p.made = append(p.made, name)
		}
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil // the workload can't create it either
	case err != nil:
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Of(err), err)
	default:
		p.made = append(p.made, name)
	}
	if info, err := p.root.Lstat(name); err != nil || info.Mode()&os.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symlink, and can't be made read-only: %w", name, fault.Unsupported)
	}
	if len(p.made) > 0 && p.made[len(p.made)-1] == name {
		if err := p.lockPlaceholder(name); err != nil {
			return err
		}
	}
	p.addReadOnly(name)
	return nil
}

func (p *protection) createPlaceholder(dir, name string, h placeholder) error {
	if h.dir {
		if err := p.root.Mkdir(name, 0o755); err != nil {
			return err
		}
	} else {
		f, err := p.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(h.content)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	info, err := p.root.Stat(path.Clean(dir))
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		return p.root.Lchown(name, int(st.Uid), int(st.Gid))
	}
	return nil
}

// lockPlaceholder passes a shared flock on a placeholder to the guest, which shows other
// processes that the placeholder is in use.
func (p *protection) lockPlaceholder(name string) error {
	f, err := p.root.Open(name)
	if err != nil {
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Of(err), err)
	}
	p.keep(f)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Unavailable, err)
	}
	return nil
}

// RemovePlaceholders removes placeholders that no guest uses and whose content is unchanged.
func RemovePlaceholders(made []string) error {
	var errs []error
	for _, name := range made {
		if err := removePlaceholder(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the placeholder %s: %w: %w", name, fault.Of(err), err))
		}
	}
	return errors.Join(errs...)
}

func removePlaceholder(name string) error {
	i := slices.IndexFunc(placeholders, func(h placeholder) bool { return h.name == filepath.Base(name) })
	h := placeholder{name: filepath.Base(name)}
	if i >= 0 {
		h = placeholders[i]
	}
	// os.OpenRoot keeps the removal inside the directory, even if it was replaced since.
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	info, err := root.Lstat(h.name)
	if err != nil || i >= 0 && info.IsDir() != h.dir || !info.IsDir() && !info.Mode().IsRegular() {
		return err
	}
	h.dir = info.IsDir()
	f, err := root.OpenFile(h.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // another guest uses it
	}
	if !h.dir {
		if data, err := io.ReadAll(io.LimitReader(f, 16)); err != nil || string(data) != h.content {
			return err
		}
	}
	err = root.Remove(h.name)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return nil // the user has put files into it
	}
	return err
}
