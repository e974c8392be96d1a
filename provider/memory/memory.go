// Package memory is the provider that keeps workspaces in the memory of the
// process: files, directories and symlinks, and nothing that runs. It is the
// reference implementation of the contract in package driver: the plainest code
// that keeps every promise. Tests and programs that need a scratch place use it;
// who writes a provider reads it first.
//
// A tree belongs to the id that it was opened with and lives in the [Provider]
// until it is destroyed or swept. A handle is a view of the tree: closing one
// leaves the tree, and several handles see the same files. Nothing outlives the
// process, and the traits say so: to resolve a ref in another process is a
// failure with the cause "gone".
//
// What is left nil here (List, Edit, Copy, Glob, Grep, Digest) package workspace
// does with the rest.
package memory

import (
	"context"
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
	// Deterministic replaces the clock of the workspace: files date from the
	// first second of the year 2000, and each change is one second later. What
	// a program does is then the same in every run, times included.
	Deterministic bool `json:"deterministic,omitempty"`
}

// Provider opens workspaces in memory. Its zero value is ready to use.
type Provider struct {
	Log *slog.Logger // nil is silent

	// Snapshots keeps the snapshots of workspaces; nil is none.
	Snapshots *snapshot.Store

	mu    sync.Mutex
	trees map[string]*tree // by id
}

var _ driver.Provider = (*Provider)(nil)

// Kind returns "memory".
func (p *Provider) Kind() string { return Kind }

// Probe says what a workspace in memory is like, which is the same everywhere.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	return traits(), ctx.Err()
}

func traits() driver.Traits {
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

// Capabilities is what a workspace has.
func (p *Provider) Capabilities() driver.Capabilities { return p.built() }

// built is what a workspace has.
func (p *Provider) built() driver.Capabilities {
	caps := driver.NewCapabilities(driver.CapFS)
	if p.Snapshots != nil {
		caps[driver.CapSnapshot] = true
	}
	return caps
}

// payload is what a ref holds.
type payload struct {
	ID string `json:"id"`
}

// Open makes the workspace spec.ID, or brings the one that is there to
// spec.Policy.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	var config Config
	if err := p.check(ctx, spec, &config); err != nil {
		return nil, err
	}
	p.mu.Lock()
	_, exists := p.trees[spec.ID]
	p.mu.Unlock()
	fresh := newTree(p, spec.ID, spec.Policy, config)
	fresh.session = spec.Session.ID
	if !exists {
		if err := p.from(ctx, fresh, spec); err != nil {
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
	return t.handle()
}

// check refuses what this provider can't do, before anything is made.
func (p *Provider) check(ctx context.Context, spec driver.Spec, config *Config) error {
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
	if missing := p.built().Missing(spec.Want); len(missing) > 0 {
		return fmt.Errorf("memory: open %s: capabilities %v: %w: %w: this provider has %v",
			spec.ID, missing, fault.Failed, fault.Unsupported, p.built().Names())
	}
	if err := spec.Policy.Check(traits()); err != nil {
		return fmt.Errorf("memory: open %s: %w", spec.ID, err)
	}
	return nil
}

// Resolve attaches to a workspace that this very Provider opened.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var held payload
	if err := driver.DecodeRef(ref, Kind, &held, p.Log); err != nil {
		return nil, err
	}
	if !driver.ValidID(held.ID) {
		return nil, fmt.Errorf("memory: the payload of the ref is not valid: %w", fault.Failed)
	}
	p.mu.Lock()
	t, ok := p.trees[held.ID]
	p.mu.Unlock()
	if !ok {
		return nil, fault.WithCause(fmt.Errorf("memory: resolve %s: %w: the files are gone", held.ID, fault.Failed), fault.CauseGone)
	}
	if err := t.checkRevision(ref); err != nil {
		return nil, err
	}
	return t.handle()
}

// Sweep forgets the workspaces whose ids are not in live.
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

// IDs makes valid ids that are the same in every run: "memory00000000000001"
// and so on. Tests use it in place of driver.NewID. Its zero value is ready to
// use.
type IDs struct{ last atomic.Int64 }

// Next returns the next id.
func (s *IDs) Next() string { return fmt.Sprintf("memory%014d", s.last.Add(1)) }
