package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/croft-run/croft/fault"
)

// markVanished looks for workspaces that were in the memory of a process that has
// died. Their records say that they are ready, and would until somebody used them;
// a look at each makes them failed, with the cause. What a living registry holds,
// and what outlives processes, is left alone. Again says that some are held by a
// process that died, until its lease ends.
func (r *Registry) markVanished(ctx context.Context) (again bool, err error) {
	recs, err := r.store.List(ctx, Filter{States: []State{Ready, Evicted, Closed}})
	if err != nil {
		return true, err
	}
	persists := map[string]bool{}
	var errs []error
	for _, rec := range recs {
		if rec.Ref == nil {
			continue
		}
		keeps, known := persists[rec.Kind]
		if !known {
			keeps = r.kindPersists(ctx, rec.Kind)
			persists[rec.Kind] = keeps
		}
		if keeps {
			continue
		}
		holders, err := r.store.Holders(ctx, rec.ID)
		if err != nil || len(holders) > 0 {
			again = again || err != nil || !slices.ContainsFunc(holders, func(h Holder) bool { return !h.Died() })
			errs = append(errs, err)
			continue
		}
		if _, err := r.Acquire(ctx, rec.ID); err != nil && fault.Of(err) != fault.Failed {
			errs = append(errs, fmt.Errorf("registry: look for workspace %s: %w", rec.ID, err))
		}
	}
	return again, errors.Join(errs...)
}

// kindPersists reports whether workspaces of a kind outlive the process, also where
// that can't be known.
func (r *Registry) kindPersists(ctx context.Context, kind string) bool {
	p, err := r.mux.Provider(kind)
	if err != nil {
		return true
	}
	traits, err := p.Probe(ctx)
	return err != nil || traits.Persists()
}
