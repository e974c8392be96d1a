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

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/egress/proxies"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Provider opens workspaces in containers.
type Provider struct {
	store   *wsdir.Store
	log     *slog.Logger
	cfg     Config
	engine  Engine
	binary  func() (*guestbin.Binary, error)
	proxies *proxies.Set
	hooks   *supervise.Hooks // remove the container of a guest that has ended
	ctx     context.Context  // of the proxies; cancelled by Close
	cancel  context.CancelFunc

	sem    chan struct{}           // mutex of the fields below; see lockInfo
	info   *Info                   // the engine's description; nil until it was requested
	proofs map[string]*engineProof // by runtime and location of files
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that keeps its workspaces below cfg.Root. It does not call the
// engine yet.
func New(cfg *Config) (*Provider, error) {
	c := Config{}
	if cfg != nil {
		c = *cfg
	}
	store, err := wsdir.New(&wsdir.Config{Kind: Kind, Root: c.Root, Log: c.Log, BootID: c.BootID})
	if err != nil {
		return nil, err
	}
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	p := &Provider{store: store, log: store.Log(), cfg: c, engine: c.Engine, sem: make(chan struct{}, 1), proofs: map[string]*engineProof{}}
	if p.engine == nil {
		if p.engine, err = Connect(c.Host); err != nil {
			return nil, err
		}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it ends with Close
	p.proxies = proxies.New(p.ctx, egress.Options{
		Secrets: c.Secrets, Credentials: c.Credentials, Events: c.Events, Resolver: c.Resolver, RootCAs: c.RootCAs, Upstream: c.Upstream,
	}, p.log)
	p.hooks = &supervise.Hooks{After: p.endContainer}
	p.binary = sync.OnceValues(func() (*guestbin.Binary, error) { return guestbin.Find(c.Guest) })
	return p, nil
}

// setDefaults fills in the defaults and checks the fields.
func (c *Config) setDefaults() error {
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

// Features returns what the provider has besides its workspaces.
func (p *Provider) Features() driver.Features {
	return driver.Features{Capabilities: p.capabilities(), HasWorkspaces: p.store.HasWorkspaces, HostDir: p.store.HostDir}
}

// Probe starts a container and tests the isolation from inside. The result is cached on disk
// for each engine.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	unlock, err := p.store.Lock(ctx)
	if err != nil {
		return driver.Traits{}, p.store.OpenFailed(ctx, "probe", err)
	}
	unlock()
	if err := p.pingEngine(ctx); err != nil {
		return driver.Traits{}, fmt.Errorf("docker: probe: %w", err)
	}
	volume, err := p.useVolume(ctx, "", p.cfg.Runtime, "")
	var f *engineProof
	if err == nil {
		f, err = p.checkEngine(ctx, p.cfg.Runtime, volume, "")
	}
	if err != nil {
		return driver.Traits{}, fmt.Errorf("docker: probe: %w", err)
	}
	return p.engineTraits(f), nil
}

// pingEngine checks that the engine answers.
func (p *Provider) pingEngine(ctx context.Context) error {
	const timeout = 30 * time.Second // enough on a machine under load
	soon, cancel := context.WithTimeout(ctx, min(timeout, p.cfg.AnswerTimeout))
	defer cancel()
	return p.engineTimeout(ctx, p.engine.Ping(soon))
}

// engineTimeout turns DeadlineExceeded of an engine call into Unavailable, unless the
// caller's own context has ended.
func (p *Provider) engineTimeout(ctx context.Context, err error) error {
	if ctx.Err() == nil && fault.Of(err) == fault.DeadlineExceeded {
		return fmt.Errorf("docker: %w: the engine does not answer in time", fault.Unavailable)
	}
	return err
}

// Open creates the workspace spec.ID or returns it if it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	opts, f, err := p.checkSpec(ctx, spec)
	if err != nil {
		return nil, err
	}
	from, err := p.findOrigin(ctx, spec)
	if err != nil {
		return nil, err
	}
	own, err := json.Marshal(opts)
	if err != nil {
		return nil, fmt.Errorf("docker: open: %w: %w", fault.Internal, err)
	}
	if err := p.ensureNewImage(ctx, spec.ID, opts.Image); err != nil {
		return nil, p.store.OpenFailed(ctx, "open", err)
	}
	m, err := p.store.Ensure(ctx, spec, own, func(dir string) error { return p.initDir(ctx, dir, spec.ID, f, from, spec.Policy.Durable) })
	if err != nil {
		return nil, p.store.OpenFailed(ctx, "open", err)
	}
	ws, err := p.attachWorkspace(ctx, m)
	return ws.Only(spec.Want), err
}

// ensureNewImage ensures that the engine has the image of a new workspace, so that a missing
// image fails Open and not the first command.
func (p *Provider) ensureNewImage(ctx context.Context, id, image string) error {
	if _, err := p.store.Read(id); err == nil {
		return nil
	}
	_, err := p.ensureImage(ctx, image)
	return err
}

// capabilities returns the capabilities of a workspace.
func (p *Provider) capabilities() driver.Capabilities {
	return capabilities.With(driver.CapSnapshot, p.cfg.Snapshots != nil)
}

// checkSpec refuses a spec that the provider can't fulfil, before anything is created. It
// returns the options to record and the engine's proof.
func (p *Provider) checkSpec(ctx context.Context, spec driver.Spec) (*Options, *engineProof, error) {
	if err := driver.CheckOpen(spec, Kind, p.capabilities()); err != nil {
		return nil, nil, err
	}
	opts := new(Options)
	if err := driver.DecodeConfig(spec, opts); err != nil {
		return nil, nil, err
	}
	switch {
	case opts.From != "":
		return nil, nil, fmt.Errorf("docker: open: config: %w: \"from\" can't be configured; name the snapshot in Spec.From", fault.InvalidArgument)
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
	runtime, err := p.chooseRuntime(ctx, spec.Policy, *opts)
	var volume bool
	if err == nil {
		volume, err = p.useVolume(ctx, opts.Files, runtime, opts.Image)
	}
	opts.Files = ""
	if volume {
		opts.Files = FilesVolume
	}
	var f *engineProof
	if err == nil {
		f, err = p.checkPolicy(ctx, spec.Policy, *opts)
	}
	if err != nil {
		return nil, nil, p.store.OpenFailed(ctx, "open", err)
	}
	return opts, f, nil
}

// checkPolicy chooses the runtime for a policy, and checks that it can enforce the policy.
func (p *Provider) checkPolicy(ctx context.Context, policy driver.Policy, opts Options) (*engineProof, error) {
	if policy.Isolation.Rank() < 0 {
		return nil, fmt.Errorf("isolation %q: %w: the levels are %v", policy.Isolation, fault.InvalidArgument, driver.Isolations)
	}
	if policy.Network.Open {
		return nil, fmt.Errorf("open network: %w: name the hosts that may be reached, or allow the host \"*\"", fault.Unsupported)
	}
	runtime, err := p.chooseRuntime(ctx, policy, opts)
	if err != nil {
		return nil, err
	}
	f, err := p.checkEngine(ctx, runtime, opts.Files == FilesVolume, opts.Image)
	if err != nil {
		return nil, err
	}
	return f, policy.Check(p.engineTraits(f))
}

// Names in the directory of a workspace, besides those of package wsdir.
const (
	boxName           = "box"            // what the guest has of the host: see package guest
	freezeName        = "freeze"         // marker: the container is paused for a snapshot
	rollbackStageName = "rollback-stage" // new files of a rollback
	rootsName         = "roots"          // what programs inside trust
	authorityName     = "authority.pem"  // keys of the workspace's authorities
)

// initDir fills the directory, or the volume, of a new workspace.
func (p *Provider) initDir(ctx context.Context, dir, id string, f *engineProof, from snapshot.Tree, durable bool) error {
	if f.Volume {
		return p.createVolume(ctx, id, f, from, durable)
	}
	if from != nil {
		opts := &snapshot.RestoreOptions{Sync: durable, Owner: f.fileOwner(), PlainModes: true}
		if err := snapshot.Extract(ctx, from, filepath.Join(dir, wsdir.FilesName), opts); err != nil {
			return err
		}
	}
	return f.chownPath(filepath.Join(dir, wsdir.FilesName))
}

// refPayload is the content of a ref. It does not name a container: containers are created
// again from the ref and the state.
type refPayload struct {
	ID      string `json:"id"`
	Image   string `json:"image"`
	Runtime string `json:"runtime,omitempty"`
	Files   string `json:"files,omitempty"` // where they are, as in options
}

// Resolve attaches to the workspace that ref names, if the engine answers.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl refPayload
	m, err := p.store.Resolve(ctx, ref, &pl, &pl.ID, p.capabilities())
	if err != nil {
		return nil, err
	}
	opts, err := optionsOf(m)
	switch {
	case err != nil:
		return nil, fmt.Errorf("docker: resolve: %w", err)
	case opts.Image != pl.Image || opts.Runtime != pl.Runtime || opts.Files != pl.Files:
		return nil, fmt.Errorf("docker: resolve: the ref and the workspace differ in image, runtime or location of files: %w", fault.Failed)
	}
	ws, err := p.attachWorkspace(ctx, m)
	return ws.Only(ref.Capabilities), err
}

// attachWorkspace opens an existing workspace, for Open and Resolve. The engine must answer;
// the container is created when it is first needed.
func (p *Provider) attachWorkspace(ctx context.Context, m *wsdir.State) (*driver.Workspace, error) {
	opts, err := optionsOf(m)
	if err != nil {
		return nil, fmt.Errorf("docker: attach: %w", err)
	}
	h := &handle{p: p, id: m.ID, opts: opts}
	if err := p.pingEngine(ctx); err != nil {
		return nil, p.store.OpenFailed(ctx, "attach", err)
	}
	f, err := p.checkPolicy(ctx, m.Policy, h.opts)
	if err != nil {
		return nil, p.store.OpenFailed(ctx, "attach", err)
	}
	h.proof = f
	if h.onVolume() {
		err = p.checkVolume(ctx, m.ID)
	} else {
		err = p.recoverRollback(ctx, m)
	}
	if err != nil {
		return nil, p.store.OpenFailed(ctx, "attach", err)
	}
	if h.dir, err = p.store.Attach(ctx, m, f.openRoot); err != nil {
		return nil, err
	}
	h.dir.Via = h.filesModule
	h.att = supervise.NewAttachment(h.dir, p.store.Dir(m.ID), h.connectGuest)
	ref, err := p.newRef(m, h.opts)
	if err != nil {
		return nil, errors.Join(err, h.dir.Close())
	}
	life := driver.Life{Close: h.close, Destroy: h.destroy, Update: h.update, Pause: h.pause, Resume: h.resume, Metrics: h.metrics}
	if p.cfg.Snapshots != nil {
		life.Snapshot = h.snapshotAdapter(m).Module()
	}
	t := p.engineTraits(f)
	t.Root = guestWorkspaceDir
	if !h.onVolume() { // a power loss of the engine's host is not known here
		t.Damaged = p.store.Damaged(m)
	}
	return &driver.Workspace{Ref: ref, Traits: t, Life: life, FS: h.dir.FS(), Shell: driver.ForwardShell(driver.Ask(h.shell))}, nil
}

// optionsOf returns the options in the state of a workspace.
func optionsOf(m *wsdir.State) (opts Options, err error) {
	if driver.DecodeStrict(m.Own, &opts) != nil {
		err = fmt.Errorf("the options in the state of the workspace are not valid: %w", fault.Failed)
	}
	return opts, err
}

func (p *Provider) newRef(m *wsdir.State, opts Options) (driver.Ref, error) {
	return driver.NewRef(Kind, refPayload{ID: m.ID, Image: opts.Image, Runtime: opts.Runtime, Files: opts.Files}, p.capabilities(), m.Revision)
}

// Sweep removes containers, volumes and directories of workspaces that are not in live, and
// leftovers of crashes. Those of other data directories and of providers of other kinds stay.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	// A leftover container of a probe may use a volume that is to be removed.
	return errors.Join(p.cleanProbes(), p.store.Sweep(ctx, live, p.destroyContainer), p.sweepEngine(ctx, live))
}

// cachePath returns the path of a file in the cache, whose directory it creates.
func (p *Provider) cachePath(name string) (string, error) {
	if err := os.MkdirAll(p.cfg.Cache, 0o700); err != nil {
		return "", fmt.Errorf("docker: %w: %w", fault.Of(err), err)
	}
	return filepath.Join(p.cfg.Cache, name), nil
}
