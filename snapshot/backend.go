package snapshot

import (
	"context"
	"io"
	"time"
)

// A Backend stores the objects of a store, each under a name of the form "kind/id".
// Objects are created atomically and never changed. A missing object is
// fault.NotFound.
type Backend interface {
	// Create begins an object. It is invisible until Pending.Commit.
	Create(ctx context.Context, name string) (Pending, error)

	// ReadRange reads exactly n bytes at off, or fails.
	ReadRange(ctx context.Context, name string, off, n int64) ([]byte, error)

	// List lists the objects of a kind, in any order.
	List(ctx context.Context, kind string) ([]Entry, error)

	// Delete removes an object. A missing object is not an error.
	Delete(ctx context.Context, name string) error
}

// A Locker is a backend with a reader-writer lock: writers of snapshots share it,
// and gc holds it exclusively. A lock ends with its process.
type Locker interface {
	// Lock waits for the lock, shared or exclusive.
	Lock(ctx context.Context, shared bool) (unlock func(), err error)

	// Clean removes objects that were begun and never committed. The caller holds
	// the exclusive lock.
	Clean(ctx context.Context) error
}

// Pending is an object that is being written.
type Pending interface {
	io.Writer

	// Commit publishes the object atomically, on stable storage.
	Commit(ctx context.Context) error

	// Abort discards the object. After Commit it does nothing.
	Abort()
}

// A Committer is a backend that commits several objects at less cost than one by
// one.
type Committer interface {
	// CommitAll commits the objects in order: each is on stable storage only after
	// all earlier ones are.
	CommitAll(ctx context.Context, list []Pending) error
}

// An Entry is an object that a backend lists.
type Entry struct {
	ID      string // the name without its kind
	Size    int64
	ModTime time.Time // by the clock of the backend
}
