package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/workspace/driver"
)

// maxVolumes bounds the volumes of one workspace.
const maxVolumes = 32

// checkVolumes checks the volumes of a workspace.
func (p *Provider) checkVolumes(spec driver.Spec, opts *Options, l *level) error {
	if len(opts.Volumes) == 0 {
		return nil
	}
	if p.cfg.Volumes == "" || l.name != driver.IsolationNamespaces {
		return fmt.Errorf("volumes: %w: they need isolation %s", fault.Unsupported, driver.IsolationNamespaces)
	}
	if opts.Rootfs != "" {
		return fmt.Errorf("volumes: %w: a workspace with the files of an image has none", fault.Unsupported)
	}
	if len(opts.Volumes) > maxVolumes {
		return fmt.Errorf("%d volumes: %w: at most %d are possible", len(opts.Volumes), fault.InvalidArgument, maxVolumes)
	}
	taken := []string{homeOf(opts.userName()), workspaceAt(spec.Dir, opts), "/var", "/lib", "/lib64", "/root", "/home", "/tmp"}
	for i, v := range opts.Volumes {
		at := filepath.Clean(v.At)
		if !driver.ValidID(v.Name) {
			return fmt.Errorf("volume %.60q: %w: it is the id of a volume", v.Name, fault.InvalidArgument)
		}
		if !filepath.IsAbs(v.At) || at == "/" {
			return fmt.Errorf("volume at %q: %w: the path must be absolute", v.At, fault.InvalidArgument)
		}
		if err := checkNotSystem(at); err != nil {
			return fmt.Errorf("volume at %q: %w", v.At, err)
		}
		if slices.ContainsFunc(taken, func(dir string) bool { return paths.Inside(dir, at) || paths.Inside(at, dir) }) {
			return fmt.Errorf("volume at %q: %w: it must be a directory of its own, outside of the home, /tmp and the system's directories, such as /mnt/data", v.At, fault.InvalidArgument)
		}
		if info, err := os.Lstat(filepath.Join(p.cfg.Volumes, v.Name)); err != nil || !info.IsDir() {
			return fmt.Errorf("volume %s: %w", v.Name, fault.NotFound)
		}
		taken = append(taken, at)
		opts.Volumes[i].At = at
	}
	return nil
}

// volumeMounts returns the mounts of the volumes.
func (p *Provider) volumeMounts(opts Options) []guestproto.Mount {
	var mounts []guestproto.Mount
	for _, v := range opts.Volumes {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountBind, Source: filepath.Join(p.cfg.Volumes, v.Name), Target: v.At, ReadOnly: v.ReadOnly})
	}
	return mounts
}
