//go:build !linux

package docker

import "github.com/croft-run/croft/host/wsdir"

// Provider is of no use here: files and sockets are shared with a container by a
// kernel that both have.
type Provider struct{ wsdir.Unsupported }

// New returns a provider that opens nothing.
func New(*Config) (*Provider, error) {
	return &Provider{wsdir.Unsupported{Name: Kind, Reason: "this system is not Linux; run croft where the engine is, and use it with --server"}}, nil
}
