package sandbox

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/internal/autorun"
)

// A directory in place or a writable bind contains autorun files, which the user's programs
// run outside the sandbox: Git hooks, files that Git's configuration names, editor tasks.
//
// Each .git is a private copy inside, see gitcopy_linux.go: nothing that the workload does
// in it reaches the host. Other autorun files that exist when the guest starts are read-only
// self bind mounts, and so is what the host's Git configuration names in the directory:
// hooks and included files, also by symlinks and by hard links. Before each command it is
// checked that these mounts are there: see checkMounts. Not prevented: new autorun files
// under other names, and new repositories. They are reported, see autorunChanges.
//
// A directory that Git takes for a repository without being named .git, and with {"git":
// "shared"} each .git, is not copied: what Git runs or includes there is read-only. Files
// that Git would read and that do not exist are created with neutral content
// (placeholders), so that the workload can't create them, and removed with the guest.

// A placeholder is a file or directory that is created where Git would read one.
type placeholder struct {
	name    string
	content string // of a file
	dir     bool
}

// The content of commondir names the directory itself, which is the default.
var placeholders = []placeholder{{name: "commondir", content: ".\n"}, {name: "config"}, {name: "hooks", dir: true}}

// autorunState lists the autorun files and placeholders in directories of the user.
type autorunState struct {
	Dirs   map[string]map[string]string `json:"dirs"`             // stamps of autorun files, by directory on the host and name
	Made   []string                     `json:"made,omitempty"`   // paths of placeholders on the host
	Mounts []heldMount                  `json:"mounts,omitempty"` // mounts that protect autorun files
	Hidden []string                     `json:"hidden,omitempty"` // directories on the host that can't be read, and are empty inside

	ReadOnly []string `json:"readOnly,omitempty"` // those of Dirs that the workload can't write: only FIFOs count there
}

// A heldMount is a mount that protects autorun files.
type heldMount struct {
	Target   string `json:"target"` // path inside
	Self     bool   `json:"self,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// addDir records the autorun files of a directory.
func (w *autorunState) addDir(dir string, s *autorunScan) {
	if w.Dirs == nil {
		w.Dirs = map[string]map[string]string{}
	}
	w.Dirs[dir] = s.stamps
}

// hasAutorunFiles reports whether a writable directory contains autorun files.
func (u launchSpec) hasAutorunFiles(dir string, writable bool) (bool, error) {
	if !writable || u.policy.ReadOnly {
		return false, nil
	}
	s, err := scanAutorun(dir, true, nil)
	if err = errors.Join(err, errors.Join(s.failures...)); err != nil {
		return false, err
	}
	if u.autorun != nil {
		u.autorun.addDir(dir, s)
	}
	return !s.isEmpty(), nil
}

// protectAutorun returns the mounts that protect the autorun files of a checked directory;
// inside is its path for the workload. The directories above them are self bind mounts,
// too: a mount point can't be renamed.
func (u launchSpec) protectAutorun(l *launch, d *checkedDir, inside string, readOnly bool) ([]guestproto.Mount, error) {
	if readOnly {
		return nil, nil
	}
	s, err := scanAutorun(d.procPath(), u.gitShared, nil)
	if err = errors.Join(err, errors.Join(s.failures...)); err != nil {
		return nil, err
	}
	p := &autorunProtection{launch: l, spec: &u, scan: s, self: d.procPath(), real: d.real, inside: inside, mounts: map[string]guestproto.Mount{}}
	if p.root, err = os.OpenRoot(d.procPath()); err != nil {
		return nil, err
	}
	defer p.root.Close() //nolint:errcheck // closing a directory can lose nothing
	if err := p.collect(); err != nil {
		return nil, err
	}
	p.addStamps(p.made...)
	p.made = append(p.made, p.madeDirs...)
	mounts := p.mountList()
	if u.autorun != nil {
		u.autorun.addDir(d.real, s)
		for _, name := range p.made {
			u.autorun.Made = append(u.autorun.Made, filepath.Join(d.real, name))
		}
		for _, m := range mounts {
			u.autorun.Mounts = append(u.autorun.Mounts, heldMount{Target: m.Target, Self: m.Kind == guestproto.MountSelf, ReadOnly: m.ReadOnly})
		}
		for _, name := range s.unreadable {
			u.autorun.Hidden = append(u.autorun.Hidden, filepath.Join(d.real, name))
		}
	}
	return mounts, nil
}

// An autorunProtection collects the mounts of one directory.
type autorunProtection struct {
	launch   *launch
	spec     *launchSpec
	root     *os.Root
	self     string // path of its descriptor
	real     string // its path when it was checked
	inside   string // its path for the workload
	scan     *autorunScan
	mounts   map[string]guestproto.Mount // by name
	extra    []guestproto.Mount          // elsewhere inside
	made     []string
	madeDirs []string       // directories of placeholders, to be removed after these
	linked   map[inode]bool // files that Git or another program runs and that have several names
}

// collect fills in mounts.
func (p *autorunProtection) collect() error {
	p.linked = map[inode]bool{}
	for _, name := range p.scan.unreadable {
		if err := p.hide(name); err != nil {
			return err
		}
	}
	for _, e := range p.scan.gits {
		if err := p.addGit(e); err != nil {
			return err
		}
	}
	for _, name := range p.scan.files {
		// Further down they stay writable: packages bring their own.
		if path.Dir(name) == "." || slices.Contains(autorun.TopNames, name) {
			p.addExisting(name)
			if to := resolveInside(p.self, p.real, name); to != "" && to != name {
				p.addExisting(to)
			}
		}
	}
	for _, name := range p.scan.repos {
		if err := p.addRepo(name); err != nil {
			return err
		}
	}
	return p.addLinked()
}

// addMount adds a mount, and writable self bind mounts of the directories above.
func (p *autorunProtection) addMount(name string, m guestproto.Mount) {
	m.Target = filepath.Join(p.inside, name)
	p.mounts[name] = m
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if _, ok := p.mounts[at]; !ok {
			p.mounts[at] = guestproto.Mount{Kind: guestproto.MountSelf, Target: filepath.Join(p.inside, at)}
		}
	}
}

// addReadOnly adds a read-only self bind mount. What it protects may have other names.
func (p *autorunProtection) addReadOnly(name string) {
	p.addMount(name, guestproto.Mount{Kind: guestproto.MountSelf, ReadOnly: true})
	p.noteLinks(filepath.Join(p.real, name), 0)
}

// hide adds a mount of an empty directory.
func (p *autorunProtection) hide(name string) error {
	empty := filepath.Join(p.spec.gitDir, emptyGitDir)
	if err := os.MkdirAll(empty, 0o755); err != nil {
		return err
	}
	p.addMount(name, guestproto.Mount{Kind: guestproto.MountBind, Source: empty, ReadOnly: true})
	return nil
}

// addGit adds the mount of an entry named .git: of its private copy, unless the workload
// shares the host's.
func (p *autorunProtection) addGit(e gitEntry) error {
	switch {
	case slices.Contains(p.scan.unreadable, e.name):
		return nil
	case !e.mode.IsDir() && !e.mode.IsRegular():
		return fmt.Errorf("%s is neither a directory nor a file, and can't be protected: %w: remove it, or copy the directory", e.name, fault.Unsupported)
	case e.mode.IsRegular():
		return p.addGitFile(e.name)
	case p.spec.gitShared:
		return nil // it is among the repositories
	}
	return p.addPrivateGit(e.name)
}

// addPrivateGit hides a Git directory in the directory by its private copy.
func (p *autorunProtection) addPrivateGit(name string) error {
	fd, err := p.openDir(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	host := filepath.Join(p.real, name)
	c, err := p.spec.privateGit(gitSource{fd: fd, host: host, path: host})
	if err != nil {
		return err
	}
	p.addMount(name, guestproto.Mount{Kind: guestproto.MountBind, Source: filepath.Join(p.spec.gitDir, c.ID, "git")})
	top := path.Dir(name)
	if path.Base(name) != ".git" {
		top = ""
	}
	_, err = p.addConfigured(host, filepath.Join(p.real, top))
	return err
}

// openDir opens a directory in the directory, without symlinks on the way.
func (p *autorunProtection) openDir(name string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, p.self, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC})
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd) //nolint:errcheck // a directory
	return unix.Openat2(fd, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
}

// addGitFile adds the mount of a .git that is a file. A Git directory that it names in a
// directory that is shown is a private copy there. One elsewhere is copied if it belongs to
// the file; otherwise it is not seen inside.
func (p *autorunProtection) addGitFile(name string) error {
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
	src, ok := locateGitDir(link, content)
	if !ok || p.spec.gitShared || p.spec.isShown(src.host) || p.spec.checkGit(src.host) != nil {
		p.addReadOnly(name)
		return nil
	}
	fd, err := openDirAt(unix.AT_FDCWD, src.host)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", src.host, fault.Of(err), err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	src.fd = fd
	c, err := p.spec.privateGit(src)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.spec.gitDir, c.ID)
	p.addMount(name, guestproto.Mount{Kind: guestproto.MountBind, Source: filepath.Join(dir, "link"), ReadOnly: true})
	p.extra = append(p.extra, guestproto.Mount{Kind: guestproto.MountBind, Source: filepath.Join(dir, "git"), Target: path.Join(gitInside, c.ID, "git")})
	_, err = p.addConfigured(src.host, filepath.Dir(link))
	return err
}

// addSeparateGit hides a Git directory that a .git file names and that is not in another
// one.
func (p *autorunProtection) addSeparateGit(name string) error {
	if p.spec.gitShared || isInGit(name) || !slices.Contains(p.scan.repos, name) {
		return nil
	}
	p.scan.repos = slices.DeleteFunc(p.scan.repos, func(repo string) bool { return repo == name })
	return p.addPrivateGit(name)
}

// isInGit reports whether a path leads into a .git.
func isInGit(name string) bool { return slices.Contains(strings.Split(name, "/"), ".git") }

// isHidden reports whether a path lies in a private copy: the workload does not reach the
// host's file there.
func (p *autorunProtection) isHidden(name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		if m, ok := p.mounts[at]; ok && m.Kind == guestproto.MountBind {
			return true
		}
	}
	return !p.spec.gitShared && isInGit(name)
}

// addRepo adds the hooks and the configuration of a repository that is not copied.
func (p *autorunProtection) addRepo(dir string) error {
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
	shared := p.spec.gitShared && isInGit(dir)
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
func (p *autorunProtection) reserveAttributes(info string) error {
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
func (p *autorunProtection) addConfigured(dir, top string) (perTree bool, err error) {
	p.noteLinks(filepath.Join(dir, "info/attributes"), 0)
	hooks := []string{filepath.Join(dir, "hooks")}
	if names, err := os.ReadDir(hooks[0]); err == nil {
		for _, e := range names[:min(len(names), maxTreeEntries)] {
			if e.Type()&os.ModeSymlink == 0 {
				continue // read-only with its directory
			}
			if err := p.claim(filepath.Join(hooks[0], e.Name()), false); err != nil {
				return false, err
			}
		}
	}
	own := []string{filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree")}
	files := append(slices.Clone(own), userGitConfigs()...)
	for i := 0; i < len(files) && i < maxIncludes; i++ {
		if err := p.claimExisting(files[i]); err != nil {
			return false, err
		}
		c := parseGitConfig(string(readConfig(files[i])))
		perTree = perTree || c.perTree
		if c.worktree != "" && i < len(own) {
			top = configPath(dir, c.worktree)
		}
		for _, name := range c.hooks {
			for _, base := range append(p.linkedWorktrees(), top) {
				hooks = append(hooks, configPath(base, name))
			}
		}
		for _, name := range c.includes {
			at := configPath(filepath.Dir(files[i]), name)
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

// maxConfigSize bounds how much of a configuration file is read.
const maxConfigSize = 1 << 20

// readConfig returns the content of a configuration file of the host, nil if there is none.
func readConfig(name string) []byte {
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

// readFile returns the beginning of a regular file, and nil otherwise: reading a FIFO could
// block forever.
func (p *autorunProtection) readFile(name string, most int64) []byte {
	f, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	return data
}

// userGitConfigs lists the configuration files of the user and of the host, which apply to
// every repository.
func userGitConfigs() []string {
	list := []string{"/etc/gitconfig"}
	if dir, err := os.UserConfigDir(); err == nil {
		list = append(list, filepath.Join(dir, "git/config"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		list = append(list, filepath.Join(home, ".gitconfig"))
	}
	return list
}

// configPath returns the path of a configured name, which is relative to base.
func configPath(base, name string) string {
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

// linkedWorktrees lists the worktrees in the directory of repositories that lie elsewhere.
func (p *autorunProtection) linkedWorktrees() []string {
	var dirs []string
	for _, e := range p.scan.gits {
		if e.mode.IsRegular() && strings.Contains(string(p.readFile(e.name, 4<<10)), "/worktrees/") {
			dirs = append(dirs, filepath.Join(p.real, path.Dir(e.name)))
		}
	}
	return dirs
}

// claim makes a path of the host that Git runs or includes read-only, if it leads into the
// directory. A symlink on the way there can't be read-only; changes of it are reported.
func (p *autorunProtection) claim(name string, dir bool) error {
	p.noteLinks(name, 0)
	at := p.resolve(name)
	if at == "" || p.isHidden(at) {
		return nil
	}
	if err := p.claimPath(at, dir); err != nil {
		return err
	}
	p.addStamps(at)
	return nil
}

// addStamps adds stamps of files that the scan did not know.
func (p *autorunProtection) addStamps(names ...string) {
	top, err := unix.Open(p.self, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(top) //nolint:errcheck // a directory
	p.scan.topFD = top
	for _, name := range names {
		p.scan.addStamp(top, name, name)
	}
}

// claimExisting is claim for a path that need not exist.
func (p *autorunProtection) claimExisting(name string) error {
	if _, err := os.Stat(name); err != nil {
		return nil
	}
	return p.claim(name, false)
}

// resolve follows the symlinks of a path of the host. It returns the path in the directory
// that it leads to, "" if that is outside. What does not exist counts as well. Symlinks
// that lie in the directory get a stamp.
func (p *autorunProtection) resolve(name string) string {
	const maxLinks = 40
	rest, at := strings.Split(strings.Trim(name, "/"), "/"), "/"
	for links := 0; len(rest) > 0; {
		elem := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, elem)
		target, err := os.Readlink(next)
		if err != nil {
			at = next // no symlink, or nothing
			continue
		}
		if links++; links > maxLinks {
			return ""
		}
		if rel, inside := strings.CutPrefix(next, p.real+"/"); inside && !p.isHidden(rel) {
			p.scan.stamps[rel] = "symlink " + target
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	rel, inside := strings.CutPrefix(at, p.real+"/")
	if !inside {
		return ""
	}
	return rel
}

// noteLinks notes a file of the host, or the files of a directory, that have other names: a
// workload that writes to one of these changes the file.
func (p *autorunProtection) noteLinks(name string, depth int) {
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil || depth > maxDepth {
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if st.Nlink > 1 {
			p.linked[inode{st.Dev, st.Ino}] = true
		}
	case unix.S_IFDIR:
		entries, err := os.ReadDir(name)
		if err != nil || len(entries) > maxTreeEntries {
			return
		}
		for _, e := range entries {
			if e.Type()&os.ModeSymlink == 0 || depth == 0 {
				p.noteLinks(filepath.Join(name, e.Name()), depth+1)
			}
		}
	}
}

// addLinked makes the other names of files that Git or another program runs read-only.
func (p *autorunProtection) addLinked() error {
	if len(p.linked) == 0 {
		return nil
	}
	names, err := findLinks(p.self, p.linked)
	for _, name := range names {
		if _, ok := p.mounts[name]; !ok && !p.isHidden(name) {
			if err := p.claim(filepath.Join(p.real, name), false); err != nil {
				return err
			}
		}
	}
	return err
}

// claimPath adds a path that Git's configuration names. If it does not exist, the first
// missing element of the path is created, so that the workload can't create it.
func (p *autorunProtection) claimPath(name string, dir bool) error {
	if name == "" {
		return nil
	}
	at := ""
	for elem := range strings.SplitSeq(name, "/") {
		at = path.Join(at, elem)
		_, err := p.root.Lstat(at)
		if errors.Is(err, os.ErrNotExist) {
			return p.reservePlaceholder(path.Dir(at), placeholder{name: elem, dir: dir || at != name})
		}
		if err != nil {
			return nil // not reachable
		}
	}
	p.addReadOnly(name)
	return nil
}

func (p *autorunProtection) readNames(dir string) ([]string, error) {
	f, err := p.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// addExisting adds a path if it exists and has no symlink in it: a symlink could be
// changed between this check and the mount (TOCTOU).
func (p *autorunProtection) addExisting(name string) {
	for at := name; at != "."; at = path.Dir(at) {
		if info, err := p.root.Lstat(at); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return
		}
	}
	p.addReadOnly(name)
}

// reservePlaceholder adds a file that Git reads, and creates it if it does not exist. The
// guest holds a flock on what was created, as long as it lives.
func (p *autorunProtection) reservePlaceholder(dir string, h placeholder) error {
	name := path.Join(dir, h.name)
	err := p.createPlaceholder(dir, name, h)
	switch {
	case errors.Is(err, os.ErrExist):
		if p.isOurPlaceholder(name, h) {
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

func (p *autorunProtection) createPlaceholder(dir, name string, h placeholder) error {
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

// isOurPlaceholder reports whether an existing file is a placeholder of this or another
// guest.
func (p *autorunProtection) isOurPlaceholder(name string, h placeholder) bool {
	if h.dir || h.content == "" {
		return false // it could be an empty one of the user
	}
	return string(p.readFile(name, int64(len(h.content))+1)) == h.content
}

// lockPlaceholder passes a shared flock on a placeholder to the guest, which shows other
// processes that the placeholder is in use.
func (p *autorunProtection) lockPlaceholder(name string) error {
	f, err := p.root.Open(name)
	if err != nil {
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Of(err), err)
	}
	p.launch.addFile(fmt.Sprintf("reserved%d", len(p.launch.Files)), f)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Unavailable, err)
	}
	return nil
}

// mountList returns the mounts, outer ones first.
func (p *autorunProtection) mountList() []guestproto.Mount {
	mounts := p.extra
	for _, name := range slices.Sorted(maps.Keys(p.mounts)) {
		mounts = append(mounts, p.mounts[name])
	}
	return mounts
}

// removePlaceholders removes placeholders that no guest uses and whose content is unchanged.
func removePlaceholders(made []string) error {
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
