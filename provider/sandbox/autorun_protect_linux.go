package sandbox

import (
	"errors"
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
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
)

// A directory in place or a writable bind contains autorun files, which the user's programs
// run outside the sandbox: Git hooks, files that Git's configuration names, editor tasks.
//
// Each .git is a private copy inside, see package gitdir: nothing that the workload does
// in it reaches the host. Other autorun files that exist when the guest starts are read-only
// self bind mounts, and so is what the host's Git configuration names in the directory:
// hooks and included files, also by symlinks and by hard links. Before each command it is
// checked that these mounts are there: see checkMounts. Not prevented: new autorun files
// under other names, and new repositories of the workload. They are reported, see
// autorunChanges. Repositories that the host makes later: see autorun_late_linux.go.
//
// A directory that Git takes for a repository without being named .git, and with {"git":
// "shared"} each .git, is not copied: what Git runs or includes there is read-only. Files
// that Git would read and that do not exist are created with neutral content
// (placeholders), so that the workload can't create them, and removed with the guest.

// autorunState lists the autorun files and placeholders in directories of the user.
type autorunState struct {
	Dirs   map[string]map[string]string `json:"dirs"`             // stamps of autorun files, by directory on the host and name
	Made   []string                     `json:"made,omitempty"`   // paths of placeholders on the host
	Mounts []heldMount                  `json:"mounts,omitempty"` // mounts that protect autorun files
	Hidden []string                     `json:"hidden,omitempty"` // directories on the host that can't be read, and are empty inside

	Queued []string `json:"queued,omitempty"` // paths that events reported when the workspace was closed, and that no result has listed yet

	ReadOnly []string `json:"readOnly,omitempty"` // those of Dirs that the workload can't write: only FIFOs count there

	// Private has the stamps, when the guest started, of each .git of Dirs that a private copy
	// covers since then.
	Private map[string]map[string]string `json:"private,omitempty"`
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

// addPrivate records the Git directories that private copies cover.
func (w *autorunState) addPrivate(dir string, p *autorunProtection) {
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

// hasAutorunFiles reports whether a writable directory contains autorun files.
func (u launchSpec) hasAutorunFiles(dir string, writable bool) (bool, error) {
	if !writable || u.policy.ReadOnly {
		return false, nil
	}
	s, err := scanAutorun(dir, true, nil, nil)
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
	s, err := scanAutorun(d.procPath(), u.gitShared, nil, nil)
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
		u.autorun.addPrivate(d.real, p)
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
	late     bool           // the guest runs: there are no placeholders
	missing  []string       // with late: what Git's configuration names and does not exist
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
	empty, err := p.spec.git.Empty()
	if err != nil {
		return err
	}
	p.addMount(name, guestproto.Mount{Kind: guestproto.MountBind, Source: empty, ReadOnly: true})
	return nil
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
func (p *autorunProtection) noteLinks(name string, depth int) {
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
		if errors.Is(err, os.ErrNotExist) && p.late {
			p.addMissing(name, at)
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

// addMissing notes a path that Git's configuration names, and whose element at does not exist.
func (p *autorunProtection) addMissing(name, at string) {
	if isInGit(name) || unix.Access(filepath.Join(p.real, path.Dir(at)), unix.W_OK) != nil {
		return // the workload can't make it either
	}
	p.missing = append(p.missing, name)
	p.scan.stamps[name] = absentStamp
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

// mountList returns the mounts, outer ones first.
func (p *autorunProtection) mountList() []guestproto.Mount {
	mounts := p.extra
	for _, name := range slices.Sorted(maps.Keys(p.mounts)) {
		mounts = append(mounts, p.mounts[name])
	}
	return mounts
}
