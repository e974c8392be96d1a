//go:build !linux

package wsdir

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Unsupported is a provider that opens nothing, of a kind that needs Linux.
type Unsupported struct{ Name, Reason string }

var _ driver.Provider = Unsupported{}

func (u Unsupported) refuse(verb string) error {
	return fmt.Errorf("%s: %s: %w: %s", u.Name, verb, fault.Unsupported, u.Reason)
}

// Kind returns the kind.
func (u Unsupported) Kind() string { return u.Name }

// Probe says that nothing works here.
func (u Unsupported) Probe(context.Context) (driver.Traits, error) {
	return driver.Traits{}, u.refuse("probe")
}

// Open is refused.
func (u Unsupported) Open(context.Context, driver.Spec) (*driver.Workspace, error) {
	return nil, u.refuse("open")
}

// Resolve is refused.
func (u Unsupported) Resolve(context.Context, driver.Ref) (*driver.Workspace, error) {
	return nil, u.refuse("resolve")
}

// Sweep finds nothing.
func (Unsupported) Sweep(context.Context, []string) error { return nil }

// Close has nothing to end.
func (Unsupported) Close() error { return nil }
