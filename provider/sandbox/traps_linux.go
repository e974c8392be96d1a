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

// watched is what was found, and made, in directories of the user's for a guest.
type watched struct {
	Dirs map[string]map[string]string `json:"dirs"`           // what each holds, by its path on the host
	Made []string                     `json:"made,omitempty"` // placeholders, as paths of the host
}

// note remembers what a directory holds.
func (w *watched) note(dir string, s *survey) {
	if w.Dirs == nil {
		w.Dirs = map[string]map[string]string{}
	}
	w.Dirs[dir] = s.signs
}

// trapped reports whether a directory that is to be written holds what others run
// later.
func (u launchSpec) trapped(dir string, writable bool) (bool, error) {
	if !writable || u.policy.ReadOnly {
		return false, nil
	}
	s, err := look(dir)
	if err != nil {
		return false, err
	}
	if u.watched != nil {
		u.watched.note(dir, s)
	}
	return !s.empty(), nil
}

// protect returns mounts that make what others run later read-only in a
// directory that was judged and is at inside for the workspace. Directories on the
// way are mounts as well, which can't be moved away.
func (u launchSpec) protect(l *launch, d *place, inside string, readOnly bool) ([]guestproto.Mount, error) {
	if readOnly {
		return nil, nil
	}
	s, err := look(d.self())
	if err != nil {
		return nil, err
	}
	p := &protection{launch: l, survey: s, self: d.self(), real: d.real, hold: map[string]bool{}}
	if p.root, err = os.OpenRoot(d.self()); err != nil {
		return nil, err
	}
	defer p.root.Close() //nolint:errcheck // closing a directory can lose nothing
	if err := p.all(); err != nil {
		return nil, err
	}
	if u.watched != nil {
		u.watched.note(d.real, s)
		for _, name := range p.made {
			u.watched.Made = append(u.watched.Made, filepath.Join(d.real, name))
		}
	}
	return p.mounts(inside), nil
}

// A protection is what is to be held in one directory.
type protection struct {
	launch *launch
	root   *os.Root
	self   string // a path that leads there
	real   string // where it was
	survey *survey
	hold   map[string]bool // names, and whether they are read-only
	made   []string
}

// all collects what is to be held.
func (p *protection) all() error {
	for _, name := range p.survey.links {
		info, err := p.root.Lstat(name)
		switch {
		case err == nil && info.Mode().IsRegular():
			p.keep(name)
		case err == nil && name == ".git":
			return fmt.Errorf("its .git is neither a directory nor a file, and can't be kept as it is: %w", fault.Unsupported)
		}
	}
	for _, name := range p.survey.traps {
		// Further down they are left to who works there: packages bring their own.
		if path.Dir(name) == "." || slices.Contains(topTraps, name) {
			p.keepThere(name)
		}
	}
	for name, to := range p.survey.leads {
		if at := path.Dir(name); at == "." || path.Base(at) == "hooks" || slices.Contains(topTraps, name) {
			p.keepThere(to)
		}
	}
	for _, name := range p.survey.repos {
		if err := p.repo(name); err != nil {
			return err
		}
	}
	return nil
}

// keep holds a name read-only, and all on the way to it.
func (p *protection) keep(name string) {
	p.hold[name] = true
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if _, ok := p.hold[at]; !ok {
			p.hold[at] = false
		}
	}
}

// repo holds what Git runs, and takes its configuration from, in a repository.
func (p *protection) repo(dir string) error {
	for _, h := range placeholders {
		if err := p.reserve(dir, h); err != nil {
			return err
		}
	}
	perTree, err := p.configured(dir)
	if err != nil {
		return err
	}
	p.keepThere(path.Join(dir, "config.worktree"))
	p.keepThere(path.Join(dir, "info/attributes"))
	trees, err := p.names(path.Join(dir, "worktrees"))
	if err != nil {
		return nil // there are none
	}
	for _, tree := range trees {
		at := path.Join(dir, "worktrees", tree)
		if info, err := p.root.Lstat(at); err != nil || !info.IsDir() {
			continue
		}
		for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
			p.keepThere(path.Join(at, name))
		}
		if perTree {
			if err := p.reserve(at, placeholder{name: "config.worktree"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostIncludes bounds how many files a configuration is read from.
const mostIncludes = 64

// configured holds what the configuration of a repository names, and says whether
// its working trees have a configuration of their own.
func (p *protection) configured(dir string) (perTree bool, err error) {
	files := []string{path.Join(dir, "config"), path.Join(dir, "config.worktree")}
	top := path.Dir(dir)
	if path.Base(dir) != ".git" {
		top = path.Clean(dir)
	}
	var hooks []string
	for i := 0; i < len(files) && i < mostIncludes; i++ {
		if i > 1 { // what a file names that Git itself knows
			if err := p.claim(files[i], false); err != nil {
				return false, err
			}
		}
		c := parseGitConfig(string(p.read(files[i], mostConfig)))
		perTree = perTree || c.perTree
		hooks = append(hooks, c.hooks...)
		if c.worktree != "" {
			top = p.locate(dir, c.worktree)
		}
		for _, name := range c.includes {
			if at := p.locate(path.Dir(files[i]), name); at != "" && !slices.Contains(files, at) {
				files = append(files, at)
			}
		}
	}
	if perTree {
		if err := p.reserve(dir, placeholder{name: "config.worktree"}); err != nil {
			return false, err
		}
	}
	for _, name := range hooks {
		for _, base := range append(p.workTrees(), top) {
			if err := p.claim(p.locate(base, name), true); err != nil {
				return false, err
			}
		}
	}
	return perTree, nil
}

// mostConfig is as much as is read of a configuration.
const mostConfig = 1 << 20

// read returns the beginning of a file, nothing where it is none: what is not one
// could make its reader wait for ever.
func (p *protection) read(name string, most int64) []byte {
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

// locate returns where in the directory a name of a configuration leads that is
// relative to base, "" where it leads elsewhere: there nobody inside can write.
func (p *protection) locate(base, name string) string {
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

// workTrees lists the directories with a working tree of a repository that lies
// elsewhere.
func (p *protection) workTrees() []string {
	var dirs []string
	for _, link := range p.survey.links {
		if strings.Contains(string(p.read(link, 4<<10)), "/worktrees/") {
			dirs = append(dirs, path.Dir(link))
		}
	}
	return dirs
}

// claim holds a name that Git was told of. Where it is not there, the first that is
// missing on the way to it is made, so that nobody else can.
func (p *protection) claim(name string, dir bool) error {
	if name == "" {
		return nil
	}
	at := ""
	for elem := range strings.SplitSeq(name, "/") {
		at = path.Join(at, elem)
		info, err := p.root.Lstat(at)
		if errors.Is(err, os.ErrNotExist) {
			return p.reserve(path.Dir(at), placeholder{name: elem, dir: dir || at != name})
		}
		if err != nil {
			return nil // it is nobody's to reach
		}
		if info.Mode()&os.ModeSymlink != 0 {
			if to, _ := leadsTo(p.self, p.real, name); to != "" {
				p.keepThere(to)
			}
			return nil
		}
	}
	p.keep(name)
	return nil
}

func (p *protection) names(dir string) ([]string, error) {
	f, err := p.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// keepThere holds what is there. The way to it must not lead through symlinks,
// which could lead elsewhere by then.
func (p *protection) keepThere(name string) {
	for at := name; at != "."; at = path.Dir(at) {
		if info, err := p.root.Lstat(at); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return
		}
	}
	p.keep(name)
}

// reserve holds what Git looks at in a repository, after it has made what is not
// there. The guest has a lock on what was made, as long as it lives.
func (p *protection) reserve(dir string, h placeholder) error {
	name := path.Join(dir, h.name)
	err := p.make(dir, name, h)
	switch {
	case errors.Is(err, os.ErrExist):
		if p.ours(name, h) {
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
		if err := p.lock(name); err != nil {
			return err
		}
	}
	p.keep(name)
	return nil
}

func (p *protection) make(dir, name string, h placeholder) error {
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

// ours reports whether something is what a guest, now or before, has reserved.
func (p *protection) ours(name string, h placeholder) bool {
	if h.dir || h.content == "" {
		return false // as empty as many are that someone else has made
	}
	return string(p.read(name, int64(len(h.content))+1)) == h.content
}

// lock makes the guest hold a lock on a placeholder, by which others see that it
// is needed.
func (p *protection) lock(name string) error {
	f, err := p.root.Open(name)
	if err != nil {
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Of(err), err)
	}
	p.launch.give(fmt.Sprintf("reserved%d", len(p.launch.Files)), f)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return fmt.Errorf("reserve %s: %w: %w", name, fault.Unavailable, err)
	}
	return nil
}

// mounts returns what was collected, the outer before the inner.
func (p *protection) mounts(inside string) []guestproto.Mount {
	var mounts []guestproto.Mount
	for _, name := range slices.Sorted(maps.Keys(p.hold)) {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountSelf, Target: filepath.Join(inside, name), ReadOnly: p.hold[name]})
	}
	return mounts
}

// unreserve removes placeholders that no guest needs any more, and that are as
// they were made.
func unreserve(made []string) error {
	var errs []error
	for _, name := range made {
		if err := unreserveOne(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the placeholder %s: %w: %w", name, fault.Of(err), err))
		}
	}
	return errors.Join(errs...)
}

func unreserveOne(name string) error {
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
