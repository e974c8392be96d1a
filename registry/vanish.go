package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/croft-run/croft/fault"
)

// markVanished finds workspaces that lived in the memory of a process that has
// died, and acquires each, which stores the failure and its cause. Their records
// would otherwise stay ready until the next use. It skips workspaces that a living
// registry holds, and those that outlive processes. again is true if a dead process
// still holds some by its lease.
func (r *Registry) markVanished(ctx context.Context) (again bool, err error) {
	recs, err := r.store.List(ctx, Filter{States: []State{Ready, Evicted, Closed}})
	if err != nil {
		return true, err
	}
	mine, err := r.share(ctx)
	if err != nil {
		return true, err
	}
	persists := map[string]bool{}
	var errs []error
	var ids []string
	for _, rec := range recs {
		if rec.Ref == nil || !mine.has(rec) {
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
		ids = append(ids, rec.ID)
	}
	err = r.background.Each(ctx, "look", ids, func(ctx context.Context, id string) error {
		if _, err := r.Acquire(ctx, id); err != nil && fault.Of(err) != fault.Failed {
			return fmt.Errorf("registry: look for workspace %s: %w", id, err)
		}
		return nil
	})
	return again, errors.Join(append(errs, err)...)
}

// kindPersists reports whether workspaces of a kind outlive the process; true if
// that is unknown.
func (r *Registry) kindPersists(ctx context.Context, kind string) bool {
	p, err := r.mux.Provider(kind)
	if err != nil {
		return true
	}
	traits, err := p.Probe(ctx)
	return err != nil || traits.Persists()
}
