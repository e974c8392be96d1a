package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/provider/sandbox/internal/protect"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/workspace/driver"
)

// maxCaches bounds the caches of one workspace.
const maxCaches = 32

// cachesName is the directory of the upper layers of caches, in that of the workspace.
const cachesName = "caches"

// checkCaches checks the caches of a workspace by the rules for binds. None may contain the
// workspace, a bind or another cache, nor lie in one. Only the home of a cache may contain
// read-only binds and further caches.
func (h *hostDirs) checkCaches(spec driver.Spec, opts *Options) error {
	if len(opts.Caches) > maxCaches {
		return fmt.Errorf("%d caches: %w: at most %d are possible", len(opts.Caches), fault.InvalidArgument, maxCaches)
	}
	if opts.Rootfs != "" && len(opts.Caches) > 0 {
		return fmt.Errorf("caches: %w: a workspace with the files of an image has none of the host", fault.Unsupported)
	}
	var homes []visibleDir
	taken := []visibleDir{{rootfs.HomeOf(opts.userName()), false}, {workspaceAt(spec.Dir, opts), false}}
	for _, b := range opts.Binds {
		taken = append(taken, visibleDir{b.Dir, b.ReadOnly})
	}
	for i, c := range opts.Caches {
		if err := c.check(); err != nil {
			return err
		}
		c.Dir = filepath.Clean(c.Dir)
		if _, err := h.check(c.Dir); err != nil && c.exists() {
			return err
		}
		if c.Home != "" {
			c.Home = filepath.Clean(c.Home)
			homes = append(homes, visibleDir{c.Home, false})
		}
		opts.Caches[i] = c
		for _, other := range taken {
			if paths.Inside(other.dir, c.Dir) || paths.Inside(c.Dir, other.dir) {
				return fmt.Errorf("cache %q: %w: it contains %s or lies in it", c.Dir, fault.InvalidArgument, other.dir)
			}
		}
		taken = append(taken, visibleDir{c.Dir, true})
	}
	for _, home := range homes {
		for _, other := range taken {
			if paths.Inside(other.dir, home.dir) || paths.Inside(home.dir, other.dir) && !other.readOnly {
				return fmt.Errorf("home %q of a cache: %w: it contains %s or lies in it", home.dir, fault.InvalidArgument, other.dir)
			}
		}
	}
	return nil
}

// check checks a cache by itself.
func (c Cache) check() error {
	switch {
	case !filepath.IsAbs(c.Dir):
		return fmt.Errorf("cache %q: %w: the path must be absolute", c.Dir, fault.InvalidArgument)
	case c.Home != "" && (!paths.Inside(c.Home, c.Dir) || filepath.Clean(c.Home) == filepath.Clean(c.Dir)):
		return fmt.Errorf("home %q of the cache %q: %w: it must be a directory above it", c.Home, c.Dir, fault.InvalidArgument)
	case c.Var != "" && !slices.Contains(toolchain.CacheVars, c.Var):
		return fmt.Errorf("cache %q: variable %q: %w: it must be one of %v", c.Dir, c.Var, fault.InvalidArgument, toolchain.CacheVars)
	case slices.ContainsFunc(c.Hide, func(name string) bool { return !filepath.IsLocal(name) }):
		return fmt.Errorf("cache %q: hide: %w: the paths must lie in it", c.Dir, fault.InvalidArgument)
	}
	if c.Home == "" {
		return nil
	}
	return checkNotSystem(c.Home)
}

func (c Cache) exists() bool {
	info, err := os.Stat(c.Dir)
	return err == nil && info.IsDir()
}

// A layeredCache is a cache with a private layer over it.
type layeredCache struct {
	Cache
	layer string // directory that contains upper and work of the overlayfs
}

// addCaches sets the caches, with their variables. Where there can be no layer, a cache
// becomes a read-only bind or is left out.
func (u *launchSpec) addCaches(caches []Cache) {
	layers := u.level.canOverlay() && u.image == ""
	for i, c := range caches {
		switch {
		case !c.exists():
			continue
		case layers:
			u.caches = append(u.caches, layeredCache{c, filepath.Join(u.layers, strconv.Itoa(i))})
		case c.ReadOnly && !u.level.noMounts:
			u.binds = append(slices.Clone(u.binds), Bind{Dir: c.Dir, ReadOnly: true, hide: c.Hide})
		default:
			continue
		}
		if c.Var == "" {
			continue
		}
		if u.cacheEnv == nil {
			u.cacheEnv = map[string]string{}
		}
		u.cacheEnv[c.Var] = c.Dir
		if c.Home != "" {
			u.cacheEnv[c.Var] = c.Home
		}
	}
}

// cacheHomes lists the private homes of the caches.
func (u launchSpec) cacheHomes() []string {
	var homes []string
	for _, c := range u.caches {
		if c.Home != "" && !slices.Contains(homes, c.Home) {
			homes = append(homes, c.Home)
		}
	}
	return homes
}

// cacheMounts returns the mounts of the caches, homes first.
func (p *Provider) cacheMounts(l *launch, u launchSpec) ([]guestproto.Mount, error) {
	var mounts []guestproto.Mount
	for _, home := range u.cacheHomes() {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountTmpfs, Target: home, Data: "mode=700,uid=1000,gid=1000" + rootfs.TmpfsSize(u.policy.Limits[driver.ResourceMemory].Max, 16)})
	}
	for _, c := range u.caches {
		_, m, err := p.layerMount(l, u, c.Dir, c.layer)
		if err != nil {
			return nil, fmt.Errorf("cache %q: %w", c.Dir, err)
		}
		mounts = append(mounts, m)
		for _, name := range c.Hide {
			mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountMask, Target: filepath.Join(c.Dir, name), Optional: true})
		}
	}
	return mounts, nil
}

// layerMount returns an overlayfs of a directory of the host, at its own path, with upper
// and work in layer.
func (p *Provider) layerMount(l *launch, u launchSpec, dir, layer string) (*protect.Dir, guestproto.Mount, error) {
	m := guestproto.Mount{
		Kind: guestproto.MountOverlay, Target: dir, Data: "userxattr", Upper: filepath.Join(layer, "upper"), Work: filepath.Join(layer, "work"),
	}
	if !u.policy.Durable {
		m.Data += ",volatile"
	}
	d, err := p.dirs.open(dir)
	if err != nil {
		return nil, m, err
	}
	l.open = append(l.open, d.File)
	if !p.ids.root {
		m.Lower = []string{d.Real}
		return d, m, nil
	}
	lower, err := p.ids.userns.CloneMapped(d.ProcPath(), false)
	if err != nil {
		return nil, m, err
	}
	name := "layer" + filepath.Base(layer)
	l.addFile("lower"+name, lower)
	tree, err := mount.Clone(layer)
	if err != nil {
		return nil, m, err
	}
	l.addFile(name, tree)
	m.Lower, m.Upper, m.Work = []string{"fd:lower" + name}, "fd:"+name+"/upper", "work"
	return d, m, nil
}
