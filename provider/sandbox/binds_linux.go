package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/workspace/driver"
)

const maxBinds = 32

// checkBinds judges the directories that are to be shown besides the workspace,
// by the rules for one that is used in place. None may hold another: which of two
// mounts is seen must not be a matter of their order.
func (p *Provider) checkBinds(spec driver.Spec, opts *options) error {
	if len(opts.Binds) > maxBinds {
		return fmt.Errorf("%d directories: %w: at most %d can be shown", len(opts.Binds), fault.InvalidArgument, maxBinds)
	}
	taken := []string{inside, home}
	if spec.Dir != "" {
		taken = append(taken, filepath.Clean(spec.Dir))
	}
	for i, b := range opts.Binds {
		if _, err := p.host(b.Dir); err != nil {
			return err
		}
		b.Dir = filepath.Clean(b.Dir)
		for _, other := range taken {
			if holds(other, b.Dir) || holds(b.Dir, other) {
				return fmt.Errorf("directory %q: %w: one of it and %s holds the other", b.Dir, fault.InvalidArgument, other)
			}
		}
		taken = append(taken, b.Dir)
		opts.Binds[i] = b
	}
	return nil
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
	return real, checkReal(dir)
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
// else is at target once all is mounted. It returns the path to mount it from.
func (p *Provider) show(l *guest.Launch, dir, target string) (d *place, source string, err error) {
	if d, err = p.judge(dir); err != nil {
		return nil, "", err
	}
	name := fmt.Sprintf("same%d", len(l.Config.Same))
	l.Files = append(l.Files, guest.Named{Name: name, File: d.file})
	l.Config.Same = append(l.Config.Same, guest.Same{Path: target, File: name})
	return d, d.real, nil
}

// further returns the mounts of what is shown beside the workspace: directories
// of the host, and the roots that programs trust. The caller closes the rest.
func (p *Provider) further(l *guest.Launch, u unit) (mounts []guest.Mount, open []io.Closer, err error) {
	if u.roots != "" {
		mounts = append(mounts, guest.Mount{Kind: guest.MountBind, Source: u.roots, Target: bundleDir, ReadOnly: true, NoExec: true})
	}
	for _, b := range u.binds {
		d, source, err := p.show(l, b.Dir, b.Dir)
		if err != nil {
			return nil, open, err
		}
		open = append(open, d.file)
		if p.ids.root && !u.wrapped {
			source = d.self() // this process mounts it, and not the guest
		}
		ro := b.ReadOnly || u.policy.ReadOnly
		mounts = append(mounts, guest.Mount{Kind: guest.MountBind, Source: source, Target: b.Dir, ReadOnly: ro})
		held, err := u.protect(l, d, b.Dir, ro, &open)
		if err != nil {
			return nil, open, err
		}
		mounts = append(mounts, held...)
	}
	return mounts, open, nil
}

// trees replaces binds by detached mounts, for a guest that can't reach what is
// only its starter's. Their owner is the workload.
func (p *Provider) trees(l *guest.Launch, mounts []guest.Mount, kernel bool) (open []io.Closer, err error) {
	for i, m := range mounts {
		if m.Kind != guest.MountBind {
			continue
		}
		tree, err := p.mapped(m.Source, kernel)
		if err != nil {
			return open, err
		}
		open = append(open, tree)
		name := fmt.Sprintf("bind%d", i)
		l.Files = append(l.Files, guest.Named{Name: name, File: tree})
		mounts[i].Kind, mounts[i].Source = guest.MountFD, name
	}
	return open, nil
}
