package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Sweep makes every provider remove what belongs to no workspace of this registry:
// leftovers of crashes and of interrupted removals. No process opens a workspace
// meanwhile.
//
// If another store has workspaces in the data directory, Sweep removes nothing and
// returns fault.WrongState.
func (r *Registry) Sweep(ctx context.Context) error {
	var providers []driver.Provider
	for _, kind := range r.mux.Kinds() {
		p, err := r.mux.Provider(kind)
		if err != nil {
			return err
		}
		providers = append(providers, p)
	}
	return errors.Join(r.sweepProviders(ctx, providers), r.store.Reap(ctx))
}

// sweepDestroyed sweeps if a removal was interrupted.
func (r *Registry) sweepDestroyed(ctx context.Context) error {
	tombs, err := r.store.List(ctx, Filter{States: []State{Destroyed}})
	if err != nil || len(tombs) == 0 {
		return err
	}
	mine, err := r.share(ctx)
	if err != nil || !slices.ContainsFunc(tombs, mine.buries) {
		return err
	}
	return r.Sweep(ctx)
}

// sweepProviders sweeps the given providers. The list of ids is read while no
// workspace can be opened, so anything else that a provider finds is a leftover. A
// destroyed record on that list, whose provider swept without error, is deleted. In a cluster
// each node sweeps its own host, and the leader what every node reaches.
func (r *Registry) sweepProviders(ctx context.Context, providers []driver.Provider) error {
	// While the lock is waited for, new opens wait, too: one that hangs must not stop them.
	wait, cancel := context.WithTimeoutCause(ctx, sweepWait,
		fmt.Errorf("registry: sweep: %w: a workspace is being opened for longer than %v", fault.Unavailable, sweepWait))
	unlock, err := r.lockExclusive(wait)
	if err != nil && ctx.Err() == nil && wait.Err() != nil {
		err = context.Cause(wait)
	}
	cancel()
	if err != nil {
		return err
	}
	defer unlock()
	mine, err := r.share(ctx)
	if err != nil {
		return err
	}
	recs, err := r.store.List(ctx, Filter{States: states})
	if err != nil {
		return err
	}
	live, tombs := []string{}, map[string][]Record{}
	for _, rec := range recs {
		if rec.State == Destroyed {
			tombs[rec.Kind] = append(tombs[rec.Kind], rec)
		} else {
			live = append(live, rec.ID)
		}
	}
	var errs []error
	for _, p := range providers {
		if !mine.sweeps(p.Kind()) {
			continue
		}
		if err := sweepProvider(ctx, p, live); err != nil {
			errs = append(errs, fmt.Errorf("registry: sweep %s: %w", p.Kind(), err))
			continue
		}
		for _, tomb := range tombs[p.Kind()] {
			if !mine.buries(tomb) {
				continue
			}
			if err := r.store.Delete(ctx, tomb.ID, tomb.Version); err != nil && fault.Of(err) != fault.NotFound {
				errs = append(errs, err)
			}
		}
	}
	if r.opts.Swept != nil {
		errs = append(errs, r.opts.Swept(ctx, live))
	}
	return errors.Join(errs...)
}

const (
	sweepWait = 15 * time.Second // for opens that are under way
	sweepTime = 2 * time.Minute  // of one provider; nothing is opened meanwhile
)

// sweepProvider calls Sweep, and returns a panic as an error.
func sweepProvider(ctx context.Context, p driver.Provider, live []string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: the provider panicked: %v", fault.Internal, v)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	return p.Sweep(ctx, live)
}
