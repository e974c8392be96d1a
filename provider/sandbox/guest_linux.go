package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
	"github.com/croft-run/croft/provider/sandbox/internal/mount"
	"github.com/croft-run/croft/provider/sandbox/internal/protect"
	"github.com/croft-run/croft/workspace/driver"
)

// newLaunchSpec returns the launch spec of the guest of m at a level.
func (p *Provider) newLaunchSpec(l *level, m *wsdir.State, opts Options) (*launchSpec, error) {
	bin, err := p.binary()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	u := &launchSpec{
		level: l, id: m.ID, files: p.store.Files(m), guestDir: workspaceAt(m.Dir, &opts), user: opts.userName(), policy: m.Policy, log: p.store.Path(m.ID, logName),
		throwaway: opts.Throwaway, lower: opts.lowerDirs(), hostDir: m.Dir != "", binds: opts.Binds, sockets: opts.Sockets, volumes: p.volumeMounts(opts), rootfs: opts.RootfsDir, version: bin.Version,
	}
	u.autorun = protect.Settings{
		Git: &gitdir.Copies{Dir: p.store.Path(m.ID, gitdir.Name)}, Shared: opts.Git == GitShared,
		Late: l.name == driver.IsolationNamespaces, // whose guest can mount while the workload runs
		IsShown: func(path string) bool {
			shows := func(b Bind) bool { return !b.Empty && paths.Inside(b.Dir, path) }
			return u.hostDir && paths.Inside(u.guestDir, path) || slices.ContainsFunc(u.binds, shows)
		},
		CheckGit: func(dir string) error {
			_, err := p.dirs.check(dir)
			return err
		},
	}
	if p.ids.root && l.mapsIDs {
		u.owner = p.ids.base + workloadUID
	}
	if p.ids.hasDiskImage(l, m.Policy) {
		u.image = p.store.Path(m.ID, imageName)
	}
	if len(u.lower) > 0 {
		u.layer = p.store.Path(m.ID, layerName)
	}
	u.layers = p.store.Path(m.ID, cachesName)
	u.addCaches(opts.Caches)
	if !u.throwaway {
		u.socket = p.store.Path(m.ID, supervise.SocketName)
	}
	if l.noMounts {
		u.guestDir, u.tmp = u.files, p.store.Path(m.ID, tmpName)
	} else {
		u.egress = p.store.Path(m.ID, egressName)
	}
	if u.egress != "" && !m.Policy.Network.None() {
		u.caDir = p.store.Path(m.ID, rootsName)
	}
	u.key, err = supervise.Key(bin.Version, opts.Sealed, l.name, u.guestDir, u.user, u.throwaway, m.Policy.Durable, m.Policy.Env, m.Policy.ReadOnly, m.Policy.Limits, m.Policy.Network.None())
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return u, nil
}

// adoptGuest connects to a running guest with the same launch key, if there is one. It
// requires the guest lock.
func (p *Provider) adoptGuest(ctx context.Context, dir wsdir.Dir, u *launchSpec) (*guestConn, error) {
	c, rec, err := supervise.Adopt(ctx, dir, u.key, u.version, u.id)
	if c == nil {
		return nil, err
	}
	g := newGuestConn(c, u)
	g.rec = rec
	if u.filesInMount() {
		if err := g.openFiles(rec, *u); err != nil {
			err = errors.Join(err, g.Close())
			if herr := supervise.HostError(ctx, err); herr != nil {
				return nil, herr
			}
			p.log.Warn("sandbox: the mount of the guest can't be opened; the guest is replaced", "workspace", u.id, "error", err)
			return nil, nil
		}
	}
	return g, nil
}

// runningSessions lists the sessions that run in a workspace, also in one that no process has
// open. It neither starts nor replaces a guest: without one, nothing runs.
func (p *Provider) runningSessions(ctx context.Context, id string) ([]driver.SessionInfo, error) {
	dir := p.store.Dir(id)
	rec := supervise.ReadRecord(dir)
	if rec == nil || !rec.Alive() {
		return nil, nil
	}
	bin, err := p.binary()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	c, err := guest.Dial(ctx, filepath.Join(dir.Path, supervise.SocketName), rec.Token, bin.Version, id)
	if err != nil {
		return nil, fmt.Errorf("sandbox: sessions of %s: %w", id, err)
	}
	defer c.Close() //nolint:errcheck // the guest lives on
	list, err := c.Shell().Sessions(ctx)
	return slices.DeleteFunc(list, func(s driver.SessionInfo) bool { return !s.Running }), err
}

// A guestConn is a connection to a running guest, with descriptors of its mounts.
type guestConn struct {
	*guest.Client
	root     *files.Root // the workspace in the guest's mount; nil if files are not reached through it
	files    *driver.FS  // on root
	pinnedNS *os.File    // in place: the guest's mount namespace, kept open so that autorun files stay protected
	groups   *cgroup.Groups
	owner    int // uid of files that are created; 0 is this process's user

	autorun *protect.Guest
	rec     *supervise.Record

	guestRoot *os.File // with imports: the workspace in the guest's mount
	mountNS   *os.File // with imports: the guest's mount namespace
	rootMount uint64   // mount id of guestRoot
}

func newGuestConn(c *guest.Client, u *launchSpec) *guestConn {
	c.WhyLost, c.Salvage = newOOMCheck(*u), guest.OutputFromLogs(u.log)
	return &guestConn{Client: c, owner: u.owner, groups: cgroupsOf(*u)}
}

// Close closes the connection. The guest lives on.
func (g *guestConn) Close() error {
	err := g.Client.Close()
	if g.autorun != nil {
		g.autorun.Close()
	}
	if g.root != nil {
		err = errors.Join(err, g.root.Close())
	}
	for _, f := range []*os.File{g.pinnedNS, g.guestRoot, g.mountNS} {
		if f != nil {
			f.Close()
		}
	}
	return err
}

// startGuest ends a guest that may be running and starts a new one. It requires the guest
// lock.
func (p *Provider) startGuest(ctx context.Context, d wsdir.Dir, u *launchSpec) (*guestConn, error) {
	if err := p.endGuestLocked(ctx, d.Path); err != nil {
		return nil, err
	}
	u.autorun.State = new(protect.State)
	if u.showsHostDirs() {
		var err error
		if u.autorun.Git, err = gitdir.Read(d); err == nil {
			err = u.autorun.Git.Sweep()
		}
		if err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: %w", err)
		}
	}
	l := new(launch)
	defer l.close()
	g, err := p.launchGuest(ctx, d, u, l)
	if err != nil {
		if code := fault.Of(err); ctx.Err() == nil && code != fault.InvalidArgument && code != fault.ResourceExhausted {
			if host, err := p.digest(); err == nil { // this process and the next ones test the level again
				probed.Delete(probeKey{u.level.name, host})
			}
			p.proofs.forget()
		}
		protect.RemovePlaceholders(u.autorun.State.Made) //nolint:errcheck // an empty placeholder is harmless
		return nil, errors.Join(err, p.endGuestLocked(context.WithoutCancel(ctx), d.Path))
	}
	return g, nil
}

// launchGuest prepares a guest, records its cgroups and placeholders, starts it and opens
// its files.
func (p *Provider) launchGuest(ctx context.Context, d wsdir.Dir, u *launchSpec, l *launch) (*guestConn, error) {
	if err := p.prepareLaunch(l, u); err != nil {
		code := fault.Failed // errors that the caller can fix keep their code
		if of := fault.Of(err); of == fault.PermissionDenied || of == fault.InvalidArgument || of == fault.ResourceExhausted {
			code = of
		}
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", code, err)
	}
	rec := &supervise.Record{Key: u.key, Groups: cgroupsOf(*u).Dirs(), Made: u.autorun.State.Made}
	if !u.throwaway || len(rec.Groups)+len(rec.Made)+len(u.autorun.Git.List) > 0 { // recorded before it is created, so that a crash leaves no leak
		_, err := d.Update(ctx, false, func(m *wsdir.State) error {
			var err error
			if len(u.autorun.Git.List) > 0 {
				err = u.autorun.Git.WriteTo(m)
			}
			if err == nil && !u.throwaway {
				err = u.autorun.State.WriteTo(m)
			}
			return errors.Join(err, rec.PutIn(m))
		})
		if err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
	}
	if err := createCgroups(l, *u); err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
	}
	driver.Step(ctx, "groups made")
	r, err := supervise.Start(ctx, d, &l.Launch, rec)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	g := newGuestConn(r.Client, u)
	g.rec = rec
	if r.Root == nil {
		return g, nil
	}
	defer r.Root.Close()
	if rec.Mount, err = mount.ID(int(r.Root.Fd())); err == nil && !u.throwaway { // no other process adopts a throwaway guest
		err = rec.Write(ctx, d)
	}
	if err == nil {
		err = g.setRoot(r.Root, rec, *u)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: open the files: %w: %w", fault.Failed, err), g.Close())
	}
	return g, nil
}

// prepareLaunch creates what the guest needs in the workspace directory, and fills in its
// launch.
func (p *Provider) prepareLaunch(l *launch, u *launchSpec) error {
	if err := p.ids.chownLogs(u.level, u.log); err != nil {
		return err
	}
	if u.tmp != "" {
		if err := os.Mkdir(u.tmp, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if u.layer != "" && u.image == "" {
		if err := p.ids.resetLayer(u.layer); err != nil {
			return fmt.Errorf("create the overlayfs layer: %w", err)
		}
	}
	for _, c := range u.caches {
		if err := p.ids.resetLayer(c.layer); err != nil {
			return fmt.Errorf("create the layer of a cache: %w", err)
		}
	}
	if err := u.level.launch(p, l, *u); err != nil {
		return err
	}
	if u.egress != "" {
		if err := u.configureProxy(l); err != nil {
			return err
		}
	}
	l.Config.Version, l.ServingConfig().Version = u.version, u.version
	l.ServingConfig().Limits = guestLimits(u.policy.Limits)
	if !u.throwaway {
		l.ServingConfig().Lease = p.cfg.Lease
	}
	return nil
}

// endGuest ends the guest of the workspace in dir, if it has one, and all processes in it.
func (p *Provider) endGuest(ctx context.Context, dir string) error {
	return supervise.LockAndEnd(ctx, wsdir.Dir{Path: dir, Kind: Kind}, hooks)
}

// endGuestLocked is endGuest for a caller that has the guest lock.
func (p *Provider) endGuestLocked(ctx context.Context, dir string) error {
	return supervise.End(ctx, wsdir.Dir{Path: dir, Kind: Kind}, hooks)
}

// hooks thaw the cgroup of a guest before it is killed (a frozen process can't die), and
// remove its cgroups and placeholders afterwards.
var hooks = &supervise.Hooks{
	Before: func(ctx context.Context, r *supervise.Record) {
		if dir, ok := cgroup.FreezerOf(r.Groups); ok {
			cgroup.SetFrozen(ctx, dir, false) //nolint:errcheck // a failure shows when the guest is killed
		}
	},
	After: func(_ context.Context, r *supervise.Record) error {
		protect.RemovePlaceholders(r.Made) //nolint:errcheck // an empty placeholder is harmless
		return cgroup.Remove(r.Groups)
	},
}
