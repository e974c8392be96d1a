package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox/internal/protect"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/workspace/driver"
)

const maxBinds = 32

// emptyData are the options of a tmpfs that contains only mount points.
const emptyData = "mode=755,size=64k,nr_inodes=256"

// A visibleDir directory is what commands see at a path.
type visibleDir struct {
	dir      string
	readOnly bool
}

// hostDirs checks directories of the host that are to be shown.
type hostDirs struct {
	store      *wsdir.Store
	afterCheck func(dir string) // in tests: called between the check of a directory and its mount
}

// checkBinds checks the bind mounts of a workspace by the rules for a directory in
// place. A bind, or the workspace, may lie in a bind that is read-only: the outer one is
// mounted first, and the workload can't move what is in it. Otherwise none may contain
// another.
func (h *hostDirs) checkBinds(spec driver.Spec, opts *Options) error {
	if len(opts.Binds) > maxBinds {
		return fmt.Errorf("%d directories: %w: at most %d can be shown", len(opts.Binds), fault.InvalidArgument, maxBinds)
	}
	taken := []visibleDir{{rootfs.HomeOf(opts.userName()), false}, {workspaceAt(spec.Dir, opts), false}}
	for i, b := range opts.Binds {
		if _, err := h.check(b.Dir); err != nil && !b.isMissing() {
			return err
		}
		b.Dir, b.ReadOnly = filepath.Clean(b.Dir), b.ReadOnly || b.Empty || b.HideCredentials
		this := visibleDir{b.Dir, b.ReadOnly}
		for _, other := range taken {
			if err := this.checkNesting(other); err != nil {
				return err
			}
		}
		taken = append(taken, this)
		opts.Binds[i] = b
	}
	slices.SortStableFunc(opts.Binds, func(x, y Bind) int { return len(x.Dir) - len(y.Dir) }) // outer ones first
	return nil
}

// checkSockets checks the directories of the option "sockets".
func (o *Options) checkSockets(spec driver.Spec, l *level) error {
	if len(o.Sockets) > 0 && (l.noMounts || l.gvisor) {
		return fmt.Errorf("sockets: %w: at the level %s no socket of the host can be reached", fault.Unsupported, l.name)
	}
	for i, dir := range o.Sockets {
		dir = filepath.Clean(dir)
		shows := func(b Bind) bool { return !b.Empty && paths.Inside(b.Dir, dir) }
		if !filepath.IsAbs(dir) || !slices.ContainsFunc(o.Binds, shows) && (spec.Dir == "" || !paths.Inside(spec.Dir, dir)) {
			return fmt.Errorf("sockets in %q: %w: name a directory that is shown, in place or by a bind, or one in it, from the root", dir, fault.InvalidArgument)
		}
		o.Sockets[i] = dir
	}
	return nil
}

// checkNesting checks two directories of which one may contain the other.
func (s visibleDir) checkNesting(other visibleDir) error {
	outer, inner := other, s
	if paths.Inside(s.dir, other.dir) {
		outer, inner = s, other
	}
	if !paths.Inside(outer.dir, inner.dir) {
		return nil
	}
	if !outer.readOnly || outer.dir == inner.dir {
		return fmt.Errorf("directory %q: %w: it contains %s or lies in it, which only a read-only bind may", s.dir, fault.InvalidArgument, other.dir)
	}
	// The guest resolves the inner mount point by its path, in the user's files.
	if real, err := filepath.EvalSymlinks(inner.dir); err != nil || real != inner.dir {
		return fmt.Errorf("directory %q in %s: %w: it must exist there, without symlinks on the way", inner.dir, outer.dir, fault.InvalidArgument)
	}
	return nil
}

// isMissing reports whether the bind is left out, because its directory does not exist.
func (b Bind) isMissing() bool {
	_, err := os.Stat(b.Dir)
	return b.Optional && errors.Is(err, os.ErrNotExist)
}

// workspaceAt returns the path of a workspace inside.
func workspaceAt(dir string, opts *Options) string {
	switch {
	case dir != "":
		return filepath.Clean(dir)
	case opts.At != "":
		return opts.At
	}
	return guestWorkspaceDir
}

// userName returns the name of the workload's user inside.
func (o *Options) userName() string { return cmp.Or(o.User, workloadName) }

// userNames matches the names that useradd accepts.
var userNames = lazyregexp.New(`^[a-z_][a-z0-9_-]{0,31}$`)

// checkUser checks the name of the workload's user.
func (o *Options) checkUser(l *level) error {
	switch {
	case o.User == "":
		return nil
	case !userNames.MatchString(o.User) || o.User == "root" || o.User == "nobody":
		return fmt.Errorf("user %.40q: %w: a name has up to 32 lower-case letters, digits, _ and -, and is not root or nobody", o.User, fault.InvalidArgument)
	case l.noMounts:
		return fmt.Errorf("user %q: %w: isolation %s has no mounts, so the user is the host's", o.User, fault.Unsupported, l.name)
	}
	return nil
}

// checkGuestPath checks the path that a workspace is to have inside.
func (o *Options) checkGuestPath(spec driver.Spec, l *level) error {
	if o.At == "" {
		return nil
	}
	switch {
	case !filepath.IsAbs(o.At):
		return fmt.Errorf("path %q of the workspace: %w: it must be absolute", o.At, fault.InvalidArgument)
	case spec.Dir != "":
		return fmt.Errorf("path %q of the workspace: %w: a directory in place has its own", o.At, fault.InvalidArgument)
	case l.noMounts:
		return fmt.Errorf("path %q of the workspace: %w: isolation %s has no mounts", o.At, fault.Unsupported, l.name)
	}
	o.At = filepath.Clean(o.At)
	home := rootfs.HomeOf(o.userName())
	if o.At == home {
		return nil
	}
	if paths.Inside(o.At, home) || paths.Inside(home, o.At) {
		return fmt.Errorf("path %q of the workspace: %w: %s is the home inside", o.At, fault.InvalidArgument, home)
	}
	return checkNotSystem(o.At)
}

// check checks a directory that is to be mounted, and returns its path without
// symlinks.
func (h *hostDirs) check(dir string) (string, error) {
	if err := checkNotSystem(dir); err != nil {
		return "", err
	}
	real, err := h.store.CheckHost(dir)
	if err != nil {
		return "", err
	}
	if real == filepath.Clean(dir) {
		return real, nil
	}
	return real, checkLinkTarget(dir, real)
}

// open opens a directory of the host and checks what was opened.
func (h *hostDirs) open(dir string) (*protect.Dir, error) {
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("directory %q: %w: %w", dir, fault.Of(err), err)
	}
	d := &protect.Dir{File: f}
	if d.Real, err = os.Readlink(d.ProcPath()); err == nil {
		if err = checkNotSystem(dir); err == nil {
			_, err = h.check(d.Real)
		}
	}
	if err == nil && !d.IsAt(d.Real) {
		err = fmt.Errorf("directory %q: %w: it was moved during the check; try again", dir, fault.Unavailable)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if h.afterCheck != nil {
		h.afterCheck(dir)
	}
	return d, nil
}

// openMountSource opens and checks a directory. The guest gets its descriptor, by which
// it verifies, after mounting, that no other directory is at target.
func (h *hostDirs) openMountSource(l *launch, dir, target string) (*protect.Dir, error) {
	d, err := h.open(dir)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("same%d", len(l.Config.Verify))
	l.addFile(name, d.File)
	l.Config.Verify = append(l.Config.Verify, guestproto.SameFile{Path: target, File: name})
	return d, nil
}

// extraMounts returns the mounts besides the workspace: binds, and the certificates that
// programs trust. Mounts that contain the workspace are in before.
func (p *Provider) extraMounts(l *launch, u launchSpec) (before, after []guestproto.Mount, err error) {
	if u.caDir != "" {
		after = append(after, guestproto.Mount{Kind: guestproto.MountBind, Source: u.caDir, Target: bundleDir, ReadOnly: true, NoExec: true})
	}
	for i, b := range u.binds {
		if b.Empty { // mounts inside it come later
			before = append(before, guestproto.Mount{Kind: guestproto.MountTmpfs, Target: b.Dir, Data: emptyData})
			continue
		}
		if b.isMissing() {
			continue
		}
		d, m, err := p.bindMount(l, u, b, i)
		if err != nil {
			return nil, nil, err
		}
		masks, err := u.maskBind(d, b)
		if err != nil {
			return nil, nil, err
		}
		if m.ReadOnly && !u.isLayered(b) && !u.level.gvisor {
			if err := u.autorun.State.AddFIFOs(d); err != nil {
				return nil, nil, err
			}
		}
		if paths.Inside(b.Dir, u.guestDir) { // the bind is read-only, see checkBinds
			before = append(append(before, m), masks...)
			continue
		}
		held, err := u.protectAutorun(l, d, b.Dir, m.ReadOnly)
		if err != nil {
			return nil, nil, err
		}
		after = append(append(append(after, m), held...), masks...)
	}
	return before, after, nil
}

// bindMount returns the mount of a bind.
func (p *Provider) bindMount(l *launch, u launchSpec, b Bind, i int) (*protect.Dir, guestproto.Mount, error) {
	ro := b.ReadOnly || u.policy.ReadOnly
	if u.isLayered(b) {
		layer := filepath.Join(u.layers, "bind"+strconv.Itoa(i))
		if err := p.ids.resetLayer(layer); err != nil {
			return nil, guestproto.Mount{}, err
		}
		d, m, err := p.layerMount(l, u, b.Dir, layer)
		m.ReadOnly = ro
		return d, m, err
	}
	d, err := p.dirs.openMountSource(l, b.Dir, b.Dir)
	if err != nil {
		return nil, guestproto.Mount{}, err
	}
	source := d.Real
	if p.ids.root && u.level.mapsIDs {
		source = d.ProcPath() // this process clones the mount, not the guest
	}
	return d, guestproto.Mount{Kind: guestproto.MountBind, Source: source, Target: b.Dir, ReadOnly: ro}, nil
}

// isLayered reports whether a bind is an overlayfs, whose FIFOs do not lead to the host:
// those of a toolchain, which has too many files to search for FIFOs.
func (u launchSpec) isLayered(b Bind) bool { return b.HideCredentials && u.level.canOverlay() }

// maxFIFOEntries bounds the search for FIFOs.
const maxFIFOEntries = 2_000_000

// fifoText is what a masked FIFO has: an empty file would look like one of the project.
const fifoText = "This is a FIFO of the host. A sandbox does not reach it.\n"

// maskFIFOs returns mounts that mask the FIFOs in a directory of the host: a program of the
// host may read commands from one. FIFOs that are made later are not masked, but reported:
// see protect.Workspace.Changes. gVisor opens none.
func (u launchSpec) maskFIFOs(d *protect.Dir, target string) ([]guestproto.Mount, error) {
	if u.level.gvisor {
		return nil, nil
	}
	var mounts []guestproto.Mount
	root, seen := d.ProcPath()+"/", 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if seen++; seen > maxFIFOEntries {
			return fmt.Errorf("directory %q: %w: it has more than %d entries, which can't all be searched for FIFOs", target, fault.ResourceExhausted, maxFIFOEntries)
		}
		if err == nil && e.Type()&fs.ModeNamedPipe != 0 {
			at := filepath.Join(target, strings.TrimPrefix(path, root))
			mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountMask, Target: at, Source: fifoText, Optional: true})
		}
		return nil // what this user can't read, the workload can't read either
	})
	return mounts, err
}

// maskBind returns the mounts that mask files in a bind.
func (u launchSpec) maskBind(d *protect.Dir, b Bind) ([]guestproto.Mount, error) {
	var mounts []guestproto.Mount
	for _, name := range b.hide {
		mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountMask, Target: filepath.Join(b.Dir, name), Optional: true})
	}
	if b.HideCredentials {
		for name, content := range toolchain.CredentialFiles(d.Real) {
			mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountMask, Target: filepath.Join(b.Dir, name), Source: content, Optional: true})
		}
	}
	if u.isLayered(b) {
		return mounts, nil // an overlayfs has FIFOs of its own
	}
	fifos, err := u.maskFIFOs(d, b.Dir)
	return append(mounts, fifos...), err
}

// cloneBinds replaces binds by detached mounts, if the guest has no permission to reach
// their sources. The mounts are idmapped: their owner is the workload.
func (i ids) cloneBinds(l *launch, mounts []guestproto.Mount, name string, kernel bool) error {
	if !i.root {
		return nil
	}
	for n, m := range mounts {
		if m.Kind != guestproto.MountBind {
			continue
		}
		tree, err := i.userns.CloneMapped(m.Source, kernel)
		if err != nil {
			return err
		}
		at := fmt.Sprintf("%s%d", name, n)
		l.addFile(at, tree)
		mounts[n].Kind, mounts[n].Source = guestproto.MountFD, at
	}
	return nil
}

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
	taken := []string{rootfs.HomeOf(opts.userName()), workspaceAt(spec.Dir, opts), "/var", "/lib", "/lib64", "/root", "/home", "/tmp"}
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
