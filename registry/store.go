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
	replicas
	auth.KeyStore

	// Lock keeps Sweep and Open apart, in all processes: it is a reader-writer
	// lock, and waiters for the exclusive lock are not starved. It waits until it
	// has the lock or ctx ends. A lock ends with its process.
	Lock(ctx context.Context, exclusive bool) (unlock func(), err error)

	// LockTenant keeps other servers on the store from changing how much of its quota a tenant
	// uses. It waits until it has the lock or ctx ends. A lock ends with its process.
	LockTenant(ctx context.Context, tenant string) (unlock func(), err error)

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
	// Hold gives self a lease of ttl, unless it has one for half of that, records that self uses the workspace now, and
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

// replicas is the part of a store with the replicas of a cluster, and the nodes that own
// workspaces. It uses the store's clock.
type replicas interface {
	// Join registers a replica under the name of its node, with a lease of ttl. If a living
	// replica with another data directory has the name, it is fault.AlreadyExists; also if one
	// that is lost has it, and workspaces of the given kinds, which are in that directory.
	Join(ctx context.Context, self Replica, ttl time.Duration, kinds []string) error

	// Renew renews the lease of a replica. If another process has joined as the same node, it
	// is fault.Conflict.
	Renew(ctx context.Context, self Replica, ttl time.Duration) error

	// Part ends the lease of a replica, whose row stays.
	Part(ctx context.Context, self Replica) error

	// Replicas lists the replicas that ever joined, by the time when they last did.
	Replicas(ctx context.Context) ([]Replica, error)

	// Forget deletes a replica that is not alive, and the records of the workspaces of its node
	// of the given kinds. A living one is fault.WrongState.
	Forget(ctx context.Context, node string, kinds []string) (forgotten []Record, err error)

	// OwnerOf returns the tenant and the node of a workspace, and its replica, which has no address if none
	// ever joined. A missing record is fault.NotFound.
	OwnerOf(ctx context.Context, id string) (owner Replica, tenant string, err error)

	// Claim makes the node of self the owner of a workspace, and returns its record. Allowed
	// decides, from the record and the replica of its present node, which is locked.
	Claim(ctx context.Context, id string, self Replica, allowed func(rec Record, owner Replica) error) (Record, error)
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
