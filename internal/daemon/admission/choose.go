package admission

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/provider/all"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// chooseProvider returns the name of the first provider that satisfies the spec:
// isolation, limits, network, durability, capabilities, and persistence if requested.
// If none does, the error has the reason of each.
func (r *Rules) chooseProvider(ctx context.Context, spec driver.Spec) (string, error) {
	var reasons []error
	for _, name := range r.candidateProviders() {
		kind, _, err := r.Settings().Provider(name)
		if err == nil && !r.Operator {
			err = r.Settings().CheckOffered(name, r.confined)
		}
		if err == nil && len(r.Settings().Defaults.Prefer) == 0 && fault.Of(r.confined(kind)) == fault.PermissionDenied {
			continue // it is used only where it is named
		}
		if err == nil {
			err = r.checkProvider(ctx, kind, spec)
		}
		if err == nil {
			return name, nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("app: choose a provider: %w", err)
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", name, err))
	}
	return "", fmt.Errorf("app: choose a provider: %w: no provider satisfies the policy; change it, or name a provider:\n%w", fault.Unsupported, errors.Join(reasons...))
}

// candidateProviders lists the names of providers, best first: those of defaults.prefer in the
// configuration, else all but those that are used only where they are named, in the order of provider/all.
func (r *Rules) candidateProviders() []string {
	if names := r.Settings().Defaults.Prefer; len(names) > 0 {
		return names
	}
	kinds := slices.DeleteFunc(r.Mux.Kinds(), func(kind string) bool {
		p, err := r.Mux.Provider(kind)
		return err != nil || p.Features().OnlyNamed
	})
	slices.SortStableFunc(kinds, func(a, b string) int { return all.Rank(a) - all.Rank(b) })
	return kinds
}

// checkProvider returns an error if a provider can't satisfy the spec.
func (r *Rules) checkProvider(ctx context.Context, kind string, spec driver.Spec) error {
	p, err := r.Mux.Provider(kind)
	if err != nil {
		return err
	}
	traits, err := p.Probe(ctx)
	if err != nil {
		return err
	}
	if err := spec.Policy.Check(traits); err != nil {
		return err
	}
	if spec.Policy.Persist && !traits.Persists() {
		return fmt.Errorf("persist: %w: its workspaces end with the process", fault.Unsupported)
	}
	if spec.Dir != "" && !traits.InPlace {
		return fmt.Errorf("a directory in place: %w: it can't use a directory of the host", fault.Unsupported)
	}
	if filepath.IsAbs(spec.From.Template) && traits.CopyOnWrite == "" {
		return fmt.Errorf("a template: %w: its workspaces start empty", fault.Unsupported)
	}
	if has := p.Features().Capabilities; has != nil {
		if missing := has.Missing(spec.Want); len(missing) > 0 {
			return fmt.Errorf("capabilities: %w: it lacks %s", fault.Unsupported, joinCapabilities(missing))
		}
	}
	return nil
}

func joinCapabilities(caps []driver.Capability) string {
	var out []string
	for _, c := range caps {
		out = append(out, string(c))
	}
	return strings.Join(out, ", ")
}

// resolveAuto replaces the provider name auto by the chosen provider. The policy of
// spec must be complete.
func (r *Rules) resolveAuto(ctx context.Context, spec *driver.Spec) error {
	name := spec.Kind
	if name == "" {
		name = r.Settings().Defaults.Provider
	}
	if name != config.Auto {
		return nil
	}
	chosen, err := r.chooseProvider(ctx, *spec)
	spec.Kind = chosen
	return err
}

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
