package e2b

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/internal/host/guest/remote"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// guestArch is the architecture of sandboxes; systems are the outputs of uname -sm.
const guestArch = runtime.GOARCH

var systems = map[string]string{"Linux x86_64": "amd64", "Linux aarch64": "arm64"}

// requestTimeout is the default of Config.Timeout.
const requestTimeout = 2 * time.Minute

// Provider opens workspaces in sandboxes of a server with E2B's API.
type Provider struct {
	store        *wsdir.Store
	log          *slog.Logger
	cfg          Config
	transport    http.RoundTripper
	commands     *cmdpolicy.Checker
	guestProgram func() (*guestFile, error)
	ctx          context.Context // ends with Close
	cancel       context.CancelFunc
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that keeps the state of its workspaces below cfg.Root. It does not
// call the server yet.
func New(cfg *Config) (*Provider, error) {
	c := Config{}
	if cfg != nil {
		c = *cfg
	}
	store, err := wsdir.New(&wsdir.Config{Kind: Kind, Root: c.Root, Log: c.Log})
	if err != nil {
		return nil, err
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Timeout == 0 {
		c.Timeout = requestTimeout
	}
	if c.Lease < 0 || c.Timeout < 0 {
		return nil, fmt.Errorf("e2b: config: %w: times must not be negative", fault.InvalidArgument)
	}
	commands, err := cmdpolicy.New(cmdpolicy.Sandbox())
	if err != nil {
		return nil, err
	}
	p := &Provider{store: store, log: store.Log(), cfg: c, transport: c.Transport, commands: commands}
	if p.transport == nil {
		p.transport = http.DefaultTransport
	}
	p.guestProgram = sync.OnceValues(func() (*guestFile, error) { return openGuest(c.Guest) })
	p.ctx, p.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it ends with Close
	return p, nil
}

// Close ends what the provider runs in this process. Sandboxes live on.
func (p *Provider) Close() error {
	p.cancel()
	return nil
}

// Kind returns "e2b".
func (p *Provider) Kind() string { return Kind }

// Probe returns the traits of workspaces with the options of the provider itself.
func (p *Provider) Probe(context.Context) (driver.Traits, error) {
	opts := Options{}.withDefaults(p.cfg.Options)
	if err := opts.check(); err != nil {
		return driver.Traits{}, fmt.Errorf("e2b: probe: %w", err)
	}
	return sandboxTraits(&opts), nil
}

// sandboxTraits returns the traits of workspaces with the options.
func sandboxTraits(opts *Options) driver.Traits {
	unknown := driver.Enforcement{Reason: "the server decides that, and it can't be verified from here"}
	t := driver.Traits{
		Isolation: driver.IsolationNone, IsolatedBy: unknown, Network: driver.NetworkOpen, NetworkBy: unknown, Limits: driver.NoLimits(unknown.Reason),
		ReadOnly:   driver.Enforcement{By: "checks before each change, and no command is run"},
		Durability: driver.DurableProcess,
		Streaming:  true,
	}
	if opts.Isolation != "" && opts.Isolation != driver.IsolationNone {
		t.Isolation, t.IsolatedBy = opts.Isolation, driver.Enforcement{By: "the server at " + opts.Server + ", as the configuration says; it is not verified"}
	}
	t.Limits[driver.ResourceWall] = driver.Enforcement{By: "the guest, which kills the whole process tree"}
	t.Limits[driver.ResourceOpenFiles] = driver.Enforcement{By: "a hard resource limit of each process"}
	return t
}

// remote returns what package remote needs for workspaces with the options.
func (p *Provider) remote(opts *Options) *remote.Provider {
	return &remote.Provider{
		Store: p.store, Kind: Kind, Lease: p.cfg.Lease, Snapshots: p.cfg.Snapshots, Traits: sandboxTraits(opts), Commands: p.commands, Find: p.findSandbox,
	}
}

// Features returns what the provider has besides its workspaces.
func (p *Provider) Features() driver.Features {
	return driver.Features{Capabilities: p.remote(new(Options)).Capabilities(), OnlyNamed: true, HasWorkspaces: p.store.HasWorkspaces}
}

// Open creates the workspace spec.ID or returns it if it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	opts, err := p.checkSpec(spec)
	if err != nil {
		return nil, err
	}
	r := p.remote(opts)
	from, err := r.FindOrigin(ctx, spec)
	if err != nil {
		return nil, err
	}
	// Without the key nothing can be created, nor what was recorded be removed.
	if _, err := p.apiKey(ctx, spec.ID, opts.Key); err != nil {
		return nil, fmt.Errorf("e2b: open: %w", err)
	}
	own, err := json.Marshal(opts)
	if err != nil {
		return nil, fmt.Errorf("e2b: open: %w: %w", fault.Internal, err)
	}
	m, err := r.Ensure(ctx, spec, own, func(dir string) error {
		l := &location{Server: opts.Server, Sandboxes: opts.Sandboxes, Key: opts.Key, Template: opts.Template, Timeout: opts.Timeout, Internet: spec.Policy.Network.Open, ID: spec.ID, DataDir: rootName(p.store.Path())}
		return l.write(dir)
	})
	if err != nil {
		return nil, p.store.OpenFailed(ctx, "open", err)
	}
	ws, err := r.Attach(ctx, m, from)
	return ws.Only(spec.Want), err
}

// checkSpec refuses a spec that the provider can't fulfil, before anything is created. It
// returns the options to record.
func (p *Provider) checkSpec(spec driver.Spec) (*Options, error) {
	if err := driver.CheckOpen(spec, Kind, p.remote(new(Options)).Capabilities()); err != nil {
		return nil, err
	}
	opts := new(Options)
	if err := driver.DecodeConfig(spec, opts); err != nil {
		return nil, err
	}
	if opts.From != "" {
		return nil, fmt.Errorf("e2b: open: config: %w: \"from\" can't be configured; name the snapshot in Spec.From", fault.InvalidArgument)
	}
	*opts = opts.withDefaults(p.cfg.Options)
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("e2b: open: config: %w", err)
	}
	opts.From = spec.From.Snapshot
	return opts, p.remote(opts).CheckSpec(spec)
}

// findSandbox returns the sandbox of the workspace whose directory on this host is dir.
func (p *Provider) findSandbox(dir string) (remote.Machine, error) {
	l, err := readLocation(dir)
	if err != nil {
		return nil, err
	}
	return &place{p: p, location: l, server: &server{
		base: l.Server, client: newClient(p.transport), timeout: p.cfg.Timeout,
		key: func(ctx context.Context) (string, error) { return p.apiKey(ctx, l.ID, l.Key) },
	}}, nil
}

// apiKey returns the key of the server for a workspace: the secret of that name.
func (p *Provider) apiKey(ctx context.Context, id, name string) (string, error) {
	if p.cfg.Secrets == nil {
		return "", fmt.Errorf("API key %q: %w: there are no secrets", name, fault.Unsupported)
	}
	v, err := p.cfg.Secrets.Get(ctx, id, name)
	if err != nil {
		return "", fault.WithHint(fmt.Errorf("API key: secret %q: %w", name, err), fault.HintSetting, "secrets")
	}
	return v.Reveal(), nil
}

// Resolve attaches to the workspace that ref names, if the server answers.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	opts := new(Options)
	var pl struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(ref.Payload, &pl) == nil && driver.ValidID(pl.ID) {
		if m, err := p.store.Read(pl.ID); err == nil && json.Unmarshal(m.Own, opts) != nil {
			return nil, fmt.Errorf("e2b: resolve: the options in the state of the workspace are not valid: %w", fault.Failed)
		}
	}
	return p.remote(opts).Resolve(ctx, ref)
}

// Sweep removes workspaces that are not in live, with their sandboxes, and leftovers of
// crashes.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return p.remote(new(Options)).Sweep(ctx, live)
}
