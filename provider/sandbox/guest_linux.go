package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// A plan is how the guest of a workspace is to run.
type plan struct {
	level   *level
	unit    unit
	version string // of the guest
	key     string // equal for equal plans: what runs under another is to be replaced
}

// plan says how the guest of m runs at a level.
func (p *Provider) plan(l *level, m *wsdir.Meta, opts options) (*plan, error) {
	bin, err := p.binary()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	u := unit{id: m.ID, files: p.ground.Files(m), inside: workspaceAt(m.Dir, &opts), policy: m.Policy, throwaway: opts.Throwaway, lower: opts.lower(), kernel: l.kernel, binds: opts.Binds, wrapped: l.name == driver.IsolationBubblewrap}
	u.inPlace, u.handed = m.Dir != "", m.Dir != "" && !l.plain
	if p.ids.root && l.mapped {
		u.owner = p.ids.base + workloadUID
	}
	if p.limitedDisk(l, m.Policy) {
		u.image = p.ground.Path(m.ID, imageName)
	}
	if l.plain {
		u.inside, u.tmp = u.files, p.ground.Path(m.ID, tmpName)
	}
	key, err := supervise.Key(bin.Version, opts.Sealed, l.name, u.inside, u.throwaway, m.Policy.Durable, m.Policy.Env, m.Policy.ReadOnly, m.Policy.Limits, m.Policy.Network.None())
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return &plan{level: l, unit: u, version: bin.Version, key: key}, nil
}

// adopt attaches to a guest that runs as planned, if there is one. The lock of
// the guest is held.
func (p *Provider) adopt(ctx context.Context, dir wsdir.Dir, want *plan) *live {
	c, rec := supervise.Adopt(ctx, dir, want.key, want.version, want.unit.id)
	if c == nil {
		return nil
	}
	g := &live{Client: c, owner: want.unit.owner}
	g.WhyLost, g.Left = oomSince(want.unit), guest.LeftIn(filepath.Join(dir.Path, logName))
	if want.unit.mounted() {
		if err := g.reach(rec, want.unit); err != nil {
			p.log.Warn("sandbox: the mount of a guest can't be reached; it is replaced", "workspace", want.unit.id, "error", errors.Join(err, g.Close()))
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
func (p *Provider) start(ctx context.Context, d wsdir.Dir, want *plan, proxied bool) (started *live, err error) {
	dir := d.Path
	if err := p.end(ctx, dir); err != nil {
		return nil, err
	}
	u := want.unit
	u.log = filepath.Join(dir, logName)
	if !u.throwaway {
		u.socket = filepath.Join(dir, supervise.SocketName)
	}
	if err := p.giveLogs(want.level, u.log); err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
	}
	if u.tmp != "" {
		if err := os.Mkdir(u.tmp, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
	}
	if len(u.lower) > 0 {
		u.layer = filepath.Join(dir, layerName)
	}
	if len(u.lower) > 0 && u.image == "" {
		if err := p.freshLayer(u.layer); err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: make its layer: %w: %w", fault.Failed, err)
		}
	}
	if proxied {
		u.egress = filepath.Join(dir, egressName)
	}
	if proxied && !u.policy.Network.None() {
		u.roots = p.ground.Path(u.id, rootsName)
	}
	u.watched = new(watched)
	l, open, err := want.level.launch(p, u)
	defer func() {
		closeAll(open)
		if started == nil {
			unreserve(u.watched.Made) //nolint:errcheck // what is left is as good as nothing
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("sandbox: start the guest: %w: %w", refusal(err), err)
	}
	if proxied {
		out, err := p.connect(l, u)
		if out != nil {
			open = append(open, out)
		}
		if err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
	}
	l.Config.Version, l.Serving().Version = want.version, want.version
	l.Serving().Limits = u.policy.Limits
	if !u.throwaway {
		l.Serving().Lease = p.cfg.Lease
	}
	rec := &supervise.Record{Key: want.key, Groups: groupsOf(u).Dirs(), Made: u.watched.Made}
	if !u.throwaway || len(rec.Groups)+len(rec.Made) > 0 { // before there is anything that only it tells of
		if err := u.note(ctx, d, rec); err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
	}
	joined, err := joinGroups(l, u)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err), p.end(ctx, dir))
	}
	defer joined.Close() //nolint:errcheck // nothing was written through them
	driver.Step(ctx, "groups made")
	r, err := supervise.Start(ctx, d, l, rec)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: %w", err), p.end(context.WithoutCancel(ctx), dir))
	}
	g := &live{Client: r.Client, watched: u.watched, owner: u.owner}
	g.WhyLost, g.Left = oomSince(u), guest.LeftIn(u.log)
	if r.Root == nil {
		return g, nil
	}
	defer r.Root.Close()
	if rec.Mount, err = mountID(int(r.Root.Fd())); err == nil && !u.throwaway { // which no other process adopts
		err = rec.Write(ctx, d)
	}
	if err == nil {
		err = g.use(r.Root, rec, u)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: reach the files: %w: %w", fault.Failed, err), g.Close(), p.end(context.WithoutCancel(ctx), dir))
	}
	return g, nil
}

// note writes down what is about to be made for a guest, and what was found.
func (u unit) note(ctx context.Context, d wsdir.Dir, rec *supervise.Record) error {
	_, err := d.Update(ctx, false, func(m *wsdir.Meta) error {
		if u.throwaway {
			return rec.Note(m)
		}
		return errors.Join(rec.Note(m), u.watched.noteIn(m))
	})
	return err
}

// endTimeout bounds what is done to end a guest.
const endTimeout = supervise.EndTimeout

// endGuest ends the guest of the workspace in dir, if it has one, and whatever
// ran in it.
func (p *Provider) endGuest(ctx context.Context, dir string) error {
	return supervise.EndIn(ctx, wsdir.Dir{Path: dir, Kind: Kind}, hooks)
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
