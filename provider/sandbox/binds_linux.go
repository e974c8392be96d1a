package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

const maxBinds = 32

// emptyData are the options of a file system with nothing in it but mount points.
const emptyData = "mode=755,size=64k,nr_inodes=256"

// A shown directory is what commands see at a path.
type shown struct {
	dir      string
	readOnly bool
}

// checkBinds judges the directories that are to be shown besides the workspace,
// by the rules for one that is used in place. One may lie in another that is
// read-only, and the workspace may: that is mounted first, and nobody can move
// what is in it. Otherwise none may hold another.
func (p *Provider) checkBinds(spec driver.Spec, opts *options) error {
	if len(opts.Binds) > maxBinds {
		return fmt.Errorf("%d directories: %w: at most %d can be shown", len(opts.Binds), fault.InvalidArgument, maxBinds)
	}
	taken := []shown{{home, false}, {workspaceAt(spec.Dir, opts), false}}
	for i, b := range opts.Binds {
		if _, err := p.host(b.Dir); err != nil {
			return err
		}
		b.Dir, b.ReadOnly = filepath.Clean(b.Dir), b.ReadOnly || b.Empty
		this := shown{b.Dir, b.ReadOnly}
		for _, other := range taken {
			if err := this.beside(other); err != nil {
				return err
			}
		}
		taken = append(taken, this)
		opts.Binds[i] = b
	}
	slices.SortStableFunc(opts.Binds, func(x, y bind) int { return len(x.Dir) - len(y.Dir) }) // what holds others comes first
	return nil
}

// beside judges two directories of which one may hold the other.
func (s shown) beside(other shown) error {
	outer, inner := other, s
	if holds(s.dir, other.dir) {
		outer, inner = s, other
	}
	if !holds(outer.dir, inner.dir) {
		return nil
	}
	if !outer.readOnly || outer.dir == inner.dir {
		return fmt.Errorf("directory %q: %w: one of it and %s holds the other", s.dir, fault.InvalidArgument, other.dir)
	}
	// The mount of the inner one is found by its path, in files that are not ours.
	if real, err := filepath.EvalSymlinks(inner.dir); err != nil || real != inner.dir {
		return fmt.Errorf("directory %q in %s: %w: it must exist there, without symlinks on the way", inner.dir, outer.dir, fault.InvalidArgument)
	}
	return nil
}

// workspaceAt returns where a workspace is for its processes.
func workspaceAt(dir string, opts *options) string {
	switch {
	case dir != "":
		return filepath.Clean(dir)
	case opts.At != "":
		return opts.At
	}
	return inside
}

// checkAt judges the path that a workspace is to have.
func (o *options) checkAt(spec driver.Spec, l *level) error {
	if o.At == "" {
		return nil
	}
	switch {
	case !filepath.IsAbs(o.At):
		return fmt.Errorf("path %q of the workspace: %w: it must be absolute", o.At, fault.InvalidArgument)
	case spec.Dir != "":
		return fmt.Errorf("path %q of the workspace: %w: a directory in place has its own", o.At, fault.InvalidArgument)
	case l.plain:
		return fmt.Errorf("path %q of the workspace: %w: isolation %s has no mounts", o.At, fault.Unsupported, l.name)
	}
	o.At = filepath.Clean(o.At)
	if holds(o.At, home) || holds(home, o.At) {
		return fmt.Errorf("path %q of the workspace: %w: %s is the home inside", o.At, fault.InvalidArgument, home)
	}
	return checkPlace(o.At)
}

// host returns where a directory that is shown really is.
func (p *Provider) host(dir string) (string, error) {
	if err := checkPlace(dir); err != nil {
		return "", err
	}
	real, err := p.ground.CheckHost(dir)
	if err != nil {
		return "", err
	}
	if real == filepath.Clean(dir) {
		return real, nil
	}
	return real, checkLed(dir, real)
}

func holds(dir, other string) bool {
	rel, err := filepath.Rel(dir, other)
	return err == nil && filepath.IsLocal(rel)
}

// A place is a directory of the host that was judged. It is held by a descriptor:
// what takes its path later was not judged.
type place struct {
	file *os.File
	real string // where it was
}

// self is a path that leads to the directory, whatever is at real now.
func (d *place) self() string { return fmt.Sprintf("/proc/self/fd/%d", d.file.Fd()) }

// judge opens a directory of the host and judges what was opened.
func (p *Provider) judge(dir string) (*place, error) {
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("directory %q: %w: %w", dir, fault.Of(err), err)
	}
	d := &place{file: f}
	if d.real, err = os.Readlink(d.self()); err == nil {
		if err = checkPlace(dir); err == nil {
			_, err = p.host(d.real)
		}
	}
	if err == nil && !sameFile(f, d.real) {
		err = fmt.Errorf("directory %q: %w: it is moved about", dir, fault.Unavailable)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if p.judged != nil {
		p.judged(dir)
	}
	return d, nil
}

// sameFile reports whether a path leads to what is open.
func sameFile(f *os.File, path string) bool {
	here, err := f.Stat()
	there, serr := os.Lstat(path)
	return err == nil && serr == nil && os.SameFile(here, there)
}

// show judges a directory, and gives the guest what it needs to see that nothing
// else is at target once all is mounted.
func (p *Provider) show(l *launch, dir, target string) (*place, error) {
	d, err := p.judge(dir)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("same%d", len(l.Config.Verify))
	l.give(name, d.file)
	l.Config.Verify = append(l.Config.Verify, guestproto.SameFile{Path: target, File: name})
	return d, nil
}

// further returns the mounts of what is shown beside the workspace: directories
// of the host, and the roots that programs trust. Those that hold the workspace
// come before it.
func (p *Provider) further(l *launch, u launchSpec) (before, after []guestproto.Mount, err error) {
	if u.roots != "" {
		after = append(after, guestproto.Mount{Kind: guestproto.MountBind, Source: u.roots, Target: bundleDir, ReadOnly: true, NoExec: true})
	}
	for _, b := range u.binds {
		if b.Empty { // what lies in it is mounted later
			before = append(before, guestproto.Mount{Kind: guestproto.MountTmpfs, Target: b.Dir, Data: emptyData})
			continue
		}
		d, err := p.show(l, b.Dir, b.Dir)
		if err != nil {
			return nil, nil, err
		}
		source := d.real
		if p.ids.root && u.level.mapped {
			source = d.self() // this process mounts it, and not the guest
		}
		ro := b.ReadOnly || u.policy.ReadOnly
		m := guestproto.Mount{Kind: guestproto.MountBind, Source: source, Target: b.Dir, ReadOnly: ro}
		if holds(b.Dir, u.inside) { // it is read-only, see checkBinds
			before = append(before, m)
			continue
		}
		held, err := u.protect(l, d, b.Dir, ro)
		if err != nil {
			return nil, nil, err
		}
		after = append(append(after, m), held...)
	}
	return before, after, nil
}

// trees replaces binds by detached mounts, for a guest that can't reach what is
// only its starter's. Their owner is the workload.
func (p *Provider) trees(l *launch, mounts []guestproto.Mount, name string, kernel bool) error {
	for i, m := range mounts {
		if m.Kind != guestproto.MountBind {
			continue
		}
		tree, err := p.mapped(m.Source, kernel)
		if err != nil {
			return err
		}
		at := fmt.Sprintf("%s%d", name, i)
		l.give(at, tree)
		mounts[i].Kind, mounts[i].Source = guestproto.MountFD, at
	}
	return nil
}
