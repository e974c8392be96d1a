package registry

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
)

// A Store keeps records. Registries in any number of processes may use one
// store at once. What a method has answered is durable: it survives the death of
// every process, and power loss.
//
// A missing record is fault.NotFound, a store that does not answer is
// fault.Unavailable.
type Store interface {
	records
	leases

	// Lock keeps sweeping and opening apart, in all processes: any number may
	// hold the shared lock, or one the exclusive lock. It waits until it has the
	// lock or ctx ends; those who wait for the exclusive one are not starved. A
	// lock ends with the process that holds it.
	Lock(ctx context.Context, exclusive bool) (unlock func(), err error)

	// ID tells this store from every other one, for good: it is made with the
	// store.
	ID() string

	// Close lets go of the store.
	Close() error
}

// records is the part of a store that keeps records.
type records interface {
	// Insert adds a record with version 1. A name that its owner gave to another
	// workspace is fault.AlreadyExists.
	Insert(ctx context.Context, rec Record) (Record, error)

	Get(ctx context.Context, id string) (Record, error)

	// List returns the records that match, oldest first.
	List(ctx context.Context, filter Filter) ([]Record, error)

	// Revision is another one whenever a record came, changed or went. It costs
	// less than List.
	Revision(ctx context.Context) (string, error)

	// Put replaces the record if its version is still rec.Version, and answers
	// fault.Conflict otherwise. LastUsed never goes back.
	Put(ctx context.Context, rec Record) (Record, error)

	// PutIdle is Put for a record that no living registry but me holds; if one
	// does, it is fault.Conflict.
	PutIdle(ctx context.Context, rec Record, self string) (Record, error)

	// Delete forgets a record and who holds it, if its version is still the
	// given one.
	Delete(ctx context.Context, id string, version int64) error
}

// leases is the part of a store that knows which registries live and what they
// hold. The clock is the store's.
type leases interface {
	// Hold gives me a lease of ttl, records that it uses the workspace now, and
	// returns the record. A destroyed workspace is fault.NotFound.
	Hold(ctx context.Context, id string, self Holder, ttl time.Duration) (Record, error)

	// Beat renews the lease, stores when each workspace in uses was last used,
	// and returns the records of those among them that exist. Holds that were
	// lost because the lease ran out are put back.
	Beat(ctx context.Context, self Holder, ttl time.Duration, uses map[string]time.Time) (map[string]Record, error)

	// Release gives up what me holds of the workspaces, and records their last use.
	Release(ctx context.Context, self string, uses map[string]time.Time) error

	// Holders lists the living registries that hold a workspace.
	Holders(ctx context.Context, id string) ([]Holder, error)

	// Alive reports whether the lease of a registry has not run out.
	Alive(ctx context.Context, holder string) (bool, error)

	// Leave ends a lease and all its holds.
	Leave(ctx context.Context, self string) error

	// Reap forgets registries whose lease has run out.
	Reap(ctx context.Context) error
}

//go:embed migrations/*.sql
var migrations embed.FS

// OpenStore opens a store by its URL and brings its schema up to date:
//
//	sqlite:PATH                   one file, made where it is missing
//	postgres://user@host/database as libpq writes it
func OpenStore(ctx context.Context, url string) (Store, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case scheme == "sqlite" && rest != "":
		return openSQLite(ctx, rest)
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return openPostgres(ctx, url)
	}
	// The URL may hold a password, so no more than its scheme is told.
	return nil, fmt.Errorf("registry: open store with scheme %q: %w: the stores are sqlite:PATH and postgres://HOST/DATABASE",
		scheme, fault.InvalidArgument)
}
