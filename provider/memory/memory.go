// Package memory is the provider "memory": workspaces in the memory of the process,
// with files, directories and symlinks, and without commands.
//
// It is the reference implementation of the contract in package driver: the simplest
// code that keeps every promise. Read it before you write a provider. Tests and
// programs that need temporary files use it.
//
// A tree belongs to the id of its Open and lives in the [Provider] until it is
// destroyed or swept. A handle is a view of the tree: closing a handle leaves the
// tree, and several handles share the same files. Nothing outlives the process, and
// the traits say so: resolving a ref in another process fails with the cause "gone".
//
// Package workspace implements the functions that are nil here (List, Edit, Copy,
// Glob, Grep, Digest).
package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "memory"

// Config is Spec.Config of this provider. Its zero value is the default.
type Config struct {
	// Deterministic replaces the clock of the workspace: the first change is at the
	// first second of the year 2000, and each further change is one second later.
	// Then every run of a program gives the same result, times included.
	Deterministic bool `json:"deterministic,omitempty"`
}

// Provider opens workspaces in memory. Its zero value is ready to use.
type Provider struct {
	Log *slog.Logger // nil is silent

	// Snapshots stores the snapshots of workspaces; nil disables snapshots.
	Snapshots *snapshot.Store

	mu    sync.Mutex
	trees map[string]*tree // by id
}

var _ driver.Provider = (*Provider)(nil)

// Kind returns "memory".
func (p *Provider) Kind() string { return Kind }

// Close does nothing: the provider runs nothing of its own in this process.
func (p *Provider) Close() error { return nil }

// Features returns what the provider has besides its workspaces.
func (p *Provider) Features() driver.Features {
	return driver.Features{Capabilities: p.capabilities()}
}

// Probe returns the traits, which are the same on every host.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	return fixedTraits(), ctx.Err()
}

func fixedTraits() driver.Traits {
	inert := driver.Enforcement{Reason: "nothing runs in a workspace in memory"}
	limits := driver.NoLimits(inert.Reason)
	limits[driver.ResourceDisk] = driver.Enforcement{By: "the sum of file sizes"}
	return driver.Traits{
		Isolation:  driver.IsolationNone,
		IsolatedBy: inert,
		Network:    driver.NetworkNone,
		NetworkBy:  driver.Enforcement{By: "the absence of processes"},
		Limits:     limits,
		ReadOnly:   driver.Enforcement{By: "a check before each change"},
		Durability: driver.DurableNone,
	}
}

// capabilities returns the capabilities of a workspace.
func (p *Provider) capabilities() driver.Capabilities {
	return driver.NewCapabilities(driver.CapFS).With(driver.CapSnapshot, p.Snapshots != nil)
}

// Open creates the workspace spec.ID, or applies spec.Policy to the existing one.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	var config Config
	if err := p.checkSpec(ctx, spec, &config); err != nil {
		return nil, err
	}
	p.mu.Lock()
	_, exists := p.trees[spec.ID]
	p.mu.Unlock()
	fresh := newTree(p, spec.ID, spec.Policy, config)
	fresh.session = spec.Session.ID
	if !exists {
		if err := p.fillFromSnapshot(ctx, fresh, spec); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	t, found := p.trees[spec.ID]
	if !found {
		t = fresh
		if p.trees == nil {
			p.trees = map[string]*tree{}
		}
		p.trees[spec.ID] = t
	}
	p.mu.Unlock()
	if !found {
		driver.Step(ctx, "made the tree")
	} else if t.setPolicy(spec.Policy) {
		driver.Step(ctx, "changed the policy")
	}
	ws, err := t.newHandle()
	return ws.Only(spec.Want), err
}

// checkSpec refuses what this provider can't do, before anything is created.
func (p *Provider) checkSpec(ctx context.Context, spec driver.Spec, config *Config) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !driver.ValidID(spec.ID) {
		return fmt.Errorf("memory: open: id %q: %w: an id is %d of [a-z0-9]", spec.ID, fault.InvalidArgument, driver.IDLength)
	}
	if spec.Kind != "" && spec.Kind != Kind {
		return fmt.Errorf("memory: open %s: kind %q: %w: this provider's is %q", spec.ID, spec.Kind, fault.InvalidArgument, Kind)
	}
	spec.Kind = Kind
	if err := driver.DecodeConfig(spec, config); err != nil {
		return err
	}
	if spec.Dir != "" {
		return fmt.Errorf("memory: open %s: a directory in place: %w: this provider holds files in memory", spec.ID, fault.Unsupported)
	}
	if spec.From.Template != "" || spec.From.Snapshot != "" && p.Snapshots == nil {
		return fmt.Errorf("memory: open %s: a template: %w: workspaces of this provider start empty, or from a snapshot", spec.ID, fault.Unsupported)
	}
	if missing := p.capabilities().Missing(spec.Want); len(missing) > 0 {
		return fmt.Errorf("memory: open %s: capabilities %v: %w: %w: this provider has %v",
			spec.ID, missing, fault.Failed, fault.Unsupported, p.capabilities().Names())
	}
	if err := spec.Policy.Check(fixedTraits()); err != nil {
		return fmt.Errorf("memory: open %s: %w", spec.ID, err)
	}
	return nil
}

// Resolve attaches to a workspace that this Provider value opened.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id, err := driver.DecodeRefID(ref, Kind, p.Log)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	t, ok := p.trees[id]
	p.mu.Unlock()
	if !ok {
		return nil, fault.WithCause(fmt.Errorf("memory: resolve %s: %w: the files are gone", id, fault.Failed), fault.CauseGone)
	}
	if err := errors.Join(t.checkRevision(ref), driver.CheckCapabilities(ref, p.capabilities())); err != nil {
		return nil, err
	}
	ws, err := t.newHandle()
	return ws.Only(ref.Capabilities), err
}

// Sweep removes the workspaces whose ids are not in live.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	p.mu.Lock()
	var dead []*tree
	for id, t := range p.trees {
		if !slices.Contains(live, id) {
			dead = append(dead, t)
		}
	}
	p.mu.Unlock()
	for _, t := range dead {
		if err := t.destroy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// IDs generates valid ids that are the same in every run: "memory00000000000001" and
// so on. Tests use it instead of driver.NewID. Its zero value is ready to use.
type IDs struct{ last atomic.Int64 }

// Next returns the next id.
func (s *IDs) Next() string { return fmt.Sprintf("memory%014d", s.last.Add(1)) }
