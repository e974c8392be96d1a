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
// Those that exist when the guest starts are read-only self bind mounts for the workspace.
// Files that Git would read and that do not exist are created with neutral content
// (placeholders), so that the workload can't create them, and removed with the guest. Not
// prevented: new autorun files under other names. They are reported, see autorunChanges.

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
	Dirs map[string]map[string]string `json:"dirs"`           // stamps of autorun files, by directory on the host and name
	Made []string                     `json:"made,omitempty"` // paths of placeholders on the host
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
	s, err := scanAutorun(dir)
	if err != nil {
		return false, err
	}
	if u.autorun != nil {
		u.autorun.addDir(dir, s)
	}
	return !s.isEmpty(), nil
}

// protectAutorun returns self bind mounts that make the autorun files of a checked
// directory read-only; inside is its path for the workload. The directories above them are
// self bind mounts, too: a mount point can't be renamed.
func (u launchSpec) protectAutorun(l *launch, d *checkedDir, inside string, readOnly bool) ([]guestproto.Mount, error) {
	if readOnly {
		return nil, nil
	}
	s, err := scanAutorun(d.procPath())
	if err != nil {
		return nil, err
	}
	p := &autorunProtection{launch: l, scan: s, self: d.procPath(), real: d.real, binds: map[string]bool{}}
	if p.root, err = os.OpenRoot(d.procPath()); err != nil {
		return nil, err
	}
	defer p.root.Close() //nolint:errcheck // closing a directory can lose nothing
	if err := p.collect(); err != nil {
		return nil, err
	}
	if u.autorun != nil {
		u.autorun.addDir(d.real, s)
		for _, name := range p.made {
			u.autorun.Made = append(u.autorun.Made, filepath.Join(d.real, name))
		}
	}
	return p.bindMounts(inside), nil
}

// An autorunProtection collects the self bind mounts of one directory.
type autorunProtection struct {
	launch *launch
	root   *os.Root
	self   string // path of its descriptor
	real   string // its path when it was checked
	scan   *autorunScan
	binds  map[string]bool // names, and whether they are read-only
	made   []string
}

// collect fills in binds.
func (p *autorunProtection) collect() error {
	for _, name := range p.scan.gitLinks {
		info, err := p.root.Lstat(name)
		switch {
		case err == nil && info.Mode().IsRegular():
			p.addReadOnly(name)
		case err == nil && name == ".git":
			return fmt.Errorf(".git is neither a directory nor a file, and can't be made read-only: %w", fault.Unsupported)
		}
	}
	for _, name := range p.scan.files {
		// Further down they stay writable: packages bring their own.
		if path.Dir(name) == "." || slices.Contains(autorun.TopNames, name) {
			p.addExisting(name)
		}
	}
	for name, to := range p.scan.linkTargets {
		if at := path.Dir(name); at == "." || path.Base(at) == "hooks" || slices.Contains(autorun.TopNames, name) {
			p.addExisting(to)
		}
	}
	for _, name := range p.scan.repos {
		if err := p.addRepo(name); err != nil {
			return err
		}
	}
	return nil
}

// addReadOnly adds a read-only self bind mount, and writable ones of the directories above.
func (p *autorunProtection) addReadOnly(name string) {
	p.binds[name] = true
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if _, ok := p.binds[at]; !ok {
			p.binds[at] = false
		}
	}
}

// addRepo adds the hooks and the configuration of a repository.
func (p *autorunProtection) addRepo(dir string) error {
	for _, h := range placeholders {
		if err := p.reservePlaceholder(dir, h); err != nil {
			return err
		}
	}
	perTree, err := p.addConfigured(dir)
	if err != nil {
		return err
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
		if perTree {
			if err := p.reservePlaceholder(at, placeholder{name: "config.worktree"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxIncludes bounds the configuration files that are read.
const maxIncludes = 64

// addConfigured adds the files that the configuration of a repository names, and reports
// whether its worktrees have configurations of their own.
func (p *autorunProtection) addConfigured(dir string) (perTree bool, err error) {
	files := []string{path.Join(dir, "config"), path.Join(dir, "config.worktree")}
	top := path.Dir(dir)
	if path.Base(dir) != ".git" {
		top = path.Clean(dir)
	}
	var hooks []string
	for i := 0; i < len(files) && i < maxIncludes; i++ {
		if i > 1 { // an included file
			if err := p.claimPath(files[i], false); err != nil {
				return false, err
			}
		}
		c := parseGitConfig(string(p.readFile(files[i], maxConfigSize)))
		perTree = perTree || c.perTree
		hooks = append(hooks, c.hooks...)
		if c.worktree != "" {
			top = p.resolveConfigPath(dir, c.worktree)
		}
		for _, name := range c.includes {
			if at := p.resolveConfigPath(path.Dir(files[i]), name); at != "" && !slices.Contains(files, at) {
				files = append(files, at)
			}
		}
	}
	if perTree {
		if err := p.reservePlaceholder(dir, placeholder{name: "config.worktree"}); err != nil {
			return false, err
		}
	}
	for _, name := range hooks {
		for _, base := range append(p.linkedWorktrees(), top) {
			if err := p.claimPath(p.resolveConfigPath(base, name), true); err != nil {
				return false, err
			}
		}
	}
	return perTree, nil
}

// maxConfigSize bounds how much of a configuration file is read.
const maxConfigSize = 1 << 20

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

// resolveConfigPath returns the path in the directory of a configured name, which is
// relative to base. It returns "" for a path outside, where the workload can't write.
func (p *autorunProtection) resolveConfigPath(base, name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		name = filepath.Join(home, rest)
	}
	if path.IsAbs(name) {
		rel, inside := strings.CutPrefix(path.Clean(name), p.real+"/")
		if !inside {
			return ""
		}
		return rel
	}
	if base == "" {
		return ""
	}
	if at := path.Join(base, name); filepath.IsLocal(at) && at != "." {
		return at
	}
	return ""
}

// linkedWorktrees lists the worktrees of repositories that lie elsewhere.
func (p *autorunProtection) linkedWorktrees() []string {
	var dirs []string
	for _, link := range p.scan.gitLinks {
		if strings.Contains(string(p.readFile(link, 4<<10)), "/worktrees/") {
			dirs = append(dirs, path.Dir(link))
		}
	}
	return dirs
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
		info, err := p.root.Lstat(at)
		if errors.Is(err, os.ErrNotExist) {
			return p.reservePlaceholder(path.Dir(at), placeholder{name: elem, dir: dir || at != name})
		}
		if err != nil {
			return nil // not reachable
		}
		if info.Mode()&os.ModeSymlink != 0 {
			if to, _ := resolveInside(p.self, p.real, name); to != "" {
				p.addExisting(to)
			}
			return nil
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

// bindMounts returns the self bind mounts, outer ones first.
func (p *autorunProtection) bindMounts(inside string) []guestproto.Mount {
	var mounts []guestproto.Mount
	for _, name := range slices.Sorted(maps.Keys(p.binds)) {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountSelf, Target: filepath.Join(inside, name), ReadOnly: p.binds[name]})
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
