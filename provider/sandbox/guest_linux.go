package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// plan says how the guest of m runs at a level.
func (p *Provider) plan(l *level, m *wsdir.State, opts options) (*launchSpec, error) {
	bin, err := p.binary()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	u := &launchSpec{
		level: l, id: m.ID, files: p.ground.Files(m), inside: workspaceAt(m.Dir, &opts), policy: m.Policy, log: p.ground.Path(m.ID, logName),
		throwaway: opts.Throwaway, lower: opts.lower(), inPlace: m.Dir != "", binds: opts.Binds, version: bin.Version,
	}
	if p.ids.root && l.mapped {
		u.owner = p.ids.base + workloadUID
	}
	if p.limitedDisk(l, m.Policy) {
		u.image = p.ground.Path(m.ID, imageName)
	}
	if len(u.lower) > 0 {
		u.layer = p.ground.Path(m.ID, layerName)
	}
	if !u.throwaway {
		u.socket = p.ground.Path(m.ID, supervise.SocketName)
	}
	if l.plain {
		u.inside, u.tmp = u.files, p.ground.Path(m.ID, tmpName)
	} else {
		u.egress = p.ground.Path(m.ID, egressName)
	}
	if u.egress != "" && !m.Policy.Network.None() {
		u.roots = p.ground.Path(m.ID, rootsName)
	}
	u.key, err = supervise.Key(bin.Version, opts.Sealed, l.name, u.inside, u.throwaway, m.Policy.Durable, m.Policy.Env, m.Policy.ReadOnly, m.Policy.Limits, m.Policy.Network.None())
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return u, nil
}

// adopt attaches to a guest that runs as planned, if there is one. The lock of
// the guest is held.
func (p *Provider) adopt(ctx context.Context, dir wsdir.Dir, u *launchSpec) *live {
	c, rec := supervise.Adopt(ctx, dir, u.key, u.version, u.id)
	if c == nil {
		return nil
	}
	g := newLive(c, u)
	if u.mounted() {
		if err := g.reach(rec, *u); err != nil {
			p.log.Warn("sandbox: the mount of a guest can't be reached; it is replaced", "workspace", u.id, "error", errors.Join(err, g.Close()))
			return nil
		}
	}
	return g
}

// A live guest.
type live struct {
	*guest.Client
	root  *files.Root // of the workspace as the guest sees it, where files are reached so
	files *driver.FS  // on root
	world *os.File    // the namespace of the guest's mounts, where they keep files read-only
	owner int         // whom files that are made belong to, where that is not this process's user; else 0

	watched *watched // what was found in directories of the user's, where this process started the guest

	top   *os.File // of the workspace as the guest sees it, once something was staged in it
	ns    *os.File // of the guest's mounts
	mount uint64   // that top is on
}

func newLive(c *guest.Client, u *launchSpec) *live {
	c.WhyLost, c.Salvage = oomSince(*u), guest.OutputFromLogs(u.log)
	return &live{Client: c, watched: u.watched, owner: u.owner}
}

// Close lets go of the guest, which lives on.
func (g *live) Close() error {
	err := g.Client.Close()
	if g.root != nil {
		err = errors.Join(err, g.root.Close())
	}
	for _, f := range []*os.File{g.world, g.top, g.ns} {
		if f != nil {
			f.Close()
		}
	}
	return err
}

// start starts the guest, after the end of any that is there. The lock of the
// guest is held.
func (p *Provider) start(ctx context.Context, d wsdir.Dir, u *launchSpec) (*live, error) {
	if err := p.end(ctx, d.Path); err != nil {
		return nil, err
	}
	u.watched = new(watched)
	l := new(launch)
	defer l.close()
	g, err := p.launchGuest(ctx, d, u, l)
	if err != nil {
		unreserve(u.watched.Made) //nolint:errcheck // what is left is as good as nothing
		return nil, errors.Join(err, p.end(context.WithoutCancel(ctx), d.Path))
	}
	return g, nil
}

// launchGuest prepares a guest, notes what is made for it, starts it and opens its files.
func (p *Provider) launchGuest(ctx context.Context, d wsdir.Dir, u *launchSpec, l *launch) (*live, error) {
	if err := p.prepare(l, u); err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", refusal(err), err)
	}
	rec := &supervise.Record{Key: u.key, Groups: groupsOf(*u).Dirs(), Made: u.watched.Made}
	if !u.throwaway || len(rec.Groups)+len(rec.Made) > 0 { // before there is anything that only it tells of
		if err := u.note(ctx, d, rec); err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
	}
	if err := joinGroups(l, *u); err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
	}
	driver.Step(ctx, "groups made")
	r, err := supervise.Start(ctx, d, &l.Launch, rec)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	g := newLive(r.Client, u)
	if r.Root == nil {
		return g, nil
	}
	defer r.Root.Close()
	if rec.Mount, err = mountID(int(r.Root.Fd())); err == nil && !u.throwaway { // which no other process adopts
		err = rec.Write(ctx, d)
	}
	if err == nil {
		err = g.use(r.Root, rec, *u)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: reach the files: %w: %w", fault.Failed, err), g.Close())
	}
	return g, nil
}

// prepare makes what the guest needs in the directory of its workspace, and its launch.
func (p *Provider) prepare(l *launch, u *launchSpec) error {
	if err := p.giveLogs(u.level, u.log); err != nil {
		return err
	}
	if u.tmp != "" {
		if err := os.Mkdir(u.tmp, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if u.layer != "" && u.image == "" {
		if err := p.freshLayer(u.layer); err != nil {
			return fmt.Errorf("make its layer: %w", err)
		}
	}
	if err := u.level.launch(p, l, *u); err != nil {
		return err
	}
	if u.egress != "" {
		if err := u.connect(l); err != nil {
			return err
		}
	}
	l.Config.Version, l.ServingConfig().Version = u.version, u.version
	l.ServingConfig().Limits = u.policy.Limits
	if !u.throwaway {
		l.ServingConfig().Lease = p.cfg.Lease
	}
	return nil
}

// note writes down what is about to be made for a guest, and what was found.
func (u *launchSpec) note(ctx context.Context, d wsdir.Dir, rec *supervise.Record) error {
	_, err := d.Update(ctx, false, func(m *wsdir.State) error {
		if u.throwaway {
			return rec.PutIn(m)
		}
		return errors.Join(rec.PutIn(m), u.watched.noteIn(m))
	})
	return err
}

// endGuest ends the guest of the workspace in dir, if it has one, and whatever
// ran in it.
func (p *Provider) endGuest(ctx context.Context, dir string) error {
	return supervise.LockAndEnd(ctx, wsdir.Dir{Path: dir, Kind: Kind}, hooks)
}

// end is endGuest while the lock of the guest is held.
func (p *Provider) end(ctx context.Context, dir string) error {
	return supervise.End(ctx, wsdir.Dir{Path: dir, Kind: Kind}, hooks)
}

// hooks are about the control groups of a guest: what is frozen can't die, and
// what is empty goes.
var hooks = &supervise.Hooks{
	Before: func(ctx context.Context, r *supervise.Record) {
		if dir, ok := cgroup.FreezerOf(r.Groups); ok {
			cgroup.SetFrozen(ctx, dir, false) //nolint:errcheck // then it is killed, and that tells
		}
	},
	After: func(_ context.Context, r *supervise.Record) error {
		unreserve(r.Made) //nolint:errcheck // what is left is as good as nothing
		return cgroup.Remove(r.Groups)
	},
}

// refusal is the code of an error of a launch: what the caller asked for and can
// change keeps its own.
func refusal(err error) fault.Code {
	switch code := fault.Of(err); code {
	case fault.PermissionDenied, fault.InvalidArgument, fault.ResourceExhausted:
		return code
	}
	return fault.Failed
}
