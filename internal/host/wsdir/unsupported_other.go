//go:build !linux

package wsdir

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Unsupported is a provider of a kind that needs Linux: each call fails with
// fault.Unsupported.
type Unsupported struct{ Name, Reason string }

var _ driver.Provider = Unsupported{}

func (u Unsupported) unsupported(verb string) error {
	return fmt.Errorf("%s: %s: %w: %s", u.Name, verb, fault.Unsupported, u.Reason)
}

// Kind returns the kind.
func (u Unsupported) Kind() string { return u.Name }

// Features has none.
func (u Unsupported) Features() driver.Features { return driver.Features{} }

// Probe fails.
func (u Unsupported) Probe(context.Context) (driver.Traits, error) {
	return driver.Traits{}, u.unsupported("probe")
}

// Open fails.
func (u Unsupported) Open(context.Context, driver.Spec) (*driver.Workspace, error) {
	return nil, u.unsupported("open")
}

// Resolve fails.
func (u Unsupported) Resolve(context.Context, driver.Ref) (*driver.Workspace, error) {
	return nil, u.unsupported("resolve")
}

// Sweep does nothing.
func (Unsupported) Sweep(context.Context, []string) error { return nil }

// Close does nothing.
func (Unsupported) Close() error { return nil }
