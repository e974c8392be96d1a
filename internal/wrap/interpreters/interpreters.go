// Package interpreters adds the modules Script and Code to the workspaces of any
// provider.
//
// Script needs files: an interpreter in this process (package isolate). Code needs a
// shell: Jupyter kernels that run as its sessions (package jupyter).
//
// It is a decorator and not a part of each provider, because nothing in it depends on
// the provider: a command policy that is wrapped first also applies to scripts and
// kernels. It is not a fallback of package workspace, because importing that package
// should not link a JavaScript engine.
//
// A provider that has one of the two modules must not be wrapped: its refs would lose
// the module.
package interpreters

import (
	"context"
	"errors"
	"maps"

	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/interp/jupyter"
	"github.com/croft-run/croft/workspace/driver"
)

// Config configures the modules.
type Config struct {
	Engine  *isolate.Engine // runs scripts; shared by providers. Required
	Script  isolate.Options // except Root, which is that of the workspace
	Kernels jupyter.Options // of every workspace
}

// A Provider is a provider whose workspaces run code.
type Provider struct {
	driver.Provider
	cfg Config
}

// Wrap returns p with the modules added.
func Wrap(p driver.Provider, cfg Config) *Provider { return &Provider{Provider: p, cfg: cfg} }

// Unwrap returns the wrapped provider.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Features adds our modules to the capabilities of the wrapped provider, if it reports any.
func (p *Provider) Features() driver.Features {
	f := p.Provider.Features()
	f.Capabilities = f.Capabilities.Clone()
	for ours, from := range basis {
		if f.Capabilities.Has(from) {
			f.Capabilities[ours] = true
		}
	}
	return f
}

// basis is the module that each of our modules needs.
var basis = map[driver.Capability]driver.Capability{driver.CapCode: driver.CapShell, driver.CapScript: driver.CapFS}

// Open opens the workspace and adds the modules.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	want := spec.Want
	spec.Want = withBasis(want)
	ws, err := p.Provider.Open(ctx, spec)
	return p.addModules(ws, want, err)
}

// Resolve attaches to the workspace and adds the modules.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	caps := ref.Capabilities
	ref.Capabilities = withBasis(caps)
	ws, err := p.Provider.Resolve(ctx, ref)
	return p.addModules(ws, caps, err)
}

// withBasis returns caps with the basis of each of our modules instead of the module.
func withBasis(caps driver.Capabilities) driver.Capabilities {
	out := caps.Clone()
	for ours, from := range basis {
		if out.Has(ours) {
			out[from] = true
		}
		delete(out, ours)
	}
	return out
}

// addModules adds the modules of caps, or both if caps is empty. The refs of the result
// keep what the wrapped provider claims, which may be wrong: see Workspace.Validate.
func (p *Provider) addModules(ws *driver.Workspace, caps driver.Capabilities, err error) (*driver.Workspace, error) {
	if err != nil {
		return nil, err
	}
	out, added := *ws, driver.Capabilities{}
	if out.Script == nil && out.FS != nil {
		opts := p.cfg.Script
		opts.Root = out.Traits.Root
		out.Script = p.cfg.Engine.Module(out.FS, &opts)
		added[driver.CapScript] = true
	}
	if out.Code == nil && out.Shell != nil {
		kernels := jupyter.New(out.Shell, &p.cfg.Kernels)
		out.Code = kernels.Module()
		out.Life.Close = closeAfter(kernels.Close, ws.Life.Close)
		out.Life.Destroy = closeAfter(kernels.Close, ws.Life.Destroy)
		if ws.Life.Pause != nil {
			// A connection to a kernel can't be ended once it is frozen.
			out.Life.Pause = closeAfter(kernels.Disconnect, ws.Life.Pause)
		}
		added[driver.CapCode] = true
	}
	if update := ws.Life.Update; update != nil {
		out.Life.Update = func(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
			ref, err := update(ctx, policy)
			ref.Capabilities = union(ref.Capabilities, added)
			return ref, err
		}
	}
	out.Ref.Capabilities = union(out.Ref.Capabilities, added)
	return out.Only(caps), nil
}

func union(a, b driver.Capabilities) driver.Capabilities {
	out := maps.Clone(b)
	maps.Copy(out, a)
	return out
}

// closeAfter lets go of the kernels, and then calls rest in any case.
func closeAfter(kernels, rest func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := kernels(ctx)
		return errors.Join(rest(ctx), err)
	}
}
