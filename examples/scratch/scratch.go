// Package scratch is a worked example of a Croft provider: each workspace is a
// directory below one root, named by its id. It is short because local.Files is the
// whole FS module; the rest is the life cycle of a workspace, which is a provider's job. docs/provider.md explains it.
package scratch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is what users write after --provider.
const Kind = "scratch"

// Provider opens workspaces below Root. It keeps no state of a session: that is in the
// workspace's directory, or in the Workspace that Open returns.
type Provider struct {
	Root string // made where it does not exist

	mu sync.Mutex // held while the state of a workspace is read and written
}

// The compiler checks that the contract is met.
var _ driver.Provider = (*Provider)(nil)

// Kind names the provider.
func (p *Provider) Kind() string { return Kind }

// Features returns what the provider has besides its workspaces.
func (p *Provider) Features() driver.Features { return driver.Features{Capabilities: capabilities} }

// Close has nothing to end in this process.
func (p *Provider) Close() error { return nil }

// Probe returns what the provider enforces, after trying it.
func (p *Provider) Probe(context.Context) (driver.Traits, error) {
	if err := os.MkdirAll(p.Root, 0o700); err != nil {
		return driver.Traits{}, fmt.Errorf("scratch: probe: %w: %w", fault.Failed, err)
	}
	return claimedTraits(), nil
}

// claimedTraits claims little: the conformance suite tests every claim. A limit that is
// not enforced needs a reason.
func claimedTraits() driver.Traits {
	none := driver.Enforcement{Reason: "a scratch workspace is a plain directory"}
	return driver.Traits{
		Isolation: driver.IsolationNone, IsolatedBy: none,
		Network: driver.NetworkNone, NetworkBy: driver.Enforcement{By: "nothing runs in a scratch workspace"},
		Limits:     driver.NoLimits(none.Reason),
		ReadOnly:   driver.Enforcement{By: "local.Files, which refuses writes"},
		Durability: driver.DurableProcess,
	}
}

// capabilities are the modules that attach builds.
var capabilities = driver.NewCapabilities(driver.CapFS)

// payload is all that Resolve needs.
type payload struct {
	ID string `json:"id"`
}

// state is the state of a workspace besides its files. The revision grows with every
// change of policy, and a ref with an older revision is refused, so that a revoked
// permission can't come back.
type state struct {
	Revision int64         `json:"revision"`
	Policy   driver.Policy `json:"policy"`
}

// Open makes a workspace, or returns an existing one. It refuses unsupported specs before
// it makes anything.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// MkdirAll is idempotent, and the name is the id: a crash between any two
	// effects leaves something that Open can go on with and Sweep can find.
	if err := os.MkdirAll(p.joinRoot(spec.ID, "files"), 0o700); err != nil {
		return nil, fmt.Errorf("scratch: open %s: %w: %w", spec.ID, fault.Failed, err)
	}
	driver.Step(ctx, "directories made")
	st, err := p.updateState(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("scratch: open %s: %w: %w", spec.ID, fault.Failed, err)
	}
	return p.attachWorkspace(spec.ID, st)
}

// updateState stores the requested policy.
func (p *Provider) updateState(ctx context.Context, spec driver.Spec) (state, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st, err := p.readState(spec.ID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state{}, err
	}
	if err == nil && st.Policy.Equal(spec.Policy) {
		return st, nil
	}
	st = state{Revision: st.Revision + 1, Policy: spec.Policy}
	data, err := json.Marshal(st)
	if err != nil {
		return state{}, err
	}
	temp := p.joinRoot(spec.ID, "state.new")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return state{}, err
	}
	driver.Step(ctx, "state written")
	err = os.Rename(temp, p.joinRoot(spec.ID, "state"))
	driver.Step(ctx, "state in place")
	return st, err
}

func (p *Provider) readState(id string) (state, error) {
	var st state
	data, err := os.ReadFile(p.joinRoot(id, "state"))
	if err != nil {
		return st, err
	}
	return st, driver.DecodeStrict(data, &st)
}

func checkSpec(spec driver.Spec) error {
	if err := driver.CheckOpen(spec, Kind, capabilities); err != nil {
		return err
	}
	switch {
	case spec.Dir != "":
		return fmt.Errorf("scratch: open: a directory in place: %w", fault.Unsupported)
	case spec.From != driver.Source{}:
		return fmt.Errorf("scratch: open: a template or snapshot to start from: %w", fault.Unsupported)
	}
	if err := driver.DecodeConfig(spec, new(struct{})); err != nil {
		return err
	}
	if err := spec.Policy.Check(claimedTraits()); err != nil {
		return fmt.Errorf("scratch: open: %w", err)
	}
	return nil
}

// Resolve attaches to a workspace from its ref alone. DecodeRef refuses what is
// foreign, malformed or of a version outside the window.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var pl payload
	if err := driver.DecodeRef(ref, Kind, &pl, nil); err != nil {
		return nil, err
	}
	// The ref comes from untrusted storage: every field is checked, and no error repeats
	// it.
	if !driver.ValidID(pl.ID) {
		return nil, fmt.Errorf("scratch: resolve: the ref is not valid: %w", fault.Failed)
	}
	if err := driver.CheckCapabilities(ref, capabilities); err != nil {
		return nil, err
	}
	st, err := p.readState(pl.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.WithCause(fmt.Errorf("scratch: the files of the workspace are gone: %w", fault.Failed), fault.CauseGone)
	}
	if err != nil {
		return nil, fmt.Errorf("scratch: resolve: what is kept of the workspace is not valid: %w", fault.Failed)
	}
	if err := driver.CheckRevision(ref, st.Revision); err != nil {
		return nil, err
	}
	return p.attachWorkspace(pl.ID, st)
}

// attachWorkspace is the one helper behind Open and Resolve, so that they can't drift.
func (p *Provider) attachWorkspace(id string, st state) (*driver.Workspace, error) {
	files, closeFiles, err := local.Files(p.joinRoot(id, "files"), st.Policy.ReadOnly)
	if err != nil {
		return nil, fmt.Errorf("scratch: attach: %w: %w", fault.Failed, err)
	}
	ref, err := driver.NewRef(Kind, payload{ID: id}, capabilities, st.Revision)
	if err != nil {
		return nil, errors.Join(err, closeFiles())
	}
	return &driver.Workspace{
		Ref: ref, Traits: claimedTraits(), FS: files,
		Life: driver.Life{
			Close:   func(context.Context) error { return closeFiles() },
			Destroy: func(ctx context.Context) error { return errors.Join(closeFiles(), p.removeWorkspace(ctx, id)) },
		},
	}, nil
}

// removeWorkspace destroys a workspace. After a crash the rest still has its id as its
// name, so Destroy can be repeated, and Sweep finds it.
func (p *Provider) removeWorkspace(ctx context.Context, id string) error {
	err := os.RemoveAll(p.joinRoot(id))
	// Another process may still add to the tree.
	for end := time.Now().Add(10 * time.Second); errors.Is(err, fs.ErrExist) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
		err = os.RemoveAll(p.joinRoot(id))
	}
	if err != nil {
		return fmt.Errorf("scratch: destroy %s: %w: %w", id, fault.Of(err), err)
	}
	driver.Step(ctx, "directory removed")
	return nil
}

// Sweep removes workspaces whose ids are not in live. Names that are not ids are left
// alone.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	entries, err := os.ReadDir(p.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("scratch: sweep: %w: %w", fault.Of(err), err)
	}
	var errs []error
	for _, e := range entries {
		if driver.ValidID(e.Name()) && !slices.Contains(live, e.Name()) {
			errs = append(errs, p.removeWorkspace(ctx, e.Name()))
		}
	}
	return errors.Join(errs...)
}

func (p *Provider) joinRoot(elem ...string) string {
	return filepath.Join(append([]string{p.Root}, elem...)...)
}
