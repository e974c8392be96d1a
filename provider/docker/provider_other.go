//go:build !linux

package docker

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Provider is of no use here: files and sockets are shared with a container by a
// kernel that both have.
type Provider struct{}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that opens nothing.
func New(*Config) (*Provider, error) { return &Provider{}, nil }

func unsupported(verb string) error {
	return fmt.Errorf("docker: %s: %w: this system is not Linux; run croft where the engine is, and use it with --server", verb, fault.Unsupported)
}

// Kind returns "docker".
func (*Provider) Kind() string { return Kind }

// Probe says that nothing works here.
func (*Provider) Probe(context.Context) (driver.Traits, error) {
	return driver.Traits{}, unsupported("probe")
}

// Open is refused.
func (*Provider) Open(context.Context, driver.Spec) (*driver.Workspace, error) {
	return nil, unsupported("open")
}

// Resolve is refused.
func (*Provider) Resolve(context.Context, driver.Ref) (*driver.Workspace, error) {
	return nil, unsupported("resolve")
}

// Sweep finds nothing.
func (*Provider) Sweep(context.Context, []string) error { return nil }

// Close has nothing to end.
func (*Provider) Close() error { return nil }
