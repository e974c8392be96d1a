//go:build !linux

package docker

import "github.com/croft-run/croft/internal/host/wsdir"

// Provider opens no workspaces on this system: it shares files and sockets with containers,
// which requires their Linux kernel.
type Provider struct{ wsdir.Unsupported }

// New returns a provider whose methods return Unsupported.
func New(*Config) (*Provider, error) {
	return &Provider{wsdir.Unsupported{Name: Kind, Reason: "this system is not Linux; use a server of Croft on Linux"}}, nil
}
