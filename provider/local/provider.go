package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/posix/boundary"
	"github.com/croft-run/croft/posix/plot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "local"

// Config says where a provider keeps its workspaces.
type Config struct {
	// Root is the directory that holds them, made where it does not exist. It
	// may be shared with providers of other kinds. Required.
	Root string

	Log *slog.Logger // nil is silent

	// BootID names the present boot of the host; "" is what the kernel says.
	BootID string
}

// Provider opens workspaces that are directories.
type Provider struct {
	ground *plot.Ground
	log    *slog.Logger
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that keeps its workspaces below cfg.Root.
func New(cfg *Config) (*Provider, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	ground, err := plot.New(&plot.Config{Kind: Kind, Root: cfg.Root, Log: cfg.Log, BootID: cfg.BootID})
	if err != nil {
		return nil, err
	}
	return &Provider{ground: ground, log: ground.Log()}, nil
}

// Kind returns "local".
func (p *Provider) Kind() string { return Kind }

// Probe makes the root, locks it and opens it as a boundary.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	unlock, err := p.ground.Lock(ctx)
	if err != nil {
		return driver.Traits{}, p.ground.OpenFailed(ctx, "probe", err)
	}
	defer unlock()
	root, err := boundary.Open(p.ground.Path(), nil)
	if err != nil {
		return driver.Traits{}, p.ground.OpenFailed(ctx, "probe", err)
	}
	return traits(), root.Close()
}

func traits() driver.Traits {
	none := driver.Enforcement{Reason: "a local workspace is a plain directory, and nothing runs in it"}
	return driver.Traits{
		Isolation:  driver.IsolationNone,
		IsolatedBy: none,
		Network:    driver.NetworkNone,
		NetworkBy:  driver.Enforcement{By: "nothing runs in a local workspace"},
		Limits: driver.LimitTraits{
			CPU: none, Memory: none, PIDs: none, Wall: none, OpenFiles: none,
			Disk: driver.Enforcement{Reason: "a plain directory has no quota"},
		},
		ReadOnly:   driver.Enforcement{By: "the boundary, which carries out no change"},
		Durability: driver.DurablePower,
		InPlace:    true,
	}
}

var capabilities = driver.NewCapabilities(driver.CapFS)

// Open makes the workspace spec.ID or returns it where it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	if err := check(spec); err != nil {
		return nil, err
	}
	m, err := p.ground.Ensure(ctx, spec, nil, nil)
	if err != nil {
		return nil, p.ground.OpenFailed(ctx, "open", err)
	}
	return p.attach(ctx, m)
}

// check refuses, before anything is made, what the provider can't do.
func check(spec driver.Spec) error {
	if spec.Kind != Kind {
		return fmt.Errorf("local: open: kind %q: %w: this provider is %q", spec.Kind, fault.InvalidArgument, Kind)
	}
	if !driver.ValidID(spec.ID) {
		return fmt.Errorf("local: open: id %q: %w: an id is %d of [a-z0-9]", spec.ID, fault.InvalidArgument, driver.IDLength)
	}
	if err := driver.DecodeConfig(spec, new(struct{})); err != nil {
		return err
	}
	if spec.From != (driver.Source{}) {
		return fmt.Errorf("local: open: a template or snapshot to start from: %w", fault.Unsupported)
	}
	if missing := capabilities.Missing(spec.Want); len(missing) > 0 {
		return fmt.Errorf("local: open: capabilities %v: %w: there is only %v", missing, fault.Failed, capabilities.Names())
	}
	if err := spec.Policy.Check(traits()); err != nil {
		return fmt.Errorf("local: open: %w", err)
	}
	return nil
}

// payload is all that a ref holds.
type payload struct {
	ID string `json:"id"`
}

// Resolve attaches to the workspace that ref names.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("local: resolve: %w", err)
	}
	var pl payload
	if err := driver.DecodeRef(ref, Kind, &pl, p.log); err != nil {
		return nil, err
	}
	if !driver.ValidID(pl.ID) || !ref.Capabilities.Equal(capabilities) {
		return nil, fmt.Errorf("local: the payload or the capabilities of the ref are not valid: %w", fault.Failed)
	}
	m, err := p.ground.Read(pl.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, p.ground.Gone()
	}
	if err != nil {
		return nil, p.ground.OpenFailed(ctx, "resolve", err)
	}
	if err := driver.CheckRevision(ref, m.Revision); err != nil {
		return nil, err
	}
	if ref.Revision > m.Revision {
		return nil, fmt.Errorf("local: resolve: the ref is newer than the workspace, which has lost a change of policy: %w", fault.Failed)
	}
	return p.attach(ctx, m)
}

// attach builds the live workspace: Open and Resolve both end here.
func (p *Provider) attach(ctx context.Context, m *plot.Meta) (*driver.Workspace, error) {
	h, err := p.ground.Attach(ctx, m, plot.Directory)
	if err != nil {
		return nil, err
	}
	ref, err := newRef(m)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &driver.Workspace{
		Ref:    ref,
		Traits: p.traits(m),
		Life: driver.Life{
			Close:   func(context.Context) error { return h.Close() },
			Destroy: func(ctx context.Context) error { return destroy(ctx, h) },
			Update:  func(ctx context.Context, policy driver.Policy) (driver.Ref, error) { return update(ctx, h, policy) },
		},
		FS: h.FS(),
	}, nil
}

func newRef(m *plot.Meta) (driver.Ref, error) {
	return driver.NewRef(Kind, payload{ID: m.ID}, capabilities.Clone(), m.Revision)
}

func (p *Provider) traits(m *plot.Meta) driver.Traits {
	t := traits()
	t.Root = p.ground.Files(m)
	if m.Dir != "" {
		t.Root = m.Dir
	}
	t.Damaged = p.ground.Damaged(m)
	return t
}

// update changes the policy.
func update(ctx context.Context, h *plot.Handle, policy driver.Policy) (driver.Ref, error) {
	if err := policy.Check(traits()); err != nil {
		return driver.Ref{}, fmt.Errorf("local: update: %w", err)
	}
	m, err := h.Update(ctx, policy, nil)
	if err != nil {
		return driver.Ref{}, fmt.Errorf("local: update: %w", err)
	}
	return newRef(m)
}

// destroy ends the workspace. A directory in place stays.
func destroy(ctx context.Context, h *plot.Handle) error {
	if err := h.Destroy(ctx, nil); err != nil {
		return fmt.Errorf("local: destroy: %w", err)
	}
	return nil
}

// Sweep removes the directories of workspaces that are not in live, and what a
// crash left. What belongs to providers of other kinds stays.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return p.ground.Sweep(ctx, live, nil)
}
