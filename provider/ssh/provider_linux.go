package ssh

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/internal/host/guest/remote"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/keylock"
	"github.com/croft-run/croft/workspace/driver"
)

// Provider opens workspaces on other machines.
type Provider struct {
	store    *wsdir.Store
	log      *slog.Logger
	cfg      Config
	remote   *remote.Provider
	locating keylock.Locks[machine] // while a machine is asked for its directory, or gets the guest

	mu         sync.Mutex
	programs   map[string]*program      // by architecture
	located    map[machine]machine      // by host and configured directory
	installed  map[machine]bool         // machines with the guest's program
	connecting map[string]chan struct{} // semaphores, by host
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that keeps the state of its workspaces below cfg.Root. It does not
// connect yet.
func New(cfg *Config) (*Provider, error) {
	c := Config{}
	if cfg != nil {
		c = *cfg
	}
	store, err := wsdir.New(&wsdir.Config{Kind: Kind, Root: c.Root, Log: c.Log})
	if err != nil {
		return nil, err
	}
	for field, otherwise := range map[*time.Duration]time.Duration{&c.Lease: DefaultLease, &c.Timeout: DefaultTimeout} {
		if *field == 0 {
			*field = otherwise
		}
		if *field < 0 {
			return nil, fmt.Errorf("ssh: config: %w: times must not be negative", fault.InvalidArgument)
		}
	}
	if c.Dir == "" {
		c.Dir = DefaultDir
	}
	// Paths can't be checked: the files are not on this host.
	rules := cmdpolicy.Local()
	rules.Paths = cmdpolicy.Paths{}
	commands, err := cmdpolicy.New(rules)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		store: store, log: store.Log(), cfg: c, programs: map[string]*program{}, located: map[machine]machine{},
		installed: map[machine]bool{}, connecting: map[string]chan struct{}{},
	}
	p.remote = &remote.Provider{
		Store: store, Kind: Kind, Lease: c.Lease, Snapshots: c.Snapshots, Traits: machineTraits(), Commands: commands, Find: p.findMachine,
	}
	return p, nil
}

// Kind returns "ssh".
func (p *Provider) Kind() string { return Kind }

// Probe checks that there is a program ssh and, if the provider has a host of its own, that
// it can be reached and runs the guest.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	if _, err := exec.LookPath("ssh"); err != nil {
		return driver.Traits{}, fmt.Errorf("ssh: probe: %w: the program ssh is not on PATH", fault.Unsupported)
	}
	if p.cfg.Host == "" {
		return machineTraits(), nil
	}
	opts := &Options{Host: p.cfg.Host, Dir: p.cfg.Dir}
	err := opts.check()
	if err == nil {
		var m machine
		if m, err = p.locate(ctx, opts); err == nil {
			err = p.install(ctx, m)
		}
	}
	if err != nil {
		return driver.Traits{}, fmt.Errorf("ssh: probe: %w", err)
	}
	return machineTraits(), nil
}

// machineTraits returns the traits of every workspace.
func machineTraits() driver.Traits {
	open := driver.Enforcement{Reason: "commands run as the user of the login; the command policy checks only how they are called"}
	t := driver.Traits{
		Isolation: driver.IsolationNone, IsolatedBy: open, Network: driver.NetworkOpen, NetworkBy: open,
		Limits:     driver.NoLimits(open.Reason),
		ReadOnly:   driver.Enforcement{By: "checks before each change, and no command is run"},
		Durability: driver.DurableProcess, // a power loss of the machine is not known here
		Streaming:  true,
	}
	t.Limits[driver.ResourceDisk] = driver.Enforcement{Reason: "a plain directory has no quota"}
	t.Limits[driver.ResourceWall] = driver.Enforcement{By: "the guest, which kills the whole process tree"}
	t.Limits[driver.ResourceOpenFiles] = driver.Enforcement{By: "a hard resource limit of each process"}
	return t
}

// Close does nothing: the provider runs nothing of its own in this process.
func (p *Provider) Close() error { return nil }

// Features returns what the provider has besides its workspaces.
func (p *Provider) Features() driver.Features {
	return driver.Features{Capabilities: p.remote.Capabilities(), OnlyNamed: true, HasWorkspaces: p.store.HasWorkspaces}
}

// Open creates the workspace spec.ID or returns it if it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	opts, err := p.checkSpec(spec)
	if err != nil {
		return nil, err
	}
	from, err := p.remote.FindOrigin(ctx, spec)
	if err != nil {
		return nil, err
	}
	m, err := p.ensure(ctx, spec, opts)
	if err != nil {
		return nil, p.store.OpenFailed(ctx, "open", err)
	}
	ws, err := p.remote.Attach(ctx, m, from)
	return ws.Only(spec.Want), err
}

// checkSpec refuses a spec that the provider can't fulfil, before anything is created. It
// returns the options to record.
func (p *Provider) checkSpec(spec driver.Spec) (*Options, error) {
	if err := driver.CheckOpen(spec, Kind, p.remote.Capabilities()); err != nil {
		return nil, err
	}
	opts := new(Options)
	if err := driver.DecodeConfig(spec, opts); err != nil {
		return nil, err
	}
	if opts.From != "" {
		return nil, fmt.Errorf("ssh: open: config: %w: \"from\" can't be configured; name the snapshot in Spec.From", fault.InvalidArgument)
	}
	if opts.Host == "" {
		opts.Host = p.cfg.Host
	}
	if opts.Dir == "" {
		opts.Dir = p.cfg.Dir
	}
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("ssh: open: config: %w", err)
	}
	opts.From = spec.From.Snapshot
	return opts, p.remote.CheckSpec(spec)
}

// ensure creates the directory of the workspace on this host, with its location, or updates
// an existing one.
func (p *Provider) ensure(ctx context.Context, spec driver.Spec, opts *Options) (*wsdir.State, error) {
	own, err := json.Marshal(opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.Internal, err)
	}
	var at machine
	if _, err := p.store.Read(spec.ID); err != nil {
		if at, err = p.locate(ctx, opts); err != nil {
			return nil, err
		}
	}
	return p.remote.Ensure(ctx, spec, own, func(dir string) error {
		if at.Host == "" {
			return fmt.Errorf("the workspace was removed meanwhile: %w", fault.Unavailable)
		}
		return (&location{machine: at, ID: spec.ID}).write(dir)
	})
}

// findMachine returns the machine of the workspace whose directory on this host is dir.
func (p *Provider) findMachine(dir string) (remote.Machine, error) {
	l, err := readLocation(dir)
	if err != nil {
		return nil, err
	}
	return &place{p, l}, nil
}

// Resolve attaches to the workspace that ref names, if the machine answers.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.remote.Resolve(ctx, ref)
}

// Sweep removes workspaces that are not in live, here and on their machines, and leftovers of
// crashes.
func (p *Provider) Sweep(ctx context.Context, live []string) error { return p.remote.Sweep(ctx, live) }
