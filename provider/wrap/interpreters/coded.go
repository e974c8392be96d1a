// Package interpreters gives the workspaces of any provider what can be made of what
// they have: Script where there are files, by an interpreter in this process
// (package script), and Code where there is a shell, by Jupyter kernels that run
// as its sessions (package jupyter).
//
// It is a decorator, and not a part of each provider, since nothing in it depends
// on the provider: whatever guards its files and its commands guards scripts and
// kernels, too, if it is wrapped first. And it is no fallback of package
// workspace, since whoever imports that should not get a JavaScript engine with it.
//
// A provider that brings one of the two itself must not be wrapped: its refs
// would lose it.
package interpreters

import (
	"context"
	"errors"
	"io"

	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/interp/jupyter"
	"github.com/croft-run/croft/workspace/driver"
)

// Config says what the modules work with.
type Config struct {
	Engine  *isolate.Engine // runs scripts; shared by providers. Required
	Script  isolate.Options // but for Root, which is the workspace's
	Kernels jupyter.Options // of every workspace
}

// A Provider is one whose workspaces run code.
type Provider struct {
	driver.Provider
	cfg Config
}

// Wrap returns p with the modules added.
func Wrap(p driver.Provider, cfg Config) *Provider { return &Provider{Provider: p, cfg: cfg} }

// Unwrap returns the provider behind it.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Close closes the provider behind it, if it wants to be closed.
func (p *Provider) Close() error {
	if c, ok := p.Provider.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Capabilities adds ours to what the provider behind it has, nil where that does
// not say.
func (p *Provider) Capabilities() driver.Capabilities {
	inner, ok := driver.Find[driver.CapabilityReporter](p.Provider)
	if !ok {
		return nil
	}
	caps := inner.Capabilities()
	for ours, from := range basis {
		if caps.Has(from) {
			caps[ours] = true
		}
	}
	return caps
}

// basis is what each of our modules is made of.
var basis = map[driver.Capability]driver.Capability{driver.CapCode: driver.CapShell, driver.CapScript: driver.CapFS}

// Open opens the workspace and adds the modules.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	spec.Want = without(spec.Want, true)
	ws, err := p.Provider.Open(ctx, spec)
	return p.coded(ws, err)
}

// Resolve attaches to the workspace and adds the modules.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	ref.Capabilities = without(ref.Capabilities, false)
	ws, err := p.Provider.Resolve(ctx, ref)
	return p.coded(ws, err)
}

// without returns caps less our own; what they are made of takes their place
// where they are wanted.
func without(caps driver.Capabilities, want bool) driver.Capabilities {
	out := caps.Clone()
	for ours, from := range basis {
		if out.Has(ours) && want {
			out[from] = true
		}
		delete(out, ours)
	}
	return out
}

func (p *Provider) coded(ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil {
		return nil, err
	}
	out := *ws
	if out.Script == nil && out.FS != nil {
		opts := p.cfg.Script
		opts.Root = out.Traits.Root
		out.Script = p.cfg.Engine.Module(out.FS, &opts)
	}
	if out.Code == nil && out.Shell != nil {
		kernels := jupyter.New(out.Shell, &p.cfg.Kernels)
		out.Code = kernels.Module()
		out.Life.Close = after(kernels.Close, ws.Life.Close)
		out.Life.Destroy = after(kernels.Close, ws.Life.Destroy)
	}
	if update := ws.Life.Update; update != nil {
		out.Life.Update = func(ctx context.Context, policy driver.Policy) (driver.Ref, error) {
			ref, err := update(ctx, policy)
			if err == nil {
				ref.Capabilities = out.Built()
			}
			return ref, err
		}
	}
	out.Ref.Capabilities = out.Built()
	return &out, nil
}

// after ends the kernels, however that goes, and then the rest.
func after(kernels, rest func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := kernels(ctx)
		return errors.Join(rest(ctx), err)
	}
}
