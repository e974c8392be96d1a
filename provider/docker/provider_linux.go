package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/egress/proxies"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/guest/supervise"
	"github.com/croft-run/croft/host/guestbin"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// Provider opens workspaces in containers.
type Provider struct {
	ground  *wsdir.Store
	log     *slog.Logger
	cfg     Config
	engine  Engine
	binary  func() (*guestbin.Binary, error)
	outlets *proxies.Set
	hooks   *supervise.Hooks // of the end of a guest: its container goes
	ctx     context.Context  // of what runs for the provider, such as proxies, until Close
	cancel  context.CancelFunc

	turn  chan struct{}    // held by who uses the fields below; waiting ends with the context
	info  *Info            // what the engine said, once it did
	facts map[string]*fact // what was proven of it, by runtime
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that keeps its workspaces below cfg.Root. It does not
// speak to the engine yet.
func New(cfg *Config) (*Provider, error) {
	c := Config{}
	if cfg != nil {
		c = *cfg
	}
	ground, err := wsdir.New(&wsdir.Config{Kind: Kind, Root: c.Root, Log: c.Log, BootID: c.BootID})
	if err != nil {
		return nil, err
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	p := &Provider{ground: ground, log: ground.Log(), cfg: c, engine: c.Engine, turn: make(chan struct{}, 1), facts: map[string]*fact{}}
	if p.engine == nil {
		if p.engine, err = Connect(c.Host); err != nil {
			return nil, err
		}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it ends with Close
	p.outlets = proxies.New(p.ctx, egress.Options{
		Secrets: c.Secrets, Credentials: c.Credentials, Events: c.Events, Resolver: c.Resolver, RootCAs: c.RootCAs,
	}, p.log)
	p.hooks = &supervise.Hooks{After: p.endContainer}
	p.binary = sync.OnceValues(func() (*guestbin.Binary, error) { return guestbin.Find(c.Guest) })
	return p, nil
}

// complete fills in the defaults.
func (c *Config) complete() error {
	root, err := filepath.Abs(c.Root)
	if err != nil {
		return fmt.Errorf("docker: config: root %q: %w: %w", c.Root, fault.InvalidArgument, err)
	}
	c.Root = root
	if c.Cache == "" {
		c.Cache = filepath.Join(root, ".docker")
	}
	if c.Cache, err = filepath.Abs(c.Cache); err != nil {
		return fmt.Errorf("docker: config: cache %q: %w: %w", c.Cache, fault.InvalidArgument, err)
	}
	if c.UIDBase == 0 {
		c.UIDBase = 1 << 30
	}
	if c.Image == "" {
		c.Image = DefaultImage
	}
	for field, otherwise := range map[*time.Duration]time.Duration{
		&c.Lease: DefaultLease, &c.PullTimeout: DefaultPullTimeout, &c.AnswerTimeout: DefaultAnswerTimeout,
	} {
		if *field == 0 {
			*field = otherwise
		}
		if *field < 0 {
			return fmt.Errorf("docker: config: %w: times must not be negative", fault.InvalidArgument)
		}
	}
	if c.UIDBase < 1<<16 {
		return fmt.Errorf("docker: config: %w: UIDBase %d must be at least 65536", fault.InvalidArgument, c.UIDBase)
	}
	return nil
}

// Close ends what the provider runs in this process. Containers live on.
func (p *Provider) Close() error {
	p.cancel()
	return p.engine.Close()
}

// Kind returns "docker".
func (p *Provider) Kind() string { return Kind }

// Probe starts a container and tries the fence from inside. What it found of an
// engine is remembered beside the workspaces.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	unlock, err := p.ground.Lock(ctx)
	if err != nil {
		return driver.Traits{}, p.ground.OpenFailed(ctx, "probe", err)
	}
	unlock()
	if err := p.answers(ctx); err != nil {
		return driver.Traits{}, fmt.Errorf("docker: probe: %w", err)
	}
	volume, err := p.onVolume(ctx, "", p.cfg.Runtime)
	var f *fact
	if err == nil {
		f, err = p.prove(ctx, p.cfg.Runtime, volume)
	}
	if err != nil {
		return driver.Traits{}, fmt.Errorf("docker: probe: %w", err)
	}
	return p.traitsOf(f), nil
}

// answers asks the engine whether it is there.
func (p *Provider) answers(ctx context.Context) error {
	const patience = 30 * time.Second // on a machine under load
	soon, cancel := context.WithTimeout(ctx, min(patience, p.cfg.AnswerTimeout))
	defer cancel()
	return p.hung(ctx, p.engine.Ping(soon))
}

// hung makes the error of a call to the engine that took too long one of the
// engine, and not of the caller, who has not given up.
func (p *Provider) hung(ctx context.Context, err error) error {
	if ctx.Err() == nil && fault.Of(err) == fault.DeadlineExceeded {
		return fmt.Errorf("docker: %w: the engine does not answer in time", fault.Unavailable)
	}
	return err
}

// Open makes the workspace spec.ID or returns it where it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	opts, f, err := p.check(ctx, spec)
	if err != nil {
		return nil, err
	}
	from, err := p.origin(ctx, spec)
	if err != nil {
		return nil, err
	}
	own, err := json.Marshal(opts)
	if err != nil {
		return nil, fmt.Errorf("docker: open: %w: %w", fault.Internal, err)
	}
	if err := p.obtain(ctx, spec.ID, opts.Image); err != nil {
		return nil, p.ground.OpenFailed(ctx, "open", err)
	}
	m, err := p.ground.Ensure(ctx, spec, own, func(dir string) error { return p.build(ctx, dir, spec.ID, f, from, spec.Policy.Durable) })
	if err != nil {
		return nil, p.ground.OpenFailed(ctx, "open", err)
	}
	return p.attach(ctx, m, p.Capabilities())
}

// obtain makes sure that the engine has the image of a new workspace: Open fails
// where it can't be had, not the first command.
func (p *Provider) obtain(ctx context.Context, id, image string) error {
	if _, err := p.ground.Read(id); err == nil {
		return nil
	}
	_, err := p.ensureImage(ctx, image)
	return err
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
func (p *Provider) check(ctx context.Context, spec driver.Spec) (*options, *fact, error) {
	if err := driver.CheckOpen(spec, Kind); err != nil {
		return nil, nil, err
	}
	opts := new(options)
	if err := driver.DecodeConfig(spec, opts); err != nil {
		return nil, nil, err
	}
	switch {
	case opts.From != "":
		return nil, nil, fmt.Errorf("docker: open: config: %w: \"from\" can't be configured; a snapshot is named in what to start from", fault.InvalidArgument)
	case spec.Dir != "":
		return nil, nil, fmt.Errorf("docker: open: a directory in place: %w: a container has files of its own, which another user owns", fault.Unsupported)
	case spec.From.Template != "":
		return nil, nil, fmt.Errorf("docker: open: template %q: %w: it is not a snapshot", spec.From.Template, fault.Unsupported)
	}
	if opts.Image == "" {
		opts.Image = p.cfg.Image
	}
	if err := checkImageName(opts.Image); err != nil {
		return nil, nil, fmt.Errorf("docker: open: %w", err)
	}
	opts.From = spec.From.Snapshot
	if missing := p.Capabilities().Missing(spec.Want); len(missing) > 0 {
		return nil, nil, fmt.Errorf("docker: open: capabilities %v: %w: there are only %v", missing, fault.Failed, p.Capabilities().Names())
	}
	runtime, err := p.runtime(ctx, spec.Policy, *opts)
	var volume bool
	if err == nil {
		volume, err = p.onVolume(ctx, opts.Files, runtime)
	}
	opts.Files = ""
	if volume {
		opts.Files = FilesVolume
	}
	var f *fact
	if err == nil {
		f, err = p.checkPolicy(ctx, spec.Policy, *opts)
	}
	if err != nil {
		return nil, nil, p.ground.OpenFailed(ctx, "open", err)
	}
	return opts, f, nil
}

// checkPolicy finds what runs a workspace under a policy, and refuses what that
// does not give.
func (p *Provider) checkPolicy(ctx context.Context, policy driver.Policy, opts options) (*fact, error) {
	if policy.Isolation.Rank() < 0 {
		return nil, fmt.Errorf("isolation %q: %w: the levels are %v", policy.Isolation, fault.InvalidArgument, driver.Isolations)
	}
	if policy.Network.Open {
		return nil, fmt.Errorf("open network: %w: name the hosts that may be reached", fault.Unsupported)
	}
	runtime, err := p.runtime(ctx, policy, opts)
	if err != nil {
		return nil, err
	}
	f, err := p.prove(ctx, runtime, opts.Files == FilesVolume)
	if err != nil {
		return nil, err
	}
	return f, policy.Check(p.traitsOf(f))
}

// Names in the directory of a workspace, besides those of package plot.
const (
	boxName       = "box"           // what the guest has of the host: see package guest
	stageName     = "stage"         // where a rollback makes ready what is new
	rootsName     = "roots"         // what programs inside trust
	authorityName = "authority.pem" // keys of the workspace's authorities
)

// build adds to the directory of a new workspace.
func (p *Provider) build(ctx context.Context, dir, id string, f *fact, from *origin, durable bool) error {
	if f.Volume {
		return p.makeVolume(ctx, id, f, from, durable)
	}
	if err := from.fill(ctx, filepath.Join(dir, wsdir.FilesName), f, durable); err != nil {
		return err
	}
	return f.give(filepath.Join(dir, wsdir.FilesName))
}

// payload is all that a ref holds: what the container is rebuilt from is that, and
// what lies beside the files. No identity of a container is in it.
type payload struct {
	ID      string `json:"id"`
	Image   string `json:"image"`
	Runtime string `json:"runtime,omitempty"`
	Files   string `json:"files,omitempty"` // where they are, as in options
}

// Resolve attaches to the workspace that ref names, if the engine answers.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl payload
	m, err := p.ground.Resolve(ctx, ref, &pl, &pl.ID, capabilities, p.cfg.Snapshots != nil)
	if err != nil {
		return nil, err
	}
	opts, err := optionsOf(m)
	switch {
	case err != nil:
		return nil, fmt.Errorf("docker: resolve: %w", err)
	case opts.Image != pl.Image || opts.Runtime != pl.Runtime || opts.Files != pl.Files:
		return nil, fmt.Errorf("docker: resolve: the ref and the workspace name different images, runtimes or places of files: %w", fault.Failed)
	}
	return p.attach(ctx, m, ref.Capabilities)
}

// attach builds the live workspace: Open and Resolve both end here. The engine
// must answer; the container is made when it is first needed.
func (p *Provider) attach(ctx context.Context, m *wsdir.State, caps driver.Capabilities) (*driver.Workspace, error) {
	opts, err := optionsOf(m)
	if err != nil {
		return nil, fmt.Errorf("docker: attach: %w", err)
	}
	h := &handle{p: p, id: m.ID, caps: caps, opts: opts}
	if err := p.answers(ctx); err != nil {
		return nil, p.ground.OpenFailed(ctx, "attach", err)
	}
	f, err := p.checkPolicy(ctx, m.Policy, h.opts)
	if err != nil {
		return nil, p.ground.OpenFailed(ctx, "attach", err)
	}
	h.fact = f
	if h.onVolume() {
		err = p.haveVolume(ctx, m.ID)
	} else {
		err = p.recover(ctx, m)
	}
	if err != nil {
		return nil, p.ground.OpenFailed(ctx, "attach", err)
	}
	if h.plot, err = p.ground.Attach(ctx, m, f.fence); err != nil {
		return nil, err
	}
	h.plot.Via = h.files
	h.att = supervise.NewAttachment(h.plot, p.ground.Dir(m.ID), h.connect)
	ref, err := newRef(m, h.opts, caps)
	if err != nil {
		return nil, errors.Join(err, h.plot.Close())
	}
	life := driver.Life{Close: h.close, Destroy: h.destroy, Update: h.update, Pause: h.pause, Resume: h.resume}
	if caps.Has(driver.CapSnapshot) {
		life.Snapshot = h.keeper(m).Module()
	}
	t := p.traitsOf(f)
	t.Root = inside
	if !h.onVolume() { // the host whose power counts is another
		t.Damaged = p.ground.Damaged(m)
	}
	return &driver.Workspace{Ref: ref, Traits: t, Life: life, FS: h.plot.FS(), Shell: supervise.Shell(h.shell)}, nil
}

// optionsOf returns what the workspace was opened with.
func optionsOf(m *wsdir.State) (opts options, err error) {
	if driver.DecodeStrict(m.Own, &opts) != nil {
		err = fmt.Errorf("what the state of the workspace holds of the provider is not valid: %w", fault.Failed)
	}
	return opts, err
}

func newRef(m *wsdir.State, opts options, caps driver.Capabilities) (driver.Ref, error) {
	return driver.NewRef(Kind, payload{ID: m.ID, Image: opts.Image, Runtime: opts.Runtime, Files: opts.Files}, caps.Clone(), m.Revision)
}

// HasWorkspaces reports whether there is a directory of a workspace.
func (p *Provider) HasWorkspaces(context.Context) (bool, error) { return p.ground.HasWorkspaces() }

// Sweep removes containers and directories of workspaces that are not in live,
// and what a crash left. What belongs to other data directories, and to providers
// of other kinds, stays.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	// What probes left may hold a volume that is to go.
	return errors.Join(p.cleanProbes(), p.ground.Sweep(ctx, live, p.destroyIn), p.sweepEngine(ctx, live))
}

// cachePath names a file of what workspaces share, and makes its directory.
func (p *Provider) cachePath(name string) (string, error) {
	if err := os.MkdirAll(p.cfg.Cache, 0o700); err != nil {
		return "", fmt.Errorf("docker: %w: %w", fault.Of(err), err)
	}
	return filepath.Join(p.cfg.Cache, name), nil
}
