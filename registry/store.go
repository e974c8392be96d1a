package registry

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
)

// A Store stores records. Registries in any number of processes may use one store
// at once. A completed call is durable: its effect survives the death of every
// process, and power loss.
//
// A missing record is fault.NotFound, an unreachable store is fault.Unavailable.
type Store interface {
	records
	leases
	auth.KeyStore

	// Lock keeps Sweep and Open apart, in all processes: it is a reader-writer
	// lock, and waiters for the exclusive lock are not starved. It waits until it
	// has the lock or ctx ends. A lock ends with its process.
	Lock(ctx context.Context, exclusive bool) (unlock func(), err error)

	// ID is the permanent id of the store, made with the store.
	ID() string

	// Close closes the store.
	Close() error
}

// records is the part of a store with records.
type records interface {
	// Insert adds a record with version 1. A name that its owner uses for another
	// workspace is fault.AlreadyExists.
	Insert(ctx context.Context, rec Record) (Record, error)

	Get(ctx context.Context, id string) (Record, error)

	// List returns the records that match, oldest first.
	List(ctx context.Context, filter Filter) ([]Record, error)

	// Revision differs whenever a record was added, changed or deleted. It costs
	// less than List.
	Revision(ctx context.Context) (string, error)

	// Put replaces the record by compare-and-swap: if its version is no longer
	// rec.Version, it is fault.Conflict. LastUsed never decreases.
	Put(ctx context.Context, rec Record) (Record, error)

	// PutIdle is Put for a record that no living registry other than self holds;
	// otherwise it is fault.Conflict.
	PutIdle(ctx context.Context, rec Record, self string) (Record, error)

	// Delete deletes a record and its holds, if its version is still the given one.
	Delete(ctx context.Context, id string, version int64) error
}

// leases is the part of a store with the leases of registries and the workspaces
// that they hold. It uses the store's clock.
type leases interface {
	// Hold gives self a lease of ttl, records that self uses the workspace now, and
	// returns the record. A destroyed workspace is fault.NotFound.
	Hold(ctx context.Context, id string, self Holder, ttl time.Duration) (Record, error)

	// Beat renews the lease, stores when each workspace in uses was last used, and
	// returns the existing records of these. It restores holds that were lost
	// because the lease ran out.
	Beat(ctx context.Context, self Holder, ttl time.Duration, uses map[string]time.Time) (map[string]Record, error)

	// Release ends self's holds of the workspaces, and records their last use.
	Release(ctx context.Context, self string, uses map[string]time.Time) error

	// Holders lists the living registries that hold a workspace.
	Holders(ctx context.Context, id string) ([]Holder, error)

	// Alive reports whether the lease of a registry has not run out.
	Alive(ctx context.Context, holder string) (bool, error)

	// Leave ends a lease and its holds.
	Leave(ctx context.Context, self string) error

	// Reap deletes leases that have run out.
	Reap(ctx context.Context) error
}

//go:embed migrations/*.sql
var migrations embed.FS

// OpenStore opens a store by its URL and brings its schema up to date:
//
//	sqlite:PATH                   one file, created if missing
//	postgres://user@host/database as libpq writes it
func OpenStore(ctx context.Context, url string) (Store, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case scheme == "sqlite" && rest != "":
		return openSQLite(ctx, rest)
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return openPostgres(ctx, url)
	}
	// The URL may hold a password: the error names only its scheme.
	return nil, fmt.Errorf("registry: open store with scheme %q: %w: the stores are sqlite:PATH and postgres://HOST/DATABASE",
		scheme, fault.InvalidArgument)
}
