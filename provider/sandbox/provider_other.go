//go:build !linux

package sandbox

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Provider is of no use here: its fence is Linux's.
type Provider struct{}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider that opens nothing.
func New(*Config) (*Provider, error) { return &Provider{}, nil }

func unsupported(verb string) error {
	return fmt.Errorf("sandbox: %s: %w: this system is not Linux", verb, fault.Unsupported)
}

// Kind returns "sandbox".
func (*Provider) Kind() string { return Kind }

// Probe says that nothing works here.
func (*Provider) Probe(context.Context) (driver.Traits, error) {
	return driver.Traits{}, unsupported("probe")
}

// Levels reports that no level works here.
func (*Provider) Levels(context.Context) []LevelReport {
	return []LevelReport{{Level: driver.IsolationNamespaces, Reason: "this system is not Linux"}}
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
