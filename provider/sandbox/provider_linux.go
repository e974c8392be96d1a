package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/egress/proxies"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/guestbin"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// Provider opens workspaces behind a fence of the kernel.
type Provider struct {
	ground *wsdir.Store
	log    *slog.Logger
	cfg    Config
	ids    ids
	binary func() (*guestbin.Binary, error)
	ways   func() *proxies.Set
	maps   owners
	ctx    context.Context // of what runs for the provider, such as proxies, until Close
	cancel context.CancelFunc
	only   driver.Isolation // in tests: a host that has no other level
	judged func(dir string) // in tests: called between the judgement of a directory and its mount
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that keeps its workspaces below cfg.Root.
func New(cfg *Config) (*Provider, error) {
	c := Config{}
	if cfg != nil {
		c = *cfg
	}
	ground, err := wsdir.New(&wsdir.Config{Kind: Kind, Root: c.Root, Forbidden: c.Forbidden, Roots: c.Roots, Log: c.Log, BootID: c.BootID})
	if err != nil {
		return nil, err
	}
	if c.UIDBase == 0 {
		c.UIDBase = 1 << 30
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.UIDBase < 1<<16 || c.Lease < 0 {
		return nil, fmt.Errorf("sandbox: config: %w: UIDBase %d must be at least 65536, and Lease %v must not be negative",
			fault.InvalidArgument, c.UIDBase, c.Lease)
	}
	if c.Isolation.Rank() < 0 {
		return nil, fmt.Errorf("sandbox: config: isolation %q: %w: the levels are %v", c.Isolation, fault.InvalidArgument, driver.Isolations)
	}
	p := &Provider{ground: ground, log: ground.Log(), cfg: c, ids: hostIDs(c.UIDBase)}
	p.ctx, p.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it ends with Close
	p.ways = sync.OnceValue(p.newOutlets)
	p.binary = sync.OnceValues(func() (*guestbin.Binary, error) { return guestbin.Find(c.Guest) })
	return p, nil
}

// Close ends what the provider runs in this process. Guests live on.
func (p *Provider) Close() error {
	p.cancel()
	p.maps.forget()
	return nil
}

// Kind returns "sandbox".
func (p *Provider) Kind() string { return Kind }

// Probe starts a guest at each level of isolation and tries the fence from
// inside; what it found is remembered for the life of this process.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	unlock, err := p.ground.Lock(ctx)
	if err != nil {
		return driver.Traits{}, p.ground.OpenFailed(ctx, "probe", err)
	}
	unlock()
	level, err := p.choose(ctx, "")
	if err != nil {
		return driver.Traits{}, fmt.Errorf("sandbox: probe: %w", err)
	}
	p.proveLimits(ctx, driver.Limits{driver.ResourceMemory: {Max: 1}, driver.ResourcePIDs: {Max: 1}, driver.ResourceCPU: {Max: 1}})
	return p.traitsOf(level, diskLimit()), nil
}

// Open makes the workspace spec.ID or returns it where it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	opts, l, err := p.check(ctx, spec)
	if err != nil {
		return nil, err
	}
	from, err := p.startFrom(ctx, spec, l, opts)
	if err != nil {
		return nil, err
	}
	if err := p.keepShape(ctx, spec, opts); err != nil {
		return nil, p.ground.OpenFailed(ctx, "open", err)
	}
	own, err := json.Marshal(opts)
	if err != nil {
		return nil, fmt.Errorf("sandbox: open: %w: %w", fault.Internal, err)
	}
	m, err := p.ground.Ensure(ctx, spec, own, func(dir string) error {
		if err := p.build(dir, l); err != nil {
			return err
		}
		if p.limitedDisk(l, spec.Policy) {
			return makeImage(filepath.Join(dir, imageName), spec.Policy.Limits[driver.ResourceDisk].Max, spec.Policy.Durable)
		}
		return p.begin(ctx, from, opts, dir)
	})
	if err != nil {
		return nil, p.ground.OpenFailed(ctx, "open", err)
	}
	return p.attach(ctx, m, p.Capabilities())
}

// Capabilities is what a workspace has.
func (p *Provider) Capabilities() driver.Capabilities {
	caps := capabilities.Clone()
	if p.cfg.Snapshots != nil {
		caps[driver.CapSnapshot] = true
	}
	return caps
}

// check refuses, before anything is made, what the provider can't do, and
// returns what is kept of the configuration.
func (p *Provider) check(ctx context.Context, spec driver.Spec) (*options, *level, error) {
	if err := driver.CheckOpen(spec, Kind); err != nil {
		return nil, nil, err
	}
	opts := new(options)
	if err := driver.DecodeConfig(spec, opts); err != nil {
		return nil, nil, err
	}
	if opts.From != "" || opts.Layers != nil || opts.Sealed != nil {
		return nil, nil, fmt.Errorf("sandbox: open: config: %w: \"from\", \"layers\" and \"sealed\" can't be configured; a snapshot is named in what to start from", fault.InvalidArgument)
	}
	if err := opts.source(spec); err != nil {
		return nil, nil, err
	}
	if opts.Template != "" {
		if _, err := p.ground.CheckHost(opts.Template); err != nil { // the data of Croft is no template, nor is what holds it
			return nil, nil, fmt.Errorf("sandbox: open: template: %w", err)
		}
	}
	if err := errors.Join(checkReal(spec.Dir), checkLeast(spec.Policy.Limits)); err != nil {
		return nil, nil, fmt.Errorf("sandbox: open: %w", err)
	}
	if missing := p.Capabilities().Missing(spec.Want); len(missing) > 0 {
		return nil, nil, fmt.Errorf("sandbox: open: capabilities %v: %w: there are only %v", missing, fault.Failed, p.Capabilities().Names())
	}
	l, err := p.checkPolicy(ctx, spec.Policy)
	if err == nil {
		err = opts.checkAt(spec, l)
	}
	if err == nil {
		err = p.checkBinds(spec, opts)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox: open: %w", err)
	}
	if p.limitedDisk(l, spec.Policy) && spec.Dir != "" {
		return nil, nil, fmt.Errorf("sandbox: open: limit disk: %w: a directory in place has no quota", fault.Unsupported)
	}
	if m, err := p.ground.Read(spec.ID); err == nil {
		if err := checkDisk(m, spec.Policy); err != nil {
			return nil, nil, fmt.Errorf("sandbox: open: %w", err)
		}
	}
	return opts, l, nil
}

// source judges what the workspace is to start from.
func (o *options) source(spec driver.Spec) error {
	if spec.From.Template != "" {
		if o.Template != "" {
			return fmt.Errorf("sandbox: open: %w: a template is given twice, in the configuration and to start from", fault.InvalidArgument)
		}
		o.Template = spec.From.Template
	}
	if o.Template == "" {
		return nil
	}
	if spec.Dir != "" {
		return fmt.Errorf("sandbox: open: a directory in place with a template: %w", fault.Unsupported)
	}
	if !filepath.IsAbs(o.Template) {
		return fmt.Errorf("sandbox: open: template %q: %w: it must be the absolute path of a directory", o.Template, fault.InvalidArgument)
	}
	info, err := os.Stat(o.Template)
	if err != nil {
		return fmt.Errorf("sandbox: open: template: %w: %w", fault.Of(err), err)
	}
	if !info.IsDir() {
		return fmt.Errorf("sandbox: open: template %q: %w: it is not a directory", o.Template, fault.InvalidArgument)
	}
	o.Template = filepath.Clean(o.Template)
	return nil
}

// checkPlace refuses directories in place that would uncover the system.
func checkPlace(dir string) error {
	if dir == "" || !filepath.IsAbs(dir) { // package plot has its own say
		return nil
	}
	clean := filepath.Clean(dir)
	for _, taken := range append([]string{"/etc", "/proc", "/dev", "/sys", "/run", "/boot"}, systemDirs...) {
		if clean == taken || strings.HasPrefix(clean, taken+"/") {
			return fmt.Errorf("directory %q: %w: %s is the system's", dir, fault.InvalidArgument, taken)
		}
	}
	switch clean {
	case "/", "/tmp", "/var", "/home", "/root", "/var/tmp", home:
		return fmt.Errorf("directory %q: %w: it holds more than a project", dir, fault.InvalidArgument)
	}
	if filepath.Dir(clean) == "/home" {
		return fmt.Errorf("directory %q: %w: it is somebody's home, with what starts at each login, and keys", dir, fault.InvalidArgument)
	}
	return nil
}

// checkReal is checkPlace for a directory and for where its symlinks lead.
func checkReal(dir string) error {
	if err := checkPlace(dir); err != nil || dir == "" {
		return err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || real == filepath.Clean(dir) {
		return nil // package plot has its own say
	}
	return checkLed(dir, real)
}

// checkLed is checkPlace for where the symlinks of a directory lead.
func checkLed(dir, real string) error {
	if err := checkPlace(real); err != nil {
		return fmt.Errorf("directory %q: a symlink leads to %w", dir, err)
	}
	return nil
}

// checkLeast refuses limits that nothing can run under.
func checkLeast(l driver.Limits) error {
	for _, x := range []struct {
		name  driver.Resource
		least int64
		text  string
	}{
		{driver.ResourceCPU, 10, "0.01 cores"},
		{driver.ResourceMemory, 1 << 20, "1 MiB"},
		{driver.ResourceDisk, leastDisk, "1 MiB"},
		{driver.ResourceOpenFiles, 8, "8"},
	} {
		if most := l[x.name].Max; most > 0 && most < x.least {
			return fmt.Errorf("limit %s: %w: the least is %s", x.name, fault.InvalidArgument, x.text)
		}
	}
	return nil
}

// checkPolicy chooses the level that a policy will run at.
func (p *Provider) checkPolicy(ctx context.Context, policy driver.Policy) (*level, error) {
	l, err := p.choose(ctx, policy.Isolation)
	if err != nil {
		return nil, err
	}
	if err := checkNetwork(policy.Network); err != nil {
		return nil, err
	}
	p.proveLimits(ctx, policy.Limits)
	return l, policy.Check(p.traitsOf(l, diskFor(policy, true)))
}

// Names in the directory of a workspace, besides those of package plot.
const (
	logName   = "log"
	tmpName   = "tmp"   // temporary files, where the fence has no mounts
	layerName = "layer" // with a template: what was changed (upper), and room for the kernel (work)
)

// build adds to the directory of a new workspace, whose guest is to run at a level.
func (p *Provider) build(dir string, l *level) error {
	logs := filepath.Join(dir, logName)
	if err := os.Mkdir(logs, 0o700); err != nil {
		return err
	}
	if owner := p.logOwner(l); owner != 0 {
		if err := os.Chown(logs, owner, owner); err != nil {
			return err
		}
	}
	return nil
}

// logOwner is whom the logs belong to at a level; 0 is whoever this process is.
func (p *Provider) logOwner(l *level) int {
	if p.ids.root && l.mapped {
		return p.ids.base
	}
	return 0
}

// giveLogs makes the logs belong to whom the guest is outside, at a level.
func (p *Provider) giveLogs(l *level, logs string) error {
	if !p.ids.root {
		return nil
	}
	owner := p.logOwner(l)
	info, err := os.Stat(logs)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == owner {
		return nil
	}
	entries, err := os.ReadDir(logs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Lchown(filepath.Join(logs, e.Name()), owner, owner); err != nil {
			return err
		}
	}
	return os.Chown(logs, owner, owner)
}

// give makes a directory belong to a user inside.
func (p *Provider) give(dir string, uid int) error {
	if !p.ids.root {
		return nil // the guest is this user
	}
	return os.Chown(dir, p.ids.base+uid, p.ids.base+uid)
}

// freshLayer makes the directories of an overlay. What the kernel left in its
// own, after an end that was not clean, is of no use to it.
func (p *Provider) freshLayer(layer string) error {
	work := filepath.Join(layer, "work")
	if err := files.RemoveTree(work); err != nil {
		return err
	}
	for _, d := range []struct {
		path string
		uid  int
	}{{layer, 0}, {work, 0}, {filepath.Join(layer, "upper"), workloadUID}} {
		if os.Mkdir(d.path, 0o755) != nil { // it may be there
			if err := os.MkdirAll(d.path, 0o755); err != nil {
				return err
			}
		}
		if err := p.give(d.path, d.uid); err != nil {
			return err
		}
	}
	return nil
}

// payload is all that a ref holds.
type payload struct {
	ID string `json:"id"`
}

// Resolve attaches to the workspace that ref names.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl payload
	m, err := p.ground.Resolve(ctx, ref, &pl, &pl.ID, capabilities, p.cfg.Snapshots != nil)
	if err != nil {
		return nil, err
	}
	return p.attach(ctx, m, ref.Capabilities)
}

// attach builds the live workspace: Open and Resolve both end here.
func (p *Provider) attach(ctx context.Context, m *wsdir.State, caps driver.Capabilities) (*driver.Workspace, error) {
	l, err := p.checkPolicy(ctx, m.Policy)
	if err != nil {
		return nil, p.ground.OpenFailed(ctx, "attach", err)
	}
	if m, err = p.recover(ctx, m); err != nil {
		return nil, p.ground.OpenFailed(ctx, "attach", err)
	}
	h := &handle{p: p, id: m.ID}
	if err := driver.DecodeStrict(m.Own, &h.opts); err != nil {
		return nil, fmt.Errorf("sandbox: attach: the state of the workspace is not valid: %w", fault.Failed)
	}
	if h.plot, err = p.ground.Attach(ctx, m, wsdir.OpenDirectory); err != nil {
		return nil, err
	}
	h.caps = caps
	h.att = supervise.NewAttachment(h.plot, p.ground.Dir(m.ID), h.connect)
	h.handed = m.Dir != "" && !l.plain || p.limitedDisk(l, m.Policy)
	h.plot.Via = h.via
	h.stages = p.stages(l, m)
	ref, err := newRef(m, caps)
	if err != nil {
		return nil, errors.Join(err, h.plot.Close())
	}
	life := driver.Life{Close: h.close, Destroy: h.destroy, Update: h.update}
	if life.NoPause = h.noPause(l); life.NoPause == "" {
		life.Pause, life.Resume = h.pause, h.resume
	}
	if caps.Has(driver.CapSnapshot) {
		life.Snapshot = h.keeper(l, m).Module()
		life.Snapshot.NoCheckpoint = l.noCheckpoint()
	}
	files := h.plot.FS()
	if h.stages {
		files.Import, files.Protect = h.importDir(files.Import), h.protect
	}
	if h.opts.Template != "" {
		files.ChangedPaths = h.touched
	}
	return &driver.Workspace{
		Ref:    ref,
		Traits: p.traits(l, m, h.opts),
		Life:   life,
		FS:     files,
		Shell:  supervise.Shell(h.shell),
	}, nil
}

func newRef(m *wsdir.State, caps driver.Capabilities) (driver.Ref, error) {
	return driver.NewRef(Kind, payload{ID: m.ID}, caps.Clone(), m.Revision)
}

func (p *Provider) traits(l *level, m *wsdir.State, opts options) driver.Traits {
	t := p.traitsOf(l, diskFor(m.Policy, opts.Throwaway))
	t.Root = workspaceAt(m.Dir, &opts)
	t.InPlace = len(opts.lower()) == 0
	if l.plain {
		t.Root = p.ground.Files(m)
	}
	t.Damaged = p.ground.Damaged(m)
	return t
}

// HasWorkspaces reports whether there is a directory of a workspace.
func (p *Provider) HasWorkspaces(context.Context) (bool, error) { return p.ground.HasWorkspaces() }

// Sweep ends the guests of workspaces that are not in live, and removes their
// directories and what a crash left. What belongs to providers of other kinds
// stays.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return errors.Join(p.ground.Sweep(ctx, live, p.endGuest), cleanProbes(), cgroup.RemoveStale(time.Now()), p.sweepLayers(ctx))
}
