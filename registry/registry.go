package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/background"
	"github.com/croft-run/croft/internal/keylock"
	"github.com/croft-run/croft/internal/suggest"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Registry stores, opens and ends workspaces. It is safe for concurrent use, and
// any number of registries, in any number of processes, may share a store.
type Registry struct {
	store Store
	mux   *workspace.Mux
	opts  Options
	self  Holder

	replica  Replica // of this registry; zero without a cluster
	leaseEnd atomic.Pointer[time.Time]
	renewing sync.Mutex // serialises renewLease
	leads    atomic.Bool

	// base has the values of New's context, for background work. Shutdown cancels
	// it.
	base context.Context
	end  context.CancelFunc

	live    sync.Map              // id -> *entry
	changes keylock.Locks[string] // by id; see lockWorkspace
	quotas  keylock.Locks[string] // by tenant; see lockQuota

	background *background.Tracker

	mu               sync.Mutex
	changing         map[string]*change   // guarded by mu; holders of changes, by id
	openCalls        map[string]*openCall // guarded by mu
	openCount        int                  // guarded by mu; entries and open calls
	isDown           bool                 // guarded by mu
	heartbeatStarted bool                 // guarded by mu
	leased           bool                 // guarded by mu; there may be a lease
	wg               sync.WaitGroup       // open calls, the heartbeat, and handles that end
}

// Options are the options of New. The zero value fits most programs.
type Options struct {
	Log    *slog.Logger // nil discards
	Events event.Sink   // nil is event.Discard
	Owner  DataDirOwner // of the providers' data directory; nil if no other store uses it

	// Swept, if set, is called by Sweep after the providers, with the ids of all
	// workspaces: the caller removes its own data of all other ones.
	Swept func(ctx context.Context, live []string) error

	// Removed, if set, is called when a workspace was destroyed, before its record is
	// deleted: the caller removes its own data. After an error Swept removes the rest.
	Removed func(ctx context.Context, id string) error

	// HasSecret, if set, reports whether a text has a secret. Such names, sessions and
	// labels are refused: they are stored, listed and logged.
	HasSecret func(text string) bool

	// HasSecretValue, if set, reports whether a text has the value of a configured
	// secret. A ref with one is refused, because refs are stored. Unlike HasSecret it
	// must not go by the look of a text: a ref may have random ids and digests.
	HasSecretValue func(text string) bool

	// Scrub, if set, removes secrets from the text of a provider's error, which is stored
	// and shown.
	Scrub func(text string) string

	// CheckSource, if set, refuses a workspace that starts from what the context's principal
	// may not read. The workspace itself is opened without a principal.
	CheckSource func(ctx context.Context, from driver.Source) error

	// Quota, if set, returns the quota of a tenant. Workspaces without a tenant have none.
	Quota func(tenant string) Quota

	// Admit, if set, refuses handles on workspaces of a kind. Their records can still be
	// listed, and they can be destroyed.
	Admit func(kind string) error

	Retries     int           // of a transient failure; 0 is 3, negative disables
	RetryFor    time.Duration // most of the sum of the waits; 0 is 10 s
	OpenTimeout time.Duration // bounds one Acquire's work with the provider; 0 is 10 min
	Lease       time.Duration // how long a crashed registry keeps its holds; 0 is 15 s
	ExpireEvery time.Duration // interval of Expire in Run; 0 is 5 s
	MaxOpen     int           // live workspaces of this registry; 0 is no limit
	MaxFileSize int64         // of a write; 0 is no limit but the provider's

	Cluster Cluster // of which this registry is a part; the zero value is none
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Log == nil {
		out.Log = slog.New(slog.DiscardHandler)
	}
	if out.HasSecret == nil {
		out.HasSecret = func(string) bool { return false }
	}
	if out.HasSecretValue == nil {
		out.HasSecretValue = func(string) bool { return false }
	}
	if out.Scrub == nil {
		out.Scrub = func(text string) string { return text }
	}
	if out.Events == nil {
		out.Events = event.Discard
	}
	if out.Owner == nil {
		out.Owner = unowned{}
	}
	if out.Retries == 0 {
		out.Retries = 3
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&out.RetryFor, 10 * time.Second}, {&out.OpenTimeout, 10 * time.Minute},
		{&out.Lease, 15 * time.Second}, {&out.ExpireEvery, 5 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return out
}

// New returns a registry over a store, which the caller closes after Shutdown. It
// starts nothing: a long-running program also calls Run.
func New(ctx context.Context, store Store, mux *workspace.Mux, opts *Options) (*Registry, error) {
	if store == nil || mux == nil {
		return nil, fmt.Errorf("registry: new: %w: a store and a mux are required", fault.InvalidArgument)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	r := &Registry{
		store: store, mux: mux, opts: opts.withDefaults(),
		self: Holder{ID: driver.NewID(), Host: host, PID: os.Getpid()},
		base: base, end: end,
		openCalls: map[string]*openCall{}, changing: map[string]*change{},
	}
	r.background = background.New(base, r.opts.Log)
	c := r.opts.Cluster
	r.replica = Replica{Node: c.Node, Address: c.Address, data: c.Data, holder: r.self.ID}
	return r, nil
}

// Create stores the spec of a workspace and returns its record. It makes an id if
// spec has none. The workspace belongs to the tenant of the context's principal.
// Acquire opens the workspace.
func (r *Registry) Create(ctx context.Context, spec workspace.Spec) (Record, error) {
	return r.CreateWith(ctx, spec, Attributes{})
}

// CreateWith is Create for a workspace with attributes.
func (r *Registry) CreateWith(ctx context.Context, spec workspace.Spec, attrs Attributes) (Record, error) {
	fresh := spec.ID == ""
	if fresh {
		spec.ID = driver.NewID()
	}
	if err := errors.Join(r.checkSpec(spec), attrs.check()); err != nil {
		return Record{}, fmt.Errorf("registry: create: %w", err)
	}
	if r.opts.CheckSource != nil && spec.From != (driver.Source{}) {
		if err := r.opts.CheckSource(ctx, spec.From); err != nil {
			return Record{}, fmt.Errorf("registry: create: %w", err)
		}
	}
	unlock, err := r.lockQuota(ctx, auth.Tenant(ctx), spec.ID, spec.Policy)
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	release := func() {}
	if fresh {
		spec.ID, release = r.reserveID(spec)
	}
	now := time.Now().UTC()
	rec, err := r.store.Insert(ctx, Record{
		ID: spec.ID, Name: spec.Name, Tenant: auth.Tenant(ctx), Owner: spec.Session.User, Kind: spec.Kind, State: Intended,
		Spec: spec, Labels: spec.Labels, CreatedAt: now, UpdatedAt: now, LastUsed: now, Attributes: attrs, Node: r.replica.Node,
	})
	if err != nil {
		release()
		return Record{}, err
	}
	r.emitState(rec, "", Intended, "")
	return rec, nil
}

// reserveID reserves a workspace that the provider created in advance, and returns
// its id. If the provider has no such workspace, reserveID returns spec.ID. A caller
// that does not open the workspace calls release, which ends the reservation.
func (r *Registry) reserveID(spec workspace.Spec) (id string, release func()) {
	id, release = spec.ID, func() {}
	p, err := r.mux.Provider(spec.Kind)
	if err != nil {
		return id, release // Acquire reports the error
	}
	pool := p.Features()
	if pool.Reserve == nil {
		return id, release
	}
	spec.ID = ""
	if ready := pool.Reserve(spec); driver.ValidID(ready) {
		return ready, func() { pool.Release(ready) }
	}
	return id, release
}

// Fork creates a workspace like another, whose own files start as a snapshot. It has none
// of the other's attributes.
func (r *Registry) Fork(ctx context.Context, of Record, from driver.Source, name string, labels map[string]string) (Record, error) {
	spec := of.Spec
	spec.ID, spec.Dir, spec.Name = "", "", name
	spec.Labels, spec.From = labels, from
	return r.Create(ctx, spec)
}

// Lookup returns the record of an owner's workspace by name or id. An empty owner
// finds every id, and the names without an owner. A name is one of the principal's tenant.
func (r *Registry) Lookup(ctx context.Context, owner, nameOrID string) (Record, error) {
	missing := fault.WithHint(fmt.Errorf("registry: workspace %q: %w", nameOrID, fault.NotFound), fault.HintList, "workspaces")
	switch {
	case driver.ValidID(nameOrID):
		rec, err := r.getRecord(ctx, nameOrID)
		if err == nil && owner != "" && rec.Owner != owner {
			return Record{}, missing
		}
		return rec, err
	case driver.ValidWorkspaceName(nameOrID):
		recs, err := r.store.List(ctx, Filter{Name: nameOrID, Owner: owner})
		if err != nil {
			return Record{}, err
		}
		for _, rec := range recs {
			if rec.Owner == owner && rec.Tenant == auth.Tenant(ctx) && auth.SeesWorkspace(ctx, rec.Tenant, rec.ID) {
				return rec, nil
			}
		}
		if near := r.suggestName(ctx, owner, nameOrID); near != "" {
			return Record{}, fault.Advise(missing, "did you mean %s?", near)
		}
		return Record{}, missing
	}
	err := fmt.Errorf("registry: workspace %q: %w: it is neither an id nor a name ([a-z0-9][a-z0-9-]{0,62})", nameOrID, fault.InvalidArgument)
	return Record{}, fault.WithHint(err, fault.HintList, "workspace names")
}

// suggestName returns a similar name of the owner's workspaces.
func (r *Registry) suggestName(ctx context.Context, owner, name string) string {
	recs, err := r.store.List(ctx, Filter{Owner: owner})
	if err != nil {
		return ""
	}
	var names []string
	for _, rec := range recs {
		if rec.Owner == owner && rec.Tenant == auth.Tenant(ctx) && auth.SeesWorkspace(ctx, rec.Tenant, rec.ID) && rec.Name != "" {
			names = append(names, rec.Name)
		}
	}
	return suggest.Word(name, names)
}

// List returns the records that match, oldest first. A principal sees the workspaces of its
// tenant; the operator sees all.
func (r *Registry) List(ctx context.Context, filter Filter) ([]Record, error) {
	recs, err := r.store.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(recs, func(rec Record) bool { return !auth.SeesWorkspace(ctx, rec.Tenant, rec.ID) }), nil
}

// Revision differs whenever a record was added, changed or deleted by any process.
// It costs less than List.
func (r *Registry) Revision(ctx context.Context) (string, error) {
	return r.store.Revision(ctx)
}

// Describe returns the record and live state of a workspace. It opens nothing.
func (r *Registry) Describe(ctx context.Context, id string) (Description, error) {
	rec, err := r.getRecord(ctx, id)
	if err != nil {
		return Description{}, err
	}
	d := Description{Record: rec, Moves: rec.State.Moves()}
	if d.Holders, err = r.store.Holders(ctx, id); err != nil {
		return Description{}, err
	}
	if e, ok := r.liveEntry(id); ok {
		traits := e.ws.Traits()
		d.Live, d.Traits = true, &traits
	}
	return d, nil
}

// Live returns the live handle of a workspace, if this process has one. It opens nothing, and is
// no use of the workspace.
func (r *Registry) Live(ctx context.Context, id string) (*workspace.Workspace, bool) {
	e, ok := r.liveEntry(id)
	if !ok || !auth.SeesWorkspace(ctx, e.tenant, id) {
		return nil, false
	}
	return e.ws, true
}

// SetLabels replaces the labels of a workspace.
func (r *Registry) SetLabels(ctx context.Context, id string, labels map[string]string) (Record, error) {
	if err := r.checkLabels(labels); err != nil {
		return Record{}, fmt.Errorf("registry: set labels of %s: %w", id, err)
	}
	return r.changeRecord(ctx, id, func(rec *Record) error {
		rec.Labels = labels
		return nil
	})
}

// SetAttributes changes the attributes of a workspace. Change may be called several times.
func (r *Registry) SetAttributes(ctx context.Context, id string, change func(*Attributes) error) (Record, error) {
	return r.changeRecord(ctx, id, func(rec *Record) error {
		if err := change(&rec.Attributes); err != nil {
			return err
		}
		if err := rec.check(); err != nil {
			return fmt.Errorf("registry: workspace %s: %w", id, err)
		}
		return nil
	})
}

// getRecord returns a record that is not destroyed. The record of a tenant that the
// principal does not see is not found.
func (r *Registry) getRecord(ctx context.Context, id string) (Record, error) {
	if !driver.ValidID(id) {
		return Record{}, fmt.Errorf("registry: workspace id %q: %w: an id is %d of [a-z0-9]", id, fault.InvalidArgument, driver.IDLength)
	}
	rec, err := r.store.Get(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if !auth.SeesWorkspace(ctx, rec.Tenant, rec.ID) {
		return Record{}, missingError(id)
	}
	if rec.State == Destroyed {
		return Record{}, destroyedError(id)
	}
	return rec, nil
}

func missingError(id string) error {
	return fmt.Errorf("registry: workspace %s: %w", id, fault.NotFound)
}

func destroyedError(id string) error {
	return fmt.Errorf("registry: workspace %s was destroyed: %w", id, fault.NotFound)
}

// errUnchanged is returned by a change that has nothing to do.
var errUnchanged = errors.New("unchanged")

// changeRecord applies f to the record and stores it by compare-and-swap; on a
// conflict it reads the record and applies f again. A destroyed record can't be
// changed.
func (r *Registry) changeRecord(ctx context.Context, id string, f func(rec *Record) error) (Record, error) {
	for {
		rec, err := r.getRecord(ctx, id)
		if err != nil {
			return Record{}, err
		}
		next := rec.clone()
		if err := f(&next); errors.Is(err, errUnchanged) {
			return rec, nil
		} else if err != nil {
			return rec, err
		}
		stored, err := r.putRecord(ctx, rec.State, next, r.store.Put)
		if fault.Of(err) != fault.Conflict || ctx.Err() != nil {
			return stored, err
		}
	}
}

// putRecord stores a record that came from the given state, and emits its state
// changes.
func (r *Registry) putRecord(ctx context.Context, from State, rec Record, store func(context.Context, Record) (Record, error)) (Record, error) {
	rec.UpdatedAt = time.Now().UTC()
	rec, err := store(ctx, rec)
	if err != nil {
		return Record{}, err
	}
	for _, to := range shortestRoute(from, rec.State) {
		var code string
		if to == Failed && rec.Error != nil {
			code = rec.Error.Code
		}
		r.emitState(rec, from, to, code)
		from = to
	}
	return rec, nil
}

func (r *Registry) emitState(rec Record, from, to State, code string) {
	fields := map[string]any{event.FieldFrom: string(from), event.FieldTo: string(to), event.FieldProvider: rec.Kind}
	if code != "" {
		fields[event.FieldCode] = code
	}
	r.opts.Events.Emit(event.Event{Kind: event.WorkspaceState, Tenant: rec.Tenant, Workspace: rec.ID, Session: rec.Spec.Session.ID, Fields: fields})
}
