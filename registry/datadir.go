package registry

import (
	"context"
	"fmt"
)

// A DataDirOwner records which registry stores have workspaces in the data
// directory of providers. Sweep deletes every workspace that its own store does not
// list, so running it with a new or wrong database would delete all workspaces; the
// owner record prevents that.
//
// A store is identified by Store.ID.
type DataDirOwner interface {
	// LockShared records, before a workspace is opened, that a store has workspaces
	// in the data directory. No other process gets the exclusive lock until leave
	// is called.
	LockShared(ctx context.Context, store string) (leave func(), err error)

	// LockExclusive waits for the exclusive lock, which excludes LockShared until
	// leave is called. If another store has workspaces in the data directory, or
	// the owner of existing ones is unknown, it returns fault.WrongState.
	LockExclusive(ctx context.Context, store string) (leave func(), err error)
}

// unowned is a DataDirOwner for a data directory that no other store uses.
type unowned struct{}

func (unowned) LockShared(context.Context, string) (func(), error)    { return func() {}, nil }
func (unowned) LockExclusive(context.Context, string) (func(), error) { return func() {}, nil }

// lockShared excludes Sweep, in the store and in the data directory.
func (r *Registry) lockShared(ctx context.Context) (func(), error) {
	return r.lockStore(ctx, false, r.opts.Owner.LockShared)
}

// lockExclusive excludes every Open, in the store and in the data directory.
func (r *Registry) lockExclusive(ctx context.Context) (func(), error) {
	return r.lockStore(ctx, true, r.opts.Owner.LockExclusive)
}

func (r *Registry) lockStore(ctx context.Context, exclusive bool, lockDir func(context.Context, string) (func(), error)) (func(), error) {
	unlock, err := r.store.Lock(ctx, exclusive)
	if err != nil {
		return nil, err
	}
	leave, err := lockDir(ctx, r.store.ID())
	if err != nil {
		unlock()
		return nil, fmt.Errorf("registry: %w", err)
	}
	return func() { leave(); unlock() }, nil
}
