package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/guest/keep"
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/posix/plot"
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
func (p *Provider) plan(l *level, m *plot.Meta, opts options) (*plan, error) {
	bin, err := p.binary()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	u := unit{id: m.ID, files: p.ground.Files(m), inside: workspaceAt(m.Dir, &opts), policy: m.Policy, throwaway: opts.Throwaway, lower: opts.lower(), kernel: l.kernel, binds: opts.Binds}
	if m.Dir != "" {
		u.inPlace, u.handed = true, l.kernel
	}
	if p.limitedDisk(l, m.Policy) {
		u.image = p.ground.Path(m.ID, imageName)
	}
	if l.plain {
		u.inside, u.tmp = u.files, p.ground.Path(m.ID, tmpName)
	}
	key, err := json.Marshal([]any{bin.Version, opts.Sealed, l.name, u.inside, u.throwaway, m.Policy.Durable, m.Policy.Env, m.Policy.ReadOnly, m.Policy.Limits, m.Policy.Network.None()})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w: %w", fault.Internal, err)
	}
	sum := sha256.Sum256(key)
	return &plan{level: l, unit: u, version: bin.Version, key: hex.EncodeToString(sum[:8])}, nil
}

// adopt attaches to a guest that runs as planned, if there is one. The lock of
// the guest is held.
func (p *Provider) adopt(ctx context.Context, dir string, want *plan) *live {
	c, rec := keep.Adopt(ctx, dir, want.key, want.version, want.unit.id)
	if c == nil {
		return nil
	}
	g := &live{Client: c}
	g.WhyLost, g.Left = oomSince(want.unit), guest.LeftIn(filepath.Join(dir, logName))
	if want.unit.mounted() {
		if err := p.reach(g, rec, want.unit); err != nil {
			p.log.Warn("sandbox: the mount of a guest can't be reached; it is replaced", "workspace", want.unit.id, "error", err)
			g.close()
			return nil
		}
	} else if rec.Mount != 0 {
		p.holds(p.reach(g, rec, want.unit), want.unit)
	}
	return g
}

// holds tells where files are written by the guest, because this process does not
// reach its mounts.
func (p *Provider) holds(err error, u unit) {
	if err != nil {
		p.log.Warn("sandbox: the mounts of a guest can't be reached; it writes files itself", "workspace", u.id, "error", err)
	}
}

// A live guest.
type live struct {
	*guest.Client
	root  *boundary.Root // of the workspace as the guest sees it, where files are reached so
	files *driver.FS     // on root

	watched *watched // what was found in directories of the user's, where this process started the guest

	held   *holding // of a directory in place; nil where the guest makes every change
	module atomic.Pointer[placed]

	top   *os.File // of the workspace as the guest sees it, once something was staged in it
	ns    *os.File // of the guest's mounts
	mount uint64   // that top is on
}

func (g *live) close() {
	g.Close() //nolint:errcheck // whether it hears of it or not
	if g.root != nil {
		g.root.Close() //nolint:errcheck // nothing was written through the descriptor
	}
	g.held.close()
	if g.top != nil {
		g.top.Close()
		g.ns.Close()
	}
}

// start starts the guest, after the end of any that is there. The lock of the
// guest is held.
func (p *Provider) start(ctx context.Context, dir string, want *plan, proxied bool) (started *live, err error) {
	if err := p.end(ctx, dir); err != nil {
		return nil, err
	}
	u := want.unit
	u.log = filepath.Join(dir, logName)
	if !u.throwaway {
		u.socket = filepath.Join(dir, keep.SocketName)
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
	if !u.throwaway {
		if err := u.watched.write(dir); err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
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
	rec := &keep.Record{Key: want.key, Groups: groupsOf(u).Dirs(), Made: u.watched.Made}
	if !u.throwaway || len(rec.Groups)+len(rec.Made) > 0 { // before there is anything that only it tells of
		if err := rec.Write(dir); err != nil {
			return nil, fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err)
		}
	}
	joined, err := joinGroups(l, u)
	defer joined.Close() //nolint:errcheck // nothing was written through them
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: start the guest: %w: %w", fault.Failed, err), p.end(ctx, dir))
	}
	driver.Step(ctx, "groups made")
	r, err := keep.Start(ctx, dir, l, rec)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: %w", err), p.end(context.WithoutCancel(ctx), dir))
	}
	g := &live{Client: r.Client, watched: u.watched}
	g.WhyLost, g.Left = oomSince(u), guest.LeftIn(u.log)
	if r.Root != nil {
		if rec.Mount, err = mountID(int(r.Root.Fd())); err == nil && !u.throwaway { // which nobody adopts
			err = rec.Write(dir)
		}
		switch {
		case err != nil:
		case u.mounted():
			err = g.use(r.Root, p.ids, u)
		default:
			p.holds(g.hold(r.Root, rec, p.ids, u), u)
		}
		r.Root.Close()
		if err != nil {
			g.close()
			return nil, errors.Join(fmt.Errorf("sandbox: reach the files: %w: %w", fault.Failed, err), p.end(context.WithoutCancel(ctx), dir))
		}
	}
	return g, nil
}

// endTimeout bounds what is done to end a guest.
const endTimeout = keep.EndTimeout

// endGuest ends the guest of the workspace in dir, if it has one, and whatever
// ran in it.
func (p *Provider) endGuest(ctx context.Context, dir string) error {
	return keep.EndIn(ctx, dir, hooks)
}

// end is endGuest while the lock of the guest is held.
func (p *Provider) end(ctx context.Context, dir string) error { return keep.End(ctx, dir, hooks) }

// hooks are about the control groups of a guest: what is frozen can't die, and
// what is empty goes.
var hooks = &keep.Hooks{
	Before: func(ctx context.Context, r *keep.Record) {
		if dir, ok := cgroup.FreezerOf(r.Groups); ok {
			cgroup.SetFrozen(ctx, dir, false) //nolint:errcheck // then it is killed, and that tells
		}
	},
	After: func(r *keep.Record) error {
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
