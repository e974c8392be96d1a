// Package keylock has a mutex per key, with a context that ends the wait.
package keylock

import (
	"context"
	"sync"
)

// Locks is a set of mutexes, one per key that is locked or waited for. The zero
// value is ready. It is safe for concurrent use.
type Locks[K comparable] struct {
	mu     sync.Mutex
	locked map[K]*entry
}

type entry struct {
	token chan struct{} // holds one value while the key is locked
	users int           // the holder and those that wait; guarded by Locks.mu
}

// Lock waits for the mutex of key. The error is the context's, unwrapped; unlock is
// nil then. unlock must be called once.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	l.mu.Lock()
	e := l.locked[key]
	if e == nil {
		if l.locked == nil {
			l.locked = map[K]*entry{}
		}
		e = &entry{token: make(chan struct{}, 1)}
		l.locked[key] = e
	}
	e.users++
	l.mu.Unlock()
	select {
	case e.token <- struct{}{}:
		return func() { <-e.token; l.leave(key, e) }, nil
	case <-ctx.Done():
		l.leave(key, e)
		return nil, context.Cause(ctx)
	}
}

func (l *Locks[K]) leave(key K, e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(l.locked, key)
	}
}
