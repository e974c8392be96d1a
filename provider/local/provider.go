package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/files"
	"github.com/croft-run/croft/host/guestbin"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "local"

// Config says where a provider keeps its workspaces.
type Config struct {
	// Root is the directory that holds them, made where it does not exist. It
	// may be shared with providers of other kinds. Required.
	Root string

	// Forbidden are directories that no workspace may use in place, nor what is
	// in them, nor what holds them: all that Croft keeps for itself. Root is one
	// of them anyway.
	Forbidden []string

	// Roots are directories of the host that a directory in place must lie in;
	// nil is any, and an empty list lets none be used.
	Roots []string

	// Guest is the path of croft-guest, which runs commands; "" looks for it, see
	// package guestbin. Without one, workspaces have files alone.
	Guest string

	// Lease is how long a guest lives without anyone who holds its workspace;
	// 0 is 15 minutes.
	Lease time.Duration

	// Snapshots keeps the snapshots of workspaces; nil is none.
	Snapshots *snapshot.Store

	Log *slog.Logger // nil is silent

	// BootID names the present boot of the host; "" is what the kernel says.
	BootID string
}

// Provider opens workspaces that are directories.
type Provider struct {
	ground *wsdir.Store
	log    *slog.Logger
	lease  time.Duration
	guest  func() (*guestbin.Binary, error)

	snapshots *snapshot.Store
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that keeps its workspaces below cfg.Root.
func New(cfg *Config) (*Provider, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	ground, err := wsdir.New(&wsdir.Config{Kind: Kind, Root: cfg.Root, Forbidden: cfg.Forbidden, Roots: cfg.Roots, Log: cfg.Log, BootID: cfg.BootID})
	if err != nil {
		return nil, err
	}
	p := &Provider{ground: ground, log: ground.Log(), lease: cfg.Lease, snapshots: cfg.Snapshots}
	if p.lease == 0 {
		p.lease = DefaultLease
	}
	path := cfg.Guest
	p.guest = sync.OnceValues(func() (*guestbin.Binary, error) { return findGuest(path) })
	return p, nil
}

// DefaultLease is the default of Config.Lease.
const DefaultLease = 15 * time.Minute

// Kind returns "local".
func (p *Provider) Kind() string { return Kind }

// Probe makes the root, locks it and opens it as a boundary.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	unlock, err := p.ground.Lock(ctx)
	if err != nil {
		return driver.Traits{}, p.ground.OpenFailed(ctx, "probe", err)
	}
	defer unlock()
	root, err := files.Open(p.ground.Path(), nil)
	if err != nil {
		return driver.Traits{}, p.ground.OpenFailed(ctx, "probe", err)
	}
	return p.hostTraits(p.capabilities(nil)), root.Close()
}

// hostTraits says what workspaces with the given modules have.
func (p *Provider) hostTraits(caps driver.Capabilities) driver.Traits {
	none := driver.Enforcement{Reason: "a local workspace is a plain directory, and nothing runs in it"}
	t := driver.Traits{
		Isolation:  driver.IsolationNone,
		IsolatedBy: none,
		Network:    driver.NetworkNone,
		NetworkBy:  driver.Enforcement{By: "nothing runs in a local workspace"},
		Limits:     driver.NoLimits(none.Reason),
		ReadOnly:   driver.Enforcement{By: "the boundary, which carries out no change"},
		Durability: driver.DurablePower,
		InPlace:    true,
	}
	quota := driver.Enforcement{Reason: "a plain directory has no quota"}
	t.Limits[driver.ResourceDisk] = quota
	if !caps.Has(driver.CapShell) {
		return t
	}
	open := driver.Enforcement{Reason: "commands run as the user that Croft is, with rules that look at what they are called with and no more"}
	t.IsolatedBy, t.NetworkBy, t.Network = open, open, driver.NetworkOpen
	t.Limits = driver.NoLimits(open.Reason)
	t.Limits[driver.ResourceDisk] = quota
	t.Limits[driver.ResourceWall] = driver.Enforcement{By: "the guest, which ends the whole tree"}
	t.Limits[driver.ResourceOpenFiles] = driver.Enforcement{By: "a hard resource limit of each process"}
	t.ReadOnly = driver.Enforcement{By: "the boundary, and that no command is run"}
	t.Streaming = true
	return t
}

// Capabilities is what a workspace has, unless less is wanted.
func (p *Provider) Capabilities() driver.Capabilities { return p.capabilities(nil) }

// capabilities is what a workspace has of which want was declared: commands only
// where there is a guest to run them, and where they were not left out.
func (p *Provider) capabilities(want driver.Capabilities) driver.Capabilities {
	caps := driver.NewCapabilities(driver.CapFS)
	if _, err := p.guest(); err == nil && (len(want.Names()) == 0 || want.Has(driver.CapShell)) {
		caps[driver.CapShell] = true
	}
	if p.snapshots != nil && (len(want.Names()) == 0 || want.Has(driver.CapSnapshot)) {
		caps[driver.CapSnapshot] = true
	}
	return caps
}

// Open makes the workspace spec.ID or returns it where it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	caps := p.capabilities(spec.Want)
	if err := p.check(spec, caps); err != nil {
		return nil, err
	}
	own, err := ownOf(spec)
	if err != nil {
		return nil, err
	}
	m, err := p.ground.Ensure(ctx, spec, own, p.fill(ctx, spec))
	if err != nil {
		return nil, p.ground.OpenFailed(ctx, "open", err)
	}
	return p.attach(ctx, m, caps)
}

// check refuses, before anything is made, what the provider can't do.
func (p *Provider) check(spec driver.Spec, caps driver.Capabilities) error {
	if err := driver.CheckOpen(spec, Kind); err != nil {
		return err
	}
	if err := driver.DecodeConfig(spec, new(struct{})); err != nil {
		return err
	}
	if spec.From.Template != "" {
		return fmt.Errorf("local: open: a template to start from: %w", fault.Unsupported)
	}
	if spec.From.Snapshot != "" && (p.snapshots == nil || spec.Dir != "") {
		return fmt.Errorf("local: open: a snapshot to start from: %w: there is no store of them, or the directory is in place", fault.Unsupported)
	}
	if missing := caps.Missing(spec.Want); len(missing) > 0 {
		_, err := p.guest()
		return fmt.Errorf("local: open: capabilities %v: %w: there is only %v%s", missing, fault.Failed, caps.Names(), because(err))
	}
	if err := spec.Policy.Check(p.hostTraits(caps)); err != nil {
		return fmt.Errorf("local: open: %w", err)
	}
	return nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return "; " + err.Error()
}

// payload is all that a ref holds.
type payload struct {
	ID string `json:"id"`
}

// Resolve attaches to the workspace that ref names.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl payload
	m, err := p.ground.Resolve(ctx, ref, &pl, &pl.ID, driver.NewCapabilities(driver.CapFS), p.snapshots != nil)
	if err != nil {
		return nil, err
	}
	caps := ref.Capabilities
	if caps.Has(driver.CapShell) {
		if _, err := p.guest(); err != nil {
			return nil, fmt.Errorf("local: resolve: the workspace was opened with commands: %w: %w", fault.Failed, err)
		}
	}
	return p.attach(ctx, m, caps)
}

// attach builds the live workspace: Open and Resolve both end here.
func (p *Provider) attach(ctx context.Context, m *wsdir.State, caps driver.Capabilities) (*driver.Workspace, error) {
	h := &handle{p: p, caps: caps}
	err := p.recover(ctx, m)
	if err != nil {
		return nil, p.ground.OpenFailed(ctx, "attach", err)
	}
	if h.plot, err = p.ground.Attach(ctx, m, wsdir.OpenDirectory); err != nil {
		return nil, err
	}
	ws := &driver.Workspace{Life: driver.Life{Close: h.close, Destroy: h.destroy, Update: h.update}, FS: h.plot.FS(), Traits: p.traits(m, caps)}
	if caps.Has(driver.CapSnapshot) {
		ws.Life.Snapshot = h.keeper(m).Module()
	}
	if ws.Ref, err = newRef(m, caps); err == nil && caps.Has(driver.CapShell) {
		h.shell = p.newShell(h.plot, m)
		ws.Shell = h.shell.module()
	}
	if fault.Of(err) == fault.NotFound { // destroyed since it was looked at
		err = p.ground.Gone()
	}
	if err != nil {
		return nil, errors.Join(p.ground.OpenFailed(ctx, "attach", err), h.plot.Close())
	}
	return ws, nil
}

func newRef(m *wsdir.State, caps driver.Capabilities) (driver.Ref, error) {
	return driver.NewRef(Kind, payload{ID: m.ID}, caps.Clone(), m.Revision)
}

func (p *Provider) traits(m *wsdir.State, caps driver.Capabilities) driver.Traits {
	t := p.hostTraits(caps)
	t.Root = p.ground.Files(m)
	if m.Dir != "" && !caps.Has(driver.CapShell) {
		t.Root = m.Dir
	}
	t.Damaged = p.ground.Damaged(m)
	return t
}

// A handle is a live workspace.
type handle struct {
	p     *Provider
	caps  driver.Capabilities
	plot  *wsdir.Handle
	shell *shell // nil where there is none
}

// update changes the policy. A guest that does not run under the new one ends.
func (h *handle) update(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
	if err := policy.Check(h.p.hostTraits(h.caps)); err != nil {
		return driver.Ref{}, fmt.Errorf("local: update: %w", err)
	}
	m, err := h.plot.Update(ctx, policy)
	if err == nil && h.shell != nil {
		err = h.shell.renew(context.WithoutCancel(ctx), m)
	}
	if err != nil {
		return driver.Ref{}, fmt.Errorf("local: update: %w", err)
	}
	return newRef(m, h.caps)
}

// close lets go of the workspace, and of its guest, which lives on.
func (h *handle) close(ctx context.Context) error {
	if h.shell != nil {
		if err := h.shell.close(ctx); err != nil {
			return err
		}
	}
	return h.plot.Close()
}

// destroy ends the workspace and its guest. A directory in place stays.
func (h *handle) destroy(ctx context.Context) error {
	if h.shell != nil {
		if err := h.shell.ExpectEnd(ctx); err != nil {
			return err
		}
	}
	if err := h.plot.Destroy(ctx, endGuest); err != nil {
		return fmt.Errorf("local: destroy: %w", err)
	}
	if h.shell != nil {
		return h.shell.close(ctx)
	}
	return nil
}

// HasWorkspaces reports whether there is a directory of a workspace.
func (p *Provider) HasWorkspaces(context.Context) (bool, error) { return p.ground.HasWorkspaces() }

// Sweep ends the guests of workspaces that are not in live, and removes their
// directories and what a crash left. What belongs to providers of other kinds
// stays.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return p.ground.Sweep(ctx, live, endGuest)
}
