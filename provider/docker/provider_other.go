//go:build !linux

package docker

import "github.com/croft-run/croft/posix/plot"

// Provider is of no use here: files and sockets are shared with a container by a
// kernel that both have.
type Provider struct{ plot.Unsupported }

// New returns a provider that opens nothing.
func New(*Config) (*Provider, error) {
	return &Provider{plot.Unsupported{Name: Kind, Reason: "this system is not Linux; run croft where the engine is, and use it with --server"}}, nil
}
