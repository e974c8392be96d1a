package registry

import (
	"context"
	"fmt"
)

// A DataDirOwner is a place where providers keep what they hold, such as a data
// directory. Sweeping removes there what the store does not know, which is all
// that another store knows: a ground tells whose it is, so that a store that is
// lost, or mistaken for another one, takes no workspace with it.
//
// Stores are told apart by the id that Store.ID returns.
type DataDirOwner interface {
	// LockShared notes that workspaces of a store are on the ground, before one is
	// opened there. Nobody else has the ground alone until leave is called.
	LockShared(ctx context.Context, store string) (leave func(), err error)

	// LockExclusive returns when the ground is the store's alone, and keeps others from
	// entering until leave is called. Where another store has workspaces on the
	// ground, or nobody knows whose they are, it is fault.WrongState.
	LockExclusive(ctx context.Context, store string) (leave func(), err error)
}

// unowned is a ground that belongs to whoever asks.
type unowned struct{}

func (unowned) LockShared(context.Context, string) (func(), error)    { return func() {}, nil }
func (unowned) LockExclusive(context.Context, string) (func(), error) { return func() {}, nil }

// lockShared keeps sweeping out of the store and of the ground.
func (r *Registry) lockShared(ctx context.Context) (func(), error) {
	return r.lockStore(ctx, false, r.opts.Owner.LockShared)
}

// lockExclusive keeps opening out of the store and of the ground.
func (r *Registry) lockExclusive(ctx context.Context) (func(), error) {
	return r.lockStore(ctx, true, r.opts.Owner.LockExclusive)
}

func (r *Registry) lockStore(ctx context.Context, exclusive bool, ground func(context.Context, string) (func(), error)) (func(), error) {
	unlock, err := r.store.Lock(ctx, exclusive)
	if err != nil {
		return nil, err
	}
	leave, err := ground(ctx, r.store.ID())
	if err != nil {
		unlock()
		return nil, fmt.Errorf("registry: %w", err)
	}
	return func() { leave(); unlock() }, nil
}
