//go:build !linux

package sandbox

import (
	"context"

	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

const notLinux = "this system is not Linux; use a server of Croft on Linux; the provider local isolates nothing, unless the isolation process asks for sandbox-exec of macOS"

// Provider opens no workspaces on this system: its isolation requires Linux.
type Provider struct{ wsdir.Unsupported }

// New returns a provider whose methods return Unsupported.
func New(*Config) (*Provider, error) {
	return &Provider{wsdir.Unsupported{Name: Kind, Reason: notLinux}}, nil
}

// Features has the levels.
func (p *Provider) Features() driver.Features { return driver.Features{Levels: p.levels} }

// levels reports that no level works here.
func (*Provider) levels(context.Context) []driver.Level {
	return []driver.Level{{Level: driver.IsolationNamespaces, Reason: notLinux}}
}
