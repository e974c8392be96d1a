//go:build !linux

package e2b

import "github.com/croft-run/croft/internal/host/wsdir"

// Provider opens no workspaces on this system: package supervise, which keeps track of
// guests, needs Linux.
type Provider struct{ wsdir.Unsupported }

// New returns a provider whose methods return Unsupported.
func New(*Config) (*Provider, error) {
	return &Provider{wsdir.Unsupported{Name: Kind, Reason: "this system is not Linux; use a server of Croft on Linux"}}, nil
}
