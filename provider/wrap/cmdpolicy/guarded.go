// Package cmdpolicy puts the rules of package guard in front of the commands of
// any provider. Someone who runs a Croft says in croft.yaml which programs and
// variables may be used; that holds for every workspace alike, whatever its
// provider refuses besides.
package cmdpolicy

import (
	"context"
	"io"

	"github.com/croft-run/croft/host/cmdpolicy"
	"github.com/croft-run/croft/workspace/driver"
)

// A Provider is one whose commands are judged.
type Provider struct {
	driver.Provider
	guard *cmdpolicy.Checker
}

// Wrap returns p with a guard before its commands. The rules can't be about
// paths, because what a workspace's own are differs from one to the next.
func Wrap(p driver.Provider, rules *cmdpolicy.Options) (*Provider, error) {
	g, err := cmdpolicy.New(rules)
	if err != nil {
		return nil, err
	}
	return &Provider{Provider: p, guard: g}, nil
}

// Unwrap returns the provider behind the guard.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Open opens the workspace behind the guard.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	return p.guarded(p.Provider.Open(ctx, spec))
}

// Resolve attaches to the workspace behind the guard.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.guarded(p.Provider.Resolve(ctx, ref))
}

func (p *Provider) guarded(ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil || ws.Shell == nil {
		return ws, err
	}
	out := *ws
	out.Shell = p.guard.Module(ws.Shell)
	return &out, nil
}

// Close closes the provider behind the guard, if it wants to be closed.
func (p *Provider) Close() error {
	if c, ok := p.Provider.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
