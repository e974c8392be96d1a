package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// newLaunchSpec says how the guest of m runs at a level.
func (p *Provider) newLaunchSpec(l *level, m *wsdir.State, opts options) (*launchSpec, error) {
	bin, err := p.binary()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	u := &launchSpec{
		level: l, id: m.ID, files: p.store.Files(m), guestDir: workspaceAt(m.Dir, &opts), policy: m.Policy, log: p.store.Path(m.ID, logName),
		throwaway: opts.Throwaway, lower: opts.lowerDirs(), hostDir: m.Dir != "", binds: opts.Binds, version: bin.Version,
	}
	if p.ids.root && l.mapsIDs {
		u.owner = p.ids.base + workloadUID
	}
	if p.hasDiskImage(l, m.Policy) {
		u.image = p.store.Path(m.ID, imageName)
	}
	if len(u.lower) > 0 {
		u.layer = p.store.Path(m.ID, layerName)
	}
	if !u.throwaway {
		u.socket = p.store.Path(m.ID, keep.SocketName)
	}
	if l.noMounts {
		u.guestDir, u.tmp = u.files, p.store.Path(m.ID, tmpName)
	} else {
		u.egress = p.store.Path(m.ID, egressName)
	}
	if u.egress != "" && !m.Policy.Network.None() {
		u.caDir = p.store.Path(m.ID, rootsName)
	}
	u.key, err = keep.Key(bin.Version, opts.Sealed, l.name, u.guestDir, u.throwaway, m.Policy.Durable, m.Policy.Env, m.Policy.ReadOnly, m.Policy.Limits, m.Policy.Network.None())
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return u, nil
}

// adoptGuest attaches to a guest that runs as planned, if there is one. The lock of
// the guest is held.
func (p *Provider) adoptGuest(ctx context.Context, dir wsdir.Dir, u *launchSpec) *guestConn {
	c, rec := keep.Adopt(ctx, dir, u.key, u.version, u.id)
	if c == nil {
		return nil
	}
	g := newGuestConn(c, u)
	if u.filesInMount() {
		if err := g.openFiles(rec, *u); err != nil {
			p.log.Warn("sandbox: the mount of a guest can't be reached; it is replaced", "workspace", u.id, "error", errors.Join(err, g.Close()))
			return nil
		}
	}
	return g
}

// A guestConn guest.
type guestConn struct {
	*guest.Client
	root  *files.Root // of the workspace as the guest sees it, where files are reached so
	files *driver.FS  // on root
	pinnedNS *os.File    // the namespace of the guest's mounts, where they keep files read-only
	owner int         // whom files that are made belong to, where that is not this process's user; else 0

	autorun *autorunState // what was found in directories of the user's, where this process started the guest

	guestRoot   *os.File // of the workspace as the guest sees it, once something was staged in it
	mountNS    *os.File // of the guest's mounts
	rootMount uint64   // that top is on
}

func newGuestConn(c *guest.Client, u *launchSpec) *guestConn {
	c.WhyLost, c.Left = newOOMCheck(*u), guest.LeftIn(u.log)
	return &guestConn{Client: c, autorun: u.autorun, owner: u.owner}
}

// Close lets go of the guest, which lives on.
func (g *guestConn) Close() error {
	err := g.Client.Close()
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

// startGuest starts the guest, after the end of any that is there. The lock of the
// guest is held.
func (p *Provider) startGuest(ctx context.Context, d wsdir.Dir, u *launchSpec) (*guestConn, error) {
	if err := p.endGuestLocked(ctx, d.Path); err != nil {
		return nil, err
	}
	u.autorun = new(autorunState)
	l := new(launch)
	defer l.close()
	g, err := p.launchGuest(ctx, d, u, l)
	if err != nil {
		removePlaceholders(u.autorun.Made) //nolint:errcheck // what is left is as good as nothing
		return nil, errors.Join(err, p.endGuestLocked(context.WithoutCancel(ctx), d.Path))
	}
	return g, nil
}

// launchGuest prepares a guest, notes what is made for it, starts it and opens its files.
func (p *Provider) launchGuest(ctx context.Context, d wsdir.Dir, u *launchSpec, l *launch) (*guestConn, error) {
	if err := p.prepareLaunch(l, u); err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", launchErrorCode(err), err)
	}
	rec := &keep.Record{Key: u.key, Groups: cgroupsOf(*u).Dirs(), Made: u.autorun.Made}
	if !u.throwaway || len(rec.Groups)+len(rec.Made) > 0 { // before there is anything that only it tells of
		if err := u.recordLaunch(ctx, d, rec); err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
	}
	if err := createCgroups(l, *u); err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
	}
	driver.Step(ctx, "groups made")
	r, err := keep.Start(ctx, d, &l.Launch, rec)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	g := newGuestConn(r.Client, u)
	if r.Root == nil {
		return g, nil
	}
	defer r.Root.Close()
	if rec.Mount, err = mountID(int(r.Root.Fd())); err == nil && !u.throwaway { // which no other process adopts
		err = rec.Write(ctx, d)
	}
	if err == nil {
		err = g.setRoot(r.Root, rec, *u)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: reach the files: %w: %w", fault.Failed, err), g.Close())
	}
	return g, nil
}

// prepareLaunch makes what the guest needs in the directory of its workspace, and its launch.
func (p *Provider) prepareLaunch(l *launch, u *launchSpec) error {
	if err := p.chownLogs(u.level, u.log); err != nil {
		return err
	}
	if u.tmp != "" {
		if err := os.Mkdir(u.tmp, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if u.layer != "" && u.image == "" {
		if err := p.resetLayer(u.layer); err != nil {
			return fmt.Errorf("make its layer: %w", err)
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
	l.Config.Version, l.Serving().Version = u.version, u.version
	l.Serving().Limits = u.policy.Limits
	if !u.throwaway {
		l.Serving().Lease = p.cfg.Lease
	}
	return nil
}

// recordLaunch writes down what is about to be made for a guest, and what was found.
func (u *launchSpec) recordLaunch(ctx context.Context, d wsdir.Dir, rec *keep.Record) error {
	_, err := d.Update(ctx, false, func(m *wsdir.State) error {
		if u.throwaway {
			return rec.Note(m)
		}
		return errors.Join(rec.Note(m), u.autorun.writeTo(m))
	})
	return err
}

// endGuest ends the guest of the workspace in dir, if it has one, and whatever
// ran in it.
func (p *Provider) endGuest(ctx context.Context, dir string) error {
	return keep.EndIn(ctx, wsdir.Dir{Path: dir, Kind: Kind}, hooks)
}

// endGuestLocked is endGuest while the lock of the guest is held.
func (p *Provider) endGuestLocked(ctx context.Context, dir string) error {
	return keep.End(ctx, wsdir.Dir{Path: dir, Kind: Kind}, hooks)
}

// hooks are about the control groups of a guest: what is frozen can't die, and
// what is empty goes.
var hooks = &keep.Hooks{
	Before: func(ctx context.Context, r *keep.Record) {
		if dir, ok := cgroup.FreezerOf(r.Groups); ok {
			cgroup.SetFrozen(ctx, dir, false) //nolint:errcheck // then it is killed, and that tells
		}
	},
	After: func(_ context.Context, r *keep.Record) error {
		removePlaceholders(r.Made) //nolint:errcheck // what is left is as good as nothing
		return cgroup.Remove(r.Groups)
	},
}

// launchErrorCode is the code of an error of a launch: what the caller asked for and can
// change keeps its own.
func launchErrorCode(err error) fault.Code {
	switch code := fault.Of(err); code {
	case fault.PermissionDenied, fault.InvalidArgument, fault.ResourceExhausted:
		return code
	}
	return fault.Failed
}
