package protect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
)

// A repository can appear while the guest runs: somebody clones one, adds a worktree or
// replaces a .git, on the host. Inotify shows this process each new entry named .git. Before
// a command, before a call of module FS, and while commands run, a .git that no mount covers
// gets its private copy, which the guest mounts; with {"git": "shared"} its configuration and
// hooks become read-only. Levels whose guest can't mount start it again before the next
// command, or refuse that.
//
// A repository that git makes inside is the workload's own: it has a file from the template
// that git uses inside (see gitdir.Template), or its .git is a file that names no directory of
// the host. It stays as it is, so that the workload can use and remove it. A workload
// that is fast enough can put that file into a repository of the host before the mount is
// made. So what Git runs in a repository that appeared later is always compared by the scans,
// see scan.addGit.

// openRepos lists the repositories of the host that no mount covers. pending says that there
// are entries which may become such.
func (g *Guest) openRepos() (open []lateGit, pending bool) {
	if g.repos == nil || g.rootfs == nil {
		return nil, false
	}
	for _, e := range g.repos.look() {
		host, inside := g.repos.host(e), g.repos.inside(e)
		info, err := os.Lstat(host)
		switch {
		case errors.Is(err, os.ErrNotExist):
			g.repos.forget(e)
		case errors.Is(err, os.ErrPermission):
			pending = true // the workload can't reach it either, until it changes the mode of a directory above
		case err != nil, !info.IsDir() && !info.Mode().IsRegular(): // a symlink is reported
		case g.isCovered(host, inside, info.IsDir()):
			if g.settings.Late && g.isPartial(host) {
				pending = true
				if gitdir.IsWhole(host) {
					open = append(open, e)
				}
			}
		case !gitdir.IsGit(host, info.IsDir()):
			pending = true
		case g.repos.isHosts(e) || !gitdir.IsOwn(host, info.IsDir()):
			g.repos.setHosts(e)
			open = append(open, e)
		}
	}
	return open, pending || g.repos.isBlind()
}

// openOthers lists further directories that no mount covers: repositories of the host that
// are not named .git, and directories that this user may not read, in which a repository of
// the host may appear unseen.
func (g *Guest) openOthers() []lateGit {
	if g.repos == nil || g.rootfs == nil {
		return nil
	}
	g.repos.look()
	g.repos.mu.Lock()
	list := slices.Collect(maps.Keys(g.repos.blind))
	for e := range g.repos.bare {
		at := g.repos.host(e)
		isRepo := gitdir.IsGit(at, true) || entry.Exists(filepath.Join(at, "HEAD")) && entry.Exists(filepath.Join(at, "commondir"))
		if e.rel != "" && isRepo && !g.repos.isInBare(e) && !gitdir.IsOwn(at, true) {
			list = append(list, e)
		}
	}
	g.repos.mu.Unlock()
	return slices.DeleteFunc(list, func(e lateGit) bool {
		mounted, err := g.isMount(g.repos.inside(e))
		return err != nil || mounted
	})
}

// isCovered reports whether mounts protect a .git.
func (g *Guest) isCovered(host, inside string, dir bool) bool {
	names := []string{""}
	switch {
	case dir && g.settings.Shared:
		names = sharedRunFiles(host, "", 0)
	case !dir && !g.settings.Shared:
		to := gitdir.Target(host)
		if rel, err := filepath.Rel(filepath.Dir(host), to); err == nil && !isInGit(rel) && gitdir.IsGit(to, true) && !gitdir.IsOwn(to, true) {
			names = append(names, path.Join("..", rel)) // of git clone --separate-git-dir
		}
	}
	for _, name := range names {
		if mounted, err := g.isMount(filepath.Join(inside, name)); err == nil && !mounted {
			return false
		}
	}
	return true
}

// sharedRunFiles lists the paths, below a Git directory that is not copied, that are read-only
// if they exist: also in its worktrees and in the repositories of its submodules.
func sharedRunFiles(host, sub string, depth int) []string {
	var names []string
	for _, name := range []string{"config", "config.worktree", "commondir", "hooks", "info/attributes"} {
		names = append(names, path.Join(sub, name))
	}
	trees, _ := os.ReadDir(filepath.Join(host, sub, "worktrees"))
	for _, tree := range trees {
		for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
			names = append(names, path.Join(sub, "worktrees", tree.Name(), name))
		}
	}
	modules := path.Join(sub, "modules")
	if depth > entry.MaxDepth {
		return names
	}
	filepath.WalkDir(filepath.Join(host, modules), func(name string, e os.DirEntry, err error) error { //nolint:errcheck // it returns none
		switch rel, rerr := filepath.Rel(host, name); {
		case err != nil || rerr != nil || !e.IsDir() || gitdir.IsOwn(name, true):
		case entry.Exists(filepath.Join(name, "HEAD")):
			names = append(names, sharedRunFiles(host, rel, depth+1)...)
			return filepath.SkipDir
		}
		return nil
	})
	return names
}

func (g *Guest) isPartial(host string) bool {
	g.lateMu.Lock()
	defer g.lateMu.Unlock()
	return g.partial[host]
}

// setPartial records which copies were made while something wrote to the .git.
func (g *Guest) setPartial(copies []gitdir.Copy) {
	g.lateMu.Lock()
	defer g.lateMu.Unlock()
	g.partial = map[string]bool{}
	for _, c := range copies {
		if c.Partial {
			g.partial[c.Path] = true
		}
	}
}

// protectRepos protects repositories that no mount covers. It returns those that are left,
// because the guest can't mount. With others it protects those of openOthers, too.
func (g *Guest) protectRepos(ctx context.Context, others bool) ([]string, error) {
	tried, _ := g.openRepos()
	if others {
		tried = append(tried, g.openOthers()...)
	}
	if len(tried) == 0 {
		return nil, nil
	}
	lock, err := supervise.Lock(ctx, g.ws.Dir.Path)
	if err != nil {
		return nil, fmt.Errorf("sandbox: lock the guest: %w", err)
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the descriptor
	mounts, err := g.lateMounts(ctx, tried)
	mounts = slices.DeleteFunc(mounts, func(m guestproto.Mount) bool {
		mounted, err := g.isMount(m.Target)
		return err == nil && mounted && m.Kind == guestproto.MountSelf
	})
	g.client.Hold(ctx, mounts) //nolint:errcheck // the next line looks
	open, _ := g.openRepos()
	if others {
		open = append(open, g.openOthers()...)
	}
	var left []string
	for _, e := range open {
		left = append(left, g.repos.inside(e))
	}
	if err != nil {
		err = fmt.Errorf("sandbox: protect repositories: %w: remove %s, or make it readable", err, g.repos.host(slices.Concat(open, tried)[0]))
	}
	return left, err
}

// lateMounts makes the private copies of repositories, and returns the mounts of these. It
// requires the guest lock.
func (g *Guest) lateMounts(ctx context.Context, open []lateGit) ([]guestproto.Mount, error) {
	copies, err := gitdir.Read(g.ws.Dir)
	if err != nil {
		return nil, err
	}
	u := *g.settings
	u.State, u.Git = new(State), copies
	before := slices.Clone(copies.List)
	var mounts []guestproto.Mount
	var errs []error
	for i, top := range g.repos.tops {
		var names []string
		for _, e := range open {
			if e.top == i {
				names = append(names, e.rel)
			}
		}
		if len(names) > 0 {
			list, err := g.lateMountsIn(&u, top, names)
			mounts, errs = append(mounts, list...), append(errs, err)
		}
	}
	if !slices.EqualFunc(before, copies.List, func(a, b gitdir.Copy) bool { return a.ID == b.ID }) {
		_, err := g.ws.Dir.Update(ctx, false, copies.WriteTo)
		errs = append(errs, err)
	}
	g.setPartial(copies.List)
	errs = append(errs, g.ws.addFound(u.State))
	return mounts, errors.Join(errs...)
}

// lateProtection returns an protection for a directory of the user, and how to end it.
func (g *Guest) protection(u *Settings, top *shownDir) (*protection, func(), error) {
	d, err := g.ws.OpenDir(top.now())
	if err != nil {
		return nil, nil, err
	}
	p, err := newProtection(u, d, top.inside, &scan{stamps: map[string]string{}, real: d.Real})
	if err != nil {
		return nil, nil, errors.Join(err, d.File.Close())
	}
	p.late = true
	return p, func() {
		defer d.File.Close()
		p.root.Close() //nolint:errcheck // closing a directory can lose nothing
	}, nil
}

// lateMountsIn is lateMounts for one directory of the user.
func (g *Guest) lateMountsIn(u *Settings, top *shownDir, names []string) ([]guestproto.Mount, error) {
	p, end, err := g.protection(u, top)
	if err != nil {
		return nil, err
	}
	defer end()
	var errs []error
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(p.real, name))
		switch {
		case err != nil: // gone
		case info.IsDir() && !p.canRead(name):
			err = p.cover(name)
		case path.Base(name) != ".git":
			p.addReadOnly(name) // as a whole: there are no placeholders now
		case info.IsDir() && u.Shared:
			for _, file := range sharedRunFiles(filepath.Join(p.real, name), "", 0) {
				p.addExisting(path.Join(name, file))
			}
		default:
			err = p.addGit(gitEntry{name, info.Mode().Type()})
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, name := range p.scan.unreadable {
		u.State.Hidden = append(u.State.Hidden, filepath.Join(p.real, name))
	}
	errs = append(errs, p.addLinked())
	// The directories above stay without a mount: a process whose working directory is
	// one of these would not see later mounts in it. Inner mounts come first, for the same
	// reason.
	mounts := slices.DeleteFunc(p.mountList(), func(m guestproto.Mount) bool { return m.Kind == guestproto.MountSelf && !m.ReadOnly })
	slices.Reverse(mounts)
	for i, m := range mounts {
		if rest, ok := strings.CutPrefix(m.Source, u.Git.Dir); ok && m.Kind == guestproto.MountBind {
			mounts[i].Source = gitdir.Inside + rest
		}
	}
	return mounts, errors.Join(errs...)
}

// protectConfigured protects the files that Git on the host runs or includes by now, by the
// configuration of the repositories in the directories and of the user: all of these may have
// changed since the guest started. It returns one that is left, because the guest can't mount.
// One that does not exist gets no placeholder any more: it is named by a warning, and compared
// by the scans.
func (g *Guest) protectConfigured(ctx context.Context) (left string, err error) {
	if g.repos == nil || g.rootfs == nil {
		return "", nil
	}
	u := *g.settings
	u.State = &State{Dirs: map[string]map[string]string{}}
	if u.Git, err = gitdir.Read(g.ws.Dir); err != nil {
		return "", err
	}
	var mounts []guestproto.Mount
	var missing []string
	entries := g.repos.look()
	for i, top := range g.repos.tops {
		p, end, err := g.protection(&u, top)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			host := g.repos.host(e)
			info, serr := os.Lstat(host)
			if e.top != i || serr != nil {
				continue
			}
			if mounted, _ := g.isMount(g.repos.inside(e)); mounted || g.repos.isHosts(e) || !gitdir.IsOwn(host, info.IsDir()) {
				p.scan.gits = append(p.scan.gits, gitEntry{e.rel, info.Mode().Type()})
			}
		}
		for _, e := range p.scan.gits {
			err = errors.Join(err, p.addConfiguredGit(e))
		}
		err = errors.Join(err, p.addLinked())
		end()
		if err != nil {
			return "", err
		}
		mounts = append(mounts, p.mountList()...)
		u.State.Dirs[top.Real] = p.scan.stamps
		for _, name := range p.missing {
			if !g.isReadOnly(filepath.Join(p.inside, name)) {
				missing = append(missing, filepath.Join(p.real, name))
			}
		}
	}
	g.ws.mu.Lock()
	g.ws.missing = missing
	g.ws.mu.Unlock()
	if err := g.ws.addFound(u.State); err != nil {
		return "", err
	}
	open := func(m guestproto.Mount) bool {
		mounted, err := g.isMount(m.Target)
		return m.ReadOnly && err == nil && !mounted
	}
	mounts = slices.DeleteFunc(mounts, func(m guestproto.Mount) bool { return !open(m) })
	if len(mounts) > 0 && g.settings.Late {
		slices.Reverse(mounts)     // inner ones first, see lateMountsIn
		g.client.Hold(ctx, mounts) //nolint:errcheck // the next line looks
		mounts = slices.DeleteFunc(mounts, func(m guestproto.Mount) bool { return !open(m) })
	}
	if len(mounts) > 0 {
		return mounts[0].Target, nil
	}
	return "", nil
}

// addConfiguredGit is addConfigured for the repository of an entry named .git.
func (p *protection) addConfiguredGit(e gitEntry) error {
	link := filepath.Join(p.real, e.name)
	dir := link
	if !e.mode.IsDir() {
		content := string(p.readFile(e.name, 4<<10))
		dir = gitdir.ConfigPath(filepath.Dir(link), strings.TrimSpace(strings.TrimPrefix(content, "gitdir:")))
		if !paths.Inside(p.real, dir) {
			src, ok := gitdir.Locate(link, content)
			if !ok {
				return nil
			}
			dir = src.Host
		} else if isInGit(dir) {
			return nil // a worktree or submodule of another entry
		}
	}
	_, err := p.addConfigured(dir, filepath.Dir(link))
	return err
}

// canRead reports whether this user may list a directory.
func (p *protection) canRead(name string) bool {
	fd, err := p.openDir(name)
	if err != nil {
		return !errors.Is(err, os.ErrPermission)
	}
	return unix.Close(fd) == nil
}
