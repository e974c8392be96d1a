// Package cmdpolicy applies the command policy of package internal/host/cmdpolicy to the
// commands of any provider.
//
// The operator sets in croft.yaml which programs and variables are allowed. These
// rules apply to every workspace, in addition to the checks of its provider. They are
// not a sandbox: an allowed program can start others.
package cmdpolicy

import (
	"context"

	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/workspace/driver"
)

// A Provider is a provider with a command policy.
type Provider struct {
	driver.Provider
	policy *cmdpolicy.Checker
}

// Wrap returns p with a command policy. The rules can't be about paths, because the
// root differs between workspaces.
func Wrap(p driver.Provider, rules *cmdpolicy.Options) (*Provider, error) {
	g, err := cmdpolicy.New(rules)
	if err != nil {
		return nil, err
	}
	return &Provider{Provider: p, policy: g}, nil
}

// Unwrap returns the wrapped provider.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Open opens the workspace with the command policy.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	return p.wrapWorkspace(p.Provider.Open(ctx, spec))
}

// Resolve attaches to the workspace with the command policy.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	return p.wrapWorkspace(p.Provider.Resolve(ctx, ref))
}

func (p *Provider) wrapWorkspace(ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil || ws.Shell == nil {
		return ws, err
	}
	out := *ws
	out.Shell = p.policy.Module(ws.Shell)
	return &out, nil
}
