package snapshot

import (
	"context"
	"io"
	"time"
)

// A Backend keeps the objects of a store, each under a name of the form
// "kind/id". Objects are made at once and never changed. Missing ones are
// fault.NotFound.
type Backend interface {
	// Create begins an object. Nobody sees it before Pending.Commit.
	Create(ctx context.Context, name string) (Pending, error)

	// ReadRange reads n bytes at off; all of them, or it fails.
	ReadRange(ctx context.Context, name string, off, n int64) ([]byte, error)

	// List lists the objects of a kind, in any order.
	List(ctx context.Context, kind string) ([]Entry, error)

	// Delete removes an object. One that is gone already is no error.
	Delete(ctx context.Context, name string) error
}

// A Locker is a backend on which those who write can be told from those who
// remove. Locks end with their process.
type Locker interface {
	// Lock waits until nobody excludes the caller: those who share exclude those
	// who do not.
	Lock(ctx context.Context, shared bool) (unlock func(), err error)

	// Clean removes what was begun and never committed. It is called while
	// nobody else has a lock.
	Clean(ctx context.Context) error
}

// Pending is an object that is being written.
type Pending interface {
	io.Writer

	// Commit makes the object visible, whole and on stable storage.
	Commit(ctx context.Context) error

	// Abort removes what was written. After Commit it does nothing.
	Abort()
}

// A Committer is a backend that commits several objects for less than one after
// another would take.
type Committer interface {
	// CommitAll is Pending.Commit of each, in order: none is on stable storage
	// before all before it are.
	CommitAll(ctx context.Context, list []Pending) error
}

// An Entry is an object that a backend lists.
type Entry struct {
	ID      string // the name without its kind
	Size    int64
	ModTime time.Time // by the clock of the backend
}
