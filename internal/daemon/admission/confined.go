package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// probeTimeout bounds a probe of the traits of a provider that clients ask for.
const probeTimeout = time.Minute

// confinedCheck returns a function that refuses kinds whose commands reach their host: those that are
// used only where they are named, and those whose provider does not isolate, as its traits tell. A
// provider that isolates keeps doing so, therefore that answer is kept.
func confinedCheck(ctx context.Context, mux *workspace.Mux) func(kind string) error {
	var known sync.Map
	ctx = context.WithoutCancel(ctx)
	return func(kind string) error {
		if _, ok := known.Load(kind); ok {
			return nil
		}
		p, err := mux.Provider(kind)
		if err != nil {
			return err
		}
		if p.Features().OnlyNamed {
			return config.NotOffered(kind)
		}
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		traits, err := p.Probe(ctx)
		if err != nil {
			return fmt.Errorf("app: provider %s: %w: what isolates its commands is not known: %w", kind, fault.Unavailable, err)
		}
		if traits.Isolation.Rank() < driver.IsolationProcess.Rank() && !runsNothing(p) {
			return config.NotOffered(kind)
		}
		known.Store(kind, true)
		return nil
	}
}

// runsNothing reports whether a provider has no commands: nothing but files, their snapshots, and scripts
// in an isolate. One that does not say what it has may have any.
func runsNothing(p driver.Provider) bool {
	caps := p.Features().Capabilities
	for c, on := range caps {
		if on && c != driver.CapFS && c != driver.CapSnapshot && c != driver.CapScript {
			return false
		}
	}
	return len(caps) > 0
}
