// Package flockfile takes flock(2) locks, by gofrs/flock, with a context that ends
// the wait.
package flockfile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/flock"
)

// retryInterval is how often a lock that another process holds is tried again:
// flock(2) can't be interrupted by a context.
const retryInterval = 2 * time.Millisecond

// Lock takes the exclusive lock on the file at path. Without options the file is
// created with mode 0600 where it does not exist. Close releases the lock.
func Lock(ctx context.Context, path string, opts ...flock.Option) (*flock.Flock, error) {
	return acquire(ctx, path, (*flock.Flock).TryLockContext, opts)
}

// RLock is Lock for the shared lock.
func RLock(ctx context.Context, path string, opts ...flock.Option) (*flock.Flock, error) {
	return acquire(ctx, path, (*flock.Flock).TryRLockContext, opts)
}

func acquire(ctx context.Context, path string, try func(*flock.Flock, context.Context, time.Duration) (bool, error), opts []flock.Option) (*flock.Flock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := flock.New(path, append([]flock.Option{flock.SetPermissions(0o600)}, opts...)...)
	if _, err := try(l, ctx, retryInterval); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), l.Close())
	}
	return l, nil
}
