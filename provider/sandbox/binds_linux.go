package sandbox

import (
	"fmt"
	"io"
	"path/filepath"

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
	return real, checkPlace(real) // a symlink may lead into the system
}

func holds(dir, other string) bool {
	rel, err := filepath.Rel(dir, other)
	return err == nil && filepath.IsLocal(rel)
}

// further returns the mounts of what is shown beside the workspace: directories
// of the host, and the roots that programs trust.
func (p *Provider) further(u unit) ([]guest.Mount, error) {
	var mounts []guest.Mount
	if u.roots != "" {
		mounts = append(mounts, guest.Mount{Kind: guest.MountBind, Source: u.roots, Target: bundleDir, ReadOnly: true, NoExec: true})
	}
	for _, b := range u.binds {
		real, err := p.host(b.Dir)
		if err != nil {
			return nil, err
		}
		ro := b.ReadOnly || u.policy.ReadOnly
		mounts = append(mounts, guest.Mount{Kind: guest.MountBind, Source: real, Target: b.Dir, ReadOnly: ro})
		if !ro {
			mounts = append(mounts, triggers(real, b.Dir)...)
		}
	}
	return mounts, nil
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
