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
	"github.com/croft-run/croft/guest"
)

// Where a workspace is a directory of the user's, what its user runs later lies
// in it: hooks of Git, what its configuration names, tasks of editors. All that
// is there when the guest starts is read-only for the workspace. What Git would
// also look at and is not there is made, in its neutral form, so that nobody else
// can make it, and removed with the guest. What comes later under other names
// can't be kept from coming; it is told, see planted.

// A placeholder is made where Git looks for something.
type placeholder struct {
	name    string
	content string // of a file
	dir     bool
}

// commonDir names the directory itself, which means the same as no such file.
var placeholders = []placeholder{{name: "commondir", content: ".\n"}, {name: "config"}, {name: "hooks", dir: true}}

// autorunState is what was found, and made, in directories of the user's for a guest.
type autorunState struct {
	Dirs map[string]map[string]string `json:"dirs"`           // what each holds, by its path on the host
	Made []string                     `json:"made,omitempty"` // placeholders, as paths of the host
}

// addDir remembers what a directory holds.
func (w *autorunState) addDir(dir string, s *autorunScan) {
	if w.Dirs == nil {
		w.Dirs = map[string]map[string]string{}
	}
	w.Dirs[dir] = s.stamps
}

// hasAutorunFiles reports whether a directory that is to be written holds what others run
// later.
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

// protectAutorun returns mounts that make what others run later read-only in a
// directory that was judged and is at inside for the workspace. Directories on the
// way are mounts as well, which can't be moved away.
func (u launchSpec) protectAutorun(l *launch, d *checkedDir, inside string, readOnly bool) ([]guest.Mount, error) {
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

// A autorunProtection is what is to be held in one directory.
type autorunProtection struct {
	launch *launch
	root   *os.Root
	self   string // a path that leads there
	real   string // where it was
	scan   *autorunScan
	binds  map[string]bool // names, and whether they are read-only
	made   []string
}

// collect collects what is to be held.
func (p *autorunProtection) collect() error {
	for _, name := range p.scan.gitLinks {
		info, err := p.root.Lstat(name)
		switch {
		case err == nil && info.Mode().IsRegular():
			p.addReadOnly(name)
		case err == nil && name == ".git":
			return fmt.Errorf("its .git is neither a directory nor a file, and can't be kept as it is: %w", fault.Unsupported)
		}
	}
	for _, name := range p.scan.files {
		// Further down they are left to who works there: packages bring their own.
		if path.Dir(name) == "." || slices.Contains(topAutorunNames, name) {
			p.addExisting(name)
		}
	}
	for name, to := range p.scan.linkTargets {
		if at := path.Dir(name); at == "." || path.Base(at) == "hooks" || slices.Contains(topAutorunNames, name) {
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

// addReadOnly holds a name read-only, and all on the way to it.
func (p *autorunProtection) addReadOnly(name string) {
	p.binds[name] = true
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if _, ok := p.binds[at]; !ok {
			p.binds[at] = false
		}
	}
}

// addRepo holds what Git runs, and takes its configuration from, in a repository.
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
		return nil // there are none
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

// maxIncludes bounds how many files a configuration is read from.
const maxIncludes = 64

// addConfigured holds what the configuration of a repository names, and says whether
// its working trees have a configuration of their own.
func (p *autorunProtection) addConfigured(dir string) (perTree bool, err error) {
	files := []string{path.Join(dir, "config"), path.Join(dir, "config.worktree")}
	top := path.Dir(dir)
	if path.Base(dir) != ".git" {
		top = path.Clean(dir)
	}
	var hooks []string
	for i := 0; i < len(files) && i < maxIncludes; i++ {
		if i > 1 { // what a file names that Git itself knows
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

// maxConfigSize is as much as is read of a configuration.
const maxConfigSize = 1 << 20

// readFile returns the beginning of a file, nothing where it is none: what is not one
// could make its reader wait for ever.
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

// resolveConfigPath returns where in the directory a name of a configuration leads that is
// relative to base, "" where it leads elsewhere: there nobody inside can write.
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

// linkedWorktrees lists the directories with a working tree of a repository that lies
// elsewhere.
func (p *autorunProtection) linkedWorktrees() []string {
	var dirs []string
	for _, link := range p.scan.gitLinks {
		if strings.Contains(string(p.readFile(link, 4<<10)), "/worktrees/") {
			dirs = append(dirs, path.Dir(link))
		}
	}
	return dirs
}

// claimPath holds a name that Git was told of. Where it is not there, the first that is
// missing on the way to it is made, so that nobody else can.
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
			return nil // it is nobody's to reach
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

// addExisting holds what is there. The way to it must not lead through symlinks,
// which could lead elsewhere by then.
func (p *autorunProtection) addExisting(name string) {
	for at := name; at != "."; at = path.Dir(at) {
		if info, err := p.root.Lstat(at); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return
		}
	}
	p.addReadOnly(name)
}

// reservePlaceholder holds what Git looks at in a repository, after it has made what is not
// there. The guest has a lock on what was made, as long as it lives.
func (p *autorunProtection) reservePlaceholder(dir string, h placeholder) error {
	name := path.Join(dir, h.name)
	err := p.createPlaceholder(dir, name, h)
	switch {
	case errors.Is(err, os.ErrExist):
		if p.isOurPlaceholder(name, h) {
			p.made = append(p.made, name)
		}
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil // and nobody else can make it
	case err != nil:
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Of(err), err)
	default:
		p.made = append(p.made, name)
	}
	if info, err := p.root.Lstat(name); err != nil || info.Mode()&os.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symlink, and can't be kept as it is: %w", name, fault.Unsupported)
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

// isOurPlaceholder reports whether something is what a guest, now or before, has reserved.
func (p *autorunProtection) isOurPlaceholder(name string, h placeholder) bool {
	if h.dir || h.content == "" {
		return false // as empty as many are that someone else has made
	}
	return string(p.readFile(name, int64(len(h.content))+1)) == h.content
}

// lockPlaceholder makes the guest hold a lock on a placeholder, by which others see that it
// is needed.
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

// bindMounts returns what was collected, the outer before the inner.
func (p *autorunProtection) bindMounts(inside string) []guest.Mount {
	var mounts []guest.Mount
	for _, name := range slices.Sorted(maps.Keys(p.binds)) {
		mounts = append(mounts, guest.Mount{Kind: guest.MountHold, Target: filepath.Join(inside, name), ReadOnly: p.binds[name]})
	}
	return mounts
}

// removePlaceholders removes placeholders that no guest needs any more, and that are as
// they were made.
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
	// The repository may have been replaced by then, but never by what lies outside.
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
		return nil // another guest needs it
	}
	if !h.dir {
		if data, err := io.ReadAll(io.LimitReader(f, 16)); err != nil || string(data) != h.content {
			return err
		}
	}
	err = root.Remove(h.name)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return nil // it is in use by now
	}
	return err
}
