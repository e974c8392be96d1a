// Package protect keeps the autorun files in directories of the user from a workload: Git hooks,
// files that Git's configuration names, editor tasks. A directory in place or a writable bind
// contains such files, which the user's programs run outside the sandbox.
//
// Each .git is a private copy inside, see package gitdir: nothing that the workload does
// in it reaches the host. Other autorun files that exist when the guest starts are read-only
// self bind mounts, and so is what the host's Git configuration names in the directory:
// hooks and included files, also by symlinks and by hard links: see Settings.Mounts. Before
// each command it is checked that these mounts are there: see Guest.Restore. Not prevented:
// new autorun files under other names, and new repositories of the workload. They are
// reported, see Workspace.Changes. Repositories that the host makes later: see Guest.Start.
//
// A directory that Git takes for a repository without being named .git, and with {"git":
// "shared"} each .git, is not copied: what Git runs or includes there is read-only. Files
// that Git would read and that do not exist are created with neutral content
// (placeholders), so that the workload can't create them, and removed with the guest.
package protect

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

	"github.com/croft-run/croft/internal/autorun"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
)

// Settings say how directories of the user are shown to the workload.
type Settings struct {
	Git      *gitdir.Copies         // the private copies of Git directories; receives new ones
	Shared   bool                   // the workload uses Git directories of the host
	Late     bool                   // the guest can mount while the workload runs
	IsShown  func(path string) bool // whether a path of the host is shown inside
	CheckGit func(dir string) error // checks a Git directory outside the directories that are shown
	State    *State                 // receives the autorun files that are found
}

// A Dir is a directory of the host that was checked, held open by a descriptor.
// Using the descriptor instead of the path prevents a TOCTOU race: a directory that
// takes the path later was not checked.
type Dir struct {
	File *os.File
	Real string // its path when it was checked
}

// ProcPath returns a path that leads to the directory, whatever is at Real now.
func (d *Dir) ProcPath() string { return fmt.Sprintf("/proc/self/fd/%d", d.File.Fd()) }

// IsAt reports whether path leads to the directory.
func (d *Dir) IsAt(path string) bool {
	here, err := d.File.Stat()
	there, serr := os.Lstat(path)
	return err == nil && serr == nil && os.SameFile(here, there)
}

// State lists the autorun files and placeholders in directories of the user.
type State struct {
	Dirs   map[string]map[string]string `json:"dirs"`             // stamps of autorun files, by directory on the host and name
	Made   []string                     `json:"made,omitempty"`   // paths of placeholders on the host
	Mounts []Mount                      `json:"mounts,omitempty"` // mounts that protect autorun files
	Hidden []string                     `json:"hidden,omitempty"` // directories on the host that can't be read, and are empty inside

	Queued []string `json:"queued,omitempty"` // paths that events reported when the workspace was closed, and that no result has listed yet

	ReadOnly []string `json:"readOnly,omitempty"` // those of Dirs that the workload can't write: only FIFOs count there

	// Private has the stamps, when the guest started, of each .git of Dirs that a private copy
	// covers since then.
	Private map[string]map[string]string `json:"private,omitempty"`
}

// A Mount is a mount that protects autorun files.
type Mount struct {
	Target   string `json:"target"` // path inside
	Self     bool   `json:"self,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// section is the section of the state with the autorun files that directories of
// the user contained when the guest started.
const section = wsdir.Section[State]("autorun")

// WriteTo sets the autorun files in a state that is being changed.
func (w *State) WriteTo(m *wsdir.State) error {
	if len(w.Dirs) == 0 {
		w = nil
	}
	return section.Set(m, w)
}

// readState reads the autorun files that a workspace recorded.
func readState(d wsdir.Dir) (*State, error) {
	m, err := d.Read()
	if err != nil {
		return nil, err
	}
	return section.Get(m)
}

// addDir records the autorun files of a directory.
func (w *State) addDir(dir string, s *scan) {
	if w.Dirs == nil {
		w.Dirs = map[string]map[string]string{}
	}
	w.Dirs[dir] = s.stamps
}

// addPrivate records the Git directories that private copies cover.
func (w *State) addPrivate(dir string, p *protection) {
	for _, e := range p.scan.gits {
		if m, ok := p.mounts[e.name]; !ok || m.Kind != guestproto.MountBind || !e.mode.IsDir() {
			continue
		}
		if w.Private == nil {
			w.Private = map[string]map[string]string{}
		}
		if w.Private[dir] == nil {
			w.Private[dir] = map[string]string{}
		}
		w.Private[dir][e.name] = p.scan.stamps[e.name]
	}
}

// AddFIFOs records the FIFOs of a directory that is shown read-only: only these count there.
func (w *State) AddFIFOs(d *Dir) error {
	s, err := scanFIFOs(d.ProcPath())
	if err != nil {
		return err
	}
	w.addDir(d.Real, s)
	w.ReadOnly = append(w.ReadOnly, d.Real)
	return nil
}

// HasFiles reports whether a directory contains autorun files, or something that may be one,
// and records them.
func (u *Settings) HasFiles(dir string) (bool, error) {
	s, err := scanFiles(dir, true, nil, nil)
	if err = errors.Join(err, errors.Join(s.failures...)); err != nil {
		return false, err
	}
	u.State.addDir(dir, s)
	return len(s.stamps)-s.fifos+len(s.unreadable) > 0, nil
}

// Mounts returns the mounts that protect the autorun files of a directory that the workload
// can write, and records the files; inside is its path for the workload. The directories above
// them are self bind mounts, too: a mount point can't be renamed. keep passes a file to the
// guest, which holds it open as long as it lives.
func (u *Settings) Mounts(d *Dir, inside string, keep func(*os.File)) ([]guestproto.Mount, error) {
	s, err := scanFiles(d.ProcPath(), u.Shared, nil, nil)
	if err = errors.Join(err, errors.Join(s.failures...)); err != nil {
		return nil, err
	}
	p, err := newProtection(u, d, inside, s)
	if err != nil {
		return nil, err
	}
	defer p.root.Close() //nolint:errcheck // closing a directory can lose nothing
	p.keep = keep
	if err := p.collect(); err != nil {
		return nil, err
	}
	p.addStamps(p.made...)
	p.made = append(p.made, p.madeDirs...)
	mounts := p.mountList()
	u.State.addDir(d.Real, s)
	u.State.addPrivate(d.Real, p)
	for _, name := range p.made {
		u.State.Made = append(u.State.Made, filepath.Join(d.Real, name))
	}
	for _, m := range mounts {
		u.State.Mounts = append(u.State.Mounts, Mount{Target: m.Target, Self: m.Kind == guestproto.MountSelf, ReadOnly: m.ReadOnly})
	}
	for _, name := range s.unreadable {
		u.State.Hidden = append(u.State.Hidden, filepath.Join(d.Real, name))
	}
	return mounts, nil
}

// A protection collects the mounts of one directory.
type protection struct {
	settings *Settings
	keep     func(*os.File)
	root     *os.Root
	self     string // path of its descriptor
	real     string // its path when it was checked
	inside   string // its path for the workload
	scan     *scan
	mounts   map[string]guestproto.Mount // by name
	extra    []guestproto.Mount          // elsewhere inside
	made     []string
	madeDirs []string       // directories of placeholders, to be removed after these
	linked   map[inode]bool // files that Git or another program runs and that have several names
	late     bool           // the guest runs: there are no placeholders
	missing  []string       // with late: what Git's configuration names and does not exist
}

// newProtection opens the root, which the caller closes.
func newProtection(u *Settings, d *Dir, inside string, s *scan) (p *protection, err error) {
	p = &protection{settings: u, scan: s, self: d.ProcPath(), real: d.Real, inside: inside,
		mounts: map[string]guestproto.Mount{}, linked: map[inode]bool{}}
	p.root, err = os.OpenRoot(p.self)
	return p, err
}

// collect fills in mounts.
func (p *protection) collect() error {
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
		if autorun.ReadOnly(name) {
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
func (p *protection) addMount(name string, m guestproto.Mount) {
	m.Target = filepath.Join(p.inside, name)
	p.mounts[name] = m
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if _, ok := p.mounts[at]; !ok {
			p.mounts[at] = guestproto.Mount{Kind: guestproto.MountSelf, Target: filepath.Join(p.inside, at)}
		}
	}
}

// addReadOnly adds a read-only self bind mount. What it protects may have other names.
func (p *protection) addReadOnly(name string) {
	p.addMount(name, guestproto.Mount{Kind: guestproto.MountSelf, ReadOnly: true})
	p.noteLinks(filepath.Join(p.real, name), 0)
}

// hide adds a mount of an empty directory.
func (p *protection) hide(name string) error {
	empty, err := p.settings.Git.Empty()
	if err != nil {
		return err
	}
	p.addMount(name, guestproto.Mount{Kind: guestproto.MountBind, Source: empty, ReadOnly: true})
	return nil
}

// openDir opens a directory in the directory, without symlinks on the way.
func (p *protection) openDir(name string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, p.self, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC})
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd) //nolint:errcheck // a directory
	return unix.Openat2(fd, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
}

// readFile returns the beginning of a regular file, and nil otherwise: reading a FIFO could
// block forever.
func (p *protection) readFile(name string, most int64) []byte {
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

// claim makes a path of the host that Git runs or includes read-only, if it leads into the
// directory. A symlink on the way there can't be read-only; changes of it are reported.
func (p *protection) claim(name string, dir bool) error {
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
func (p *protection) addStamps(names ...string) {
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

// resolve follows the symlinks of a path of the host. It returns the path in the directory
// that it leads to, "" if that is outside. What does not exist counts as well. Symlinks
// that lie in the directory get a stamp.
func (p *protection) resolve(name string) string {
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
			p.addStamps(rel)
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
func (p *protection) noteLinks(name string, depth int) {
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil || depth > entry.MaxDepth {
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if st.Nlink > 1 {
			p.linked[inode{st.Dev, st.Ino}] = true
		}
	case unix.S_IFDIR:
		entries, err := os.ReadDir(name)
		if err != nil || len(entries) > entry.MaxTree {
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
func (p *protection) addLinked() error {
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
func (p *protection) claimPath(name string, dir bool) error {
	if name == "" {
		return nil
	}
	at := ""
	for elem := range strings.SplitSeq(name, "/") {
		at = path.Join(at, elem)
		_, err := p.root.Lstat(at)
		if errors.Is(err, os.ErrNotExist) && p.late {
			// Where this user may not write, the workload can't make it either.
			if !isInGit(name) && unix.Access(filepath.Join(p.real, path.Dir(at)), unix.W_OK) == nil {
				p.missing = append(p.missing, name)
				p.scan.stamps[name] = absentStamp
			}
			return nil
		}
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

func (p *protection) readNames(dir string) ([]string, error) {
	f, err := p.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// addExisting adds a path if it exists and has no symlink in it: a symlink could be
// changed between this check and the mount (TOCTOU).
func (p *protection) addExisting(name string) {
	for at := name; at != "."; at = path.Dir(at) {
		if info, err := p.root.Lstat(at); err != nil || info.Mode()&os.ModeSymlink != 0 {
			return
		}
	}
	p.addReadOnly(name)
}

// mountList returns the mounts, outer ones first.
func (p *protection) mountList() []guestproto.Mount {
	mounts := p.extra
	for _, name := range slices.Sorted(maps.Keys(p.mounts)) {
		mounts = append(mounts, p.mounts[name])
	}
	return mounts
}
