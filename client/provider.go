package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

const kind = "remote"

// ClientLabel is the label of workspaces that a Provider opened, for Sweep.
const ClientLabel = "croft-client"

// specConfig is Spec.Config of a remote workspace.
type specConfig struct {
	Kind   string          `json:"kind"`   // kind of the workspace on the server
	Config json.RawMessage `json:"config"` // for the server's provider
}

// payload is the payload of a ref.
type payload struct {
	ID string `json:"id"`
}

// Provider opens workspaces on a server.
type Provider struct{ *Client }

var _ driver.Provider = (*Provider)(nil)

// New returns a provider over the server that cfg names.
func New(cfg Config) (*Provider, error) {
	if cfg.Kind == "" {
		cfg.Kind = "sandbox"
	}
	c, err := NewClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Provider{Client: c}, nil
}

// Kind returns "remote".
func (p *Provider) Kind() string { return kind }

// Features has none: the server chooses.
func (p *Provider) Features() driver.Features { return driver.Features{} }

// Close closes the client. What runs on the server goes on.
func (p *Provider) Close() error {
	p.Client.Close()
	return nil
}

// Probe returns the traits that the server has for Config.Kind.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	list, err := p.Providers(ctx)
	if err != nil {
		return driver.Traits{}, err
	}
	var kinds []string
	for _, info := range list {
		kinds = append(kinds, info.Kind)
		if info.Kind != p.cfg.Kind {
			continue
		}
		if info.Error != nil {
			return driver.Traits{}, info.Error.Err()
		}
		if info.Traits != nil {
			return *info.Traits, nil
		}
	}
	return driver.Traits{}, fmt.Errorf("client: server %s has no provider %q: %w: it has %v", p.base, p.cfg.Kind, fault.Unsupported, kinds)
}

// Open opens the workspace on the server, under the same id.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	if !driver.ValidID(spec.ID) {
		return nil, fmt.Errorf("client: open %q: %w: an id is %d of [a-z0-9]", spec.ID, fault.InvalidArgument, driver.IDLength)
	}
	if spec.Kind != kind {
		return nil, fmt.Errorf("client: open a workspace of kind %q: %w: this provider is of kind %q", spec.Kind, fault.InvalidArgument, kind)
	}
	cfg := specConfig{Kind: p.cfg.Kind}
	if err := driver.DecodeConfig(spec, &cfg); err != nil {
		return nil, err
	}
	spec.Kind, spec.Config = cfg.Kind, cfg.Config
	if p.cfg.Client != "" {
		spec.Labels = maps.Clone(spec.Labels)
		if spec.Labels == nil {
			spec.Labels = map[string]string{}
		}
		spec.Labels[ClientLabel] = p.cfg.Client
	}
	ws, err := p.Create(ctx, spec)
	if err != nil {
		return nil, startError("open", spec.ID, err)
	}
	driver.Step(ctx, "client: opened")
	d, err := p.buildWorkspace(ws)
	return d.Only(spec.Want), err
}

// Resolve attaches to the workspace with the id that ref holds.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl payload
	if err := driver.DecodeRef(ref, kind, &pl, p.cfg.Log); err != nil {
		return nil, err
	}
	if !driver.ValidID(pl.ID) {
		return nil, fmt.Errorf("client: the ref holds no workspace id: %w", fault.Failed)
	}
	ws, err := p.Acquire(ctx, pl.ID)
	if fault.Of(err) == fault.NotFound {
		return nil, fault.WithCause(fmt.Errorf("client: resolve %s: %w: the server does not know it", pl.ID, fault.Failed), fault.CauseGone)
	}
	if err != nil {
		return nil, startError("resolve", pl.ID, err)
	}
	if err := driver.CheckRevision(ref, ws.Revision); err != nil {
		return nil, err
	}
	if err := driver.CheckCapabilities(ref, ws.Capabilities); err != nil {
		return nil, err
	}
	d, err := p.buildWorkspace(ws)
	return d.Only(ref.Capabilities), err
}

// startError gives an unreachable server the code that Open and Resolve may return; the
// transient mark stays. Other errors of the server are unchanged.
func startError(verb, id string, err error) error {
	switch fault.Of(err) {
	case fault.Unavailable, fault.Unauthenticated:
		return fmt.Errorf("client: %s %s: %w: %w", verb, id, fault.Failed, err)
	}
	return err
}

// Attach returns a workspace of the server by its id or name, with its record.
// It is for programs that hold no ref, such as the command line.
func (c *Client) Attach(ctx context.Context, nameOrID string) (*driver.Workspace, Workspace, error) {
	ws, err := c.Acquire(ctx, nameOrID)
	if err != nil {
		return nil, ws, err
	}
	d, err := c.buildWorkspace(ws)
	return d, ws, err
}

// buildWorkspace makes the driver.Workspace for Open, Resolve and Attach.
func (c *Client) buildWorkspace(ws Workspace) (*driver.Workspace, error) {
	caps := driver.NewCapabilities()
	for _, c := range []driver.Capability{driver.CapFS, driver.CapShell, driver.CapCode, driver.CapScript, driver.CapSnapshot} { // the modules that the API has routes for
		if ws.Capabilities.Has(c) {
			caps[c] = true
		}
	}
	ref, err := driver.NewRef(kind, payload{ID: ws.ID}, caps, ws.Revision)
	if err != nil {
		return nil, err
	}
	sh := c.newShell(ws.ID)
	d := &driver.Workspace{Ref: ref, Life: c.lifecycle(ws.ID, caps, sh)}
	if ws.Traits != nil {
		d.Traits = *ws.Traits
	}
	if caps.Has(driver.CapFS) {
		d.FS = c.filesModule(ws)
	}
	if caps.Has(driver.CapCode) {
		d.Code = c.codeModule(ws)
	}
	if caps.Has(driver.CapScript) {
		d.Script = &driver.Interpreter{Coder: &coder{module{c, ws.ID}, "/script"}, Languages: ws.ScriptLanguages}
	}
	if caps.Has(driver.CapSnapshot) {
		d.Life.Snapshot = c.snapshotsModule(ws)
	}
	if slices.Contains(ws.Functions, "metrics") {
		d.Life.Metrics = func(ctx context.Context) (driver.Metrics, error) {
			m, err := c.Metrics(ctx, ws.ID)
			return m.Metrics, evictedError(err)
		}
	}
	if caps.Has(driver.CapShell) {
		d.Shell = sh.driverModule(ws)
		d.Life.Pause = func(ctx context.Context) error { return evictedError(c.Pause(ctx, ws.ID)) }
		d.Life.Resume = func(ctx context.Context) error { return evictedError(c.Resume(ctx, ws.ID)) }
	}
	return d, nil
}

func (c *Client) lifecycle(id string, caps driver.Capabilities, sh *shell) driver.Life {
	return driver.Life{
		Close: func(context.Context) error {
			sh.close()
			return nil
		},
		Destroy: func(ctx context.Context) error {
			err := c.Destroy(ctx, id)
			if fault.Of(err) == fault.NotFound {
				return nil
			}
			driver.Step(ctx, "client: destroyed")
			return err
		},
		Update: func(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
			ws, err := c.Change(ctx, id, Change{Policy: &policy})
			if err != nil {
				return driver.Ref{}, evictedError(err)
			}
			driver.Step(ctx, "client: updated")
			return driver.NewRef(kind, payload{ID: id}, caps, ws.Revision)
		},
	}
}

// Sweep destroys the workspaces that this client opened and that are not in live; see the
// package.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	if p.cfg.Client == "" {
		return nil
	}
	list, err := p.List(ctx, Filter{Labels: map[string]string{ClientLabel: p.cfg.Client}})
	if err != nil {
		return err
	}
	var errs []error
	for _, ws := range list {
		if slices.Contains(live, ws.ID) {
			continue
		}
		if err := p.Destroy(ctx, ws.ID); err != nil && fault.Of(err) != fault.NotFound {
			errs = append(errs, fmt.Errorf("client: sweep %s: %w", ws.ID, err))
		}
		driver.Step(ctx, "client: swept")
	}
	return errors.Join(errs...)
}

// evictedError makes the error for a missing workspace Evicted, in contrast to a missing
// file.
func evictedError(err error) error {
	if fault.Of(err) == fault.NotFound && fault.CauseOf(err) == fault.CauseGone {
		return fmt.Errorf("client: %w: %w", fault.Evicted, err)
	}
	return err
}
