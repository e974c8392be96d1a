// Package testshell has a provider for tests that need commands but no sandbox: the files
// of provider/local, with processes that are children of the test.
package testshell

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the provider's.
const Kind = "shelltest"

// Provider opens workspaces under Root.
type Provider struct {
	files *local.Provider
	root  string

	mu       sync.Mutex
	managers map[string]*sharedManager // guarded by mu; by id
}

// A sharedManager is a process manager with a count of its handles.
type sharedManager struct {
	m     *process.Manager
	count int
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider with workspaces under root.
func New(root string) (*Provider, error) {
	files, err := local.New(&local.Config{Root: filepath.Join(root, "ws")})
	if err != nil {
		return nil, err
	}
	return &Provider{files: files, root: root, managers: map[string]*sharedManager{}}, nil
}

// Kind returns the kind.
func (p *Provider) Kind() string { return Kind }

// Features has none.
func (p *Provider) Features() driver.Features { return driver.Features{} }

// Close does nothing.
func (p *Provider) Close() error { return nil }

// Probe reports no isolation.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	t, err := p.files.Probe(ctx)
	t.Streaming = true
	return t, err
}

// Offered is a Provider whose Probe claims isolation: a server offers it without being told to. Its
// workspaces claim none.
type Offered struct{ *Provider }

// Probe claims isolation.
func (p Offered) Probe(ctx context.Context) (driver.Traits, error) {
	t, err := p.Provider.Probe(ctx)
	t.Isolation = driver.IsolationProcess
	return t, err
}

// Open opens the files and adds a shell.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	if spec.Kind != Kind {
		return nil, fmt.Errorf("shelltest: open a workspace of kind %q: %w: this provider is of kind %q", spec.Kind, fault.InvalidArgument, Kind)
	}
	want := spec.Want
	spec.Kind, spec.Want = p.files.Kind(), want.Clone()
	if want.Has(driver.CapShell) {
		delete(spec.Want, driver.CapShell)
		spec.Want[driver.CapFS] = true
	}
	w, err := p.files.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	w, err = p.addShell(w, spec.ID, spec.Policy.Env)
	return w.Only(want), err
}

// payload wraps the ref of the files.
type payload struct {
	ID    string            `json:"id"`
	Files driver.Ref        `json:"files"`
	Env   map[string]string `json:"env"`
}

// Resolve attaches to the files and adds a shell.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl payload
	if err := driver.DecodeRef(ref, Kind, &pl, nil); err != nil {
		return nil, err
	}
	pl.Files.Revision = ref.Revision
	w, err := p.files.Resolve(ctx, pl.Files)
	if err != nil {
		return nil, err
	}
	w, err = p.addShell(w, pl.ID, pl.Env)
	return w.Only(ref.Capabilities), err
}

func (p *Provider) addShell(w *driver.Workspace, id string, env map[string]string) (*driver.Workspace, error) {
	m, release, err := p.acquireManager(id, env)
	if err != nil {
		return nil, err
	}
	out := *w
	caps := w.Ref.Capabilities.Clone()
	caps[driver.CapShell] = true
	ref := func(files driver.Ref) (driver.Ref, error) {
		return driver.NewRef(Kind, payload{id, files, env}, caps, files.Revision)
	}
	if out.Ref, err = ref(w.Ref); err != nil {
		return nil, err
	}
	out.Shell = m.Module()
	out.Traits.Streaming = true
	files := w.Life
	var once sync.Once
	out.Life.Close = func(ctx context.Context) (err error) {
		once.Do(func() { err = release(ctx, false) })
		if err != nil {
			return err
		}
		return files.Close(ctx)
	}
	out.Life.Destroy = func(ctx context.Context) (err error) {
		once.Do(func() { err = release(ctx, true) })
		if err != nil {
			return err
		}
		return files.Destroy(ctx)
	}
	out.Life.Update = func(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
		next, err := files.Update(ctx, policy)
		if err != nil {
			return driver.Ref{}, err
		}
		return ref(next)
	}
	return &out, nil
}

// acquireManager returns the process manager of a workspace, which its handles share.
func (p *Provider) acquireManager(id string, env map[string]string) (*process.Manager, func(context.Context, bool) error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.managers[id]
	if h == nil {
		logs := filepath.Join(p.root, "logs", id)
		if err := os.MkdirAll(logs, 0o700); err != nil {
			return nil, nil, fmt.Errorf("shelltest: %w: %w", fault.Failed, err)
		}
		m, err := process.New(&process.Options{Root: filepath.Join(p.root, "ws", id, "files"), LogDir: logs, Env: env})
		if err != nil {
			return nil, nil, fmt.Errorf("shelltest: %w: %w", fault.Failed, err)
		}
		h = &sharedManager{m: m}
		p.managers[id] = h
	}
	h.count++
	return h.m, func(ctx context.Context, end bool) error { return p.releaseManager(ctx, id, h, end) }, nil
}

func (p *Provider) releaseManager(ctx context.Context, id string, h *sharedManager, end bool) error {
	p.mu.Lock()
	h.count--
	last := h.count == 0 || end
	if last && p.managers[id] == h {
		delete(p.managers, id)
	}
	p.mu.Unlock()
	if !last {
		return nil
	}
	if err := h.m.Close(ctx); err != nil {
		return err
	}
	if end {
		return os.RemoveAll(filepath.Join(p.root, "logs", id))
	}
	return nil
}

// Sweep sweeps the files.
func (p *Provider) Sweep(ctx context.Context, live []string) error { return p.files.Sweep(ctx, live) }
