package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Replica is a server of a cluster: several servers on one store. Each is a node, and each
// workspace is owned by one node.
type Replica struct {
	Node    string    `json:"node"`
	Address string    `json:"address" doc:"URL at which other replicas reach it"`
	Joined  time.Time `json:"joined" doc:"when it was started"`
	Expires time.Time `json:"expires" doc:"end of its lease; in the past, since when it is lost"`
	Live    bool      `json:"live" doc:"whether its lease has not run out"`

	data   string // id of its data directory
	holder string // id of its registry
}

// serves reports whether the registry is one of a server, not of a command beside it.
func (r Replica) serves() bool { return r.Address != "" }

// Cluster makes a registry one of a cluster. The zero value is none.
type Cluster struct {
	Node    string // name of this node; workspaces of its host keep it
	Address string // URL at which other replicas reach this one; "" is a command on the node
	Data    string // id of the data directory: no other one may have the same node
}

// An ElsewhereError is the error of an operation on a workspace that another living replica
// owns. Its text has no address: clients see it.
type ElsewhereError struct {
	Workspace string
	Owner     Replica
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("registry: workspace %s is served by node %s, and this is another node: %v", e.Workspace, e.Owner.Node, fault.Unavailable)
}

func (e *ElsewhereError) Unwrap() error { return fault.Unavailable }

// lostError is the error for a workspace on the host of a node that is not alive.
func lostError(id string, owner Replica) error {
	since := "it has not joined since the store was restored"
	if !owner.Expires.IsZero() {
		since = "the node is lost since " + owner.Expires.Format(time.RFC3339)
	}
	return fmt.Errorf("registry: workspace %s is on the host of node %s: %w: %s; the workspace can be used again when the node is back", id, owner.Node, fault.Unavailable, since)
}

func lostLeaseError(id string, self Replica) error {
	return fmt.Errorf("registry: workspace %s: %w: node %s has lost its lease in the store, and another node may own the workspace now; try again", id, fault.Unavailable, self.Node)
}

// clustered reports whether this registry is one of a cluster.
func (r *Registry) clustered() bool { return r.replica.Node != "" }

// Join registers this registry as a replica of its cluster, and starts the heartbeat. A
// server calls it before it answers requests. Without a cluster it does nothing.
func (r *Registry) Join(ctx context.Context) error {
	if !r.replica.serves() {
		return nil
	}
	var kinds []string
	for _, kind := range r.mux.Kinds() {
		if r.isPersistent(kind) && !r.isPortable(kind) {
			kinds = append(kinds, kind)
		}
	}
	began := time.Now()
	if err := r.store.Join(ctx, r.replica, r.opts.Lease, kinds); err != nil {
		return err
	}
	r.setLease(began)
	r.startHeartbeat()
	_, err := r.share(ctx)
	return err
}

// Leads reports whether this replica is the leader of its cluster, as of its last background
// work: it sweeps what every node reaches, and expires what no living node owns.
func (r *Registry) Leads() bool { return r.leads.Load() }

func (r *Registry) setLease(began time.Time) {
	until := began.Add(r.opts.Lease)
	r.leaseEnd.Store(&until)
}

// HasLease reports whether the lease of this replica has not run out; true without a cluster.
// It goes by the time before the lease was requested, so it ends before the store's does.
func (r *Registry) HasLease() bool {
	until := r.leaseEnd.Load()
	return !r.replica.serves() || until != nil && time.Now().Before(*until)
}

// Replicas lists the replicas of the cluster, also those that are gone, the longest joined first.
func (r *Registry) Replicas(ctx context.Context) ([]Replica, error) { return r.store.Replicas(ctx) }

// ForgetReplica deletes a replica that is not alive, and the records of the workspaces on its
// host. They are lost: if the node comes back, its sweep removes them.
func (r *Registry) ForgetReplica(ctx context.Context, node string) (forgotten int, err error) {
	var kinds []string
	for _, kind := range r.mux.Kinds() {
		if !r.isPortable(kind) {
			kinds = append(kinds, kind)
		}
	}
	recs, err := r.store.Forget(ctx, node, kinds)
	for _, rec := range recs {
		r.emitState(rec, rec.State, Destroyed, "")
	}
	return len(recs), err
}

// isPersistent reports whether the workspaces of a kind outlive a process.
func (r *Registry) isPersistent(kind string) bool {
	p, err := r.mux.Provider(kind)
	if err != nil {
		return false
	}
	return p.Features().HasWorkspaces != nil
}

// isPortable reports whether every node reaches the workspaces of a kind.
func (r *Registry) isPortable(kind string) bool {
	p, err := r.mux.Provider(kind)
	if err != nil {
		return false
	}
	return p.Features().Portable
}

// Owner returns the living replica that serves a workspace, if that is another one. A workspace
// that the context's principal does not see is NotFound.
func (r *Registry) Owner(ctx context.Context, id string) (owner Replica, elsewhere bool, err error) {
	if !r.clustered() {
		return Replica{}, false, nil
	}
	if e, ok := r.liveEntry(id); ok && r.mayUse(e) {
		return Replica{}, false, nil
	}
	owner, tenant, err := r.store.OwnerOf(ctx, id)
	if err != nil {
		return Replica{}, false, err
	}
	if !auth.SeesWorkspace(ctx, tenant, id) {
		return Replica{}, false, missingError(id)
	}
	return owner, owner.Live && owner.Node != r.replica.Node, nil
}

// mayUse reports whether a handle may be used without asking the store. Of a workspace that is
// portable another node takes over when the lease has run out.
func (r *Registry) mayUse(e *entry) bool { return !e.portable || r.HasLease() }

// checkLease renews a lease that has run out, and so learns which workspaces other nodes own
// now.
func (r *Registry) checkLease(ctx context.Context, id string) error {
	r.renewing.Lock()
	defer r.renewing.Unlock()
	if r.HasLease() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Lease/3)
	defer cancel()
	if err := r.renewLeaseLocked(ctx); err != nil {
		return fmt.Errorf("%w: %w", lostLeaseError(id, r.replica), err)
	}
	return nil
}

// claim makes this node the owner of a workspace, unless a living replica is, or the workspace
// is on the host of another node. It costs no query if the record says that the node is the
// owner already.
func (r *Registry) claim(ctx context.Context, rec Record) (Record, error) {
	portable := r.isPortable(rec.Kind)
	switch {
	case rec.Node == r.replica.Node && (!portable || r.HasLease()):
		return rec, nil
	case portable && r.clustered() && !r.replica.serves():
		return Record{}, fmt.Errorf("registry: workspace %s: %w: the workspaces of provider %s belong to the replicas of the cluster; use its server",
			rec.ID, fault.Unavailable, rec.Kind)
	}
	if r.clustered() && !portable && rec.Node == "" {
		if err := r.checkHere(ctx, rec); err != nil {
			return Record{}, err
		}
	}
	return r.store.Claim(ctx, rec.ID, r.replica, func(now Record, owner Replica) error {
		switch {
		case now.Node == "":
			return nil
		case owner.Live:
			return &ElsewhereError{rec.ID, owner}
		case portable && r.clustered(), !r.clustered() && owner.Address == "":
			return nil // the second is a store that was restored from a backup of a cluster
		}
		return lostError(rec.ID, owner)
	})
}

// checkHere refuses a workspace without a node, of a server before it was in a cluster, if it
// is not on this host. Resolve tells: to claim a workspace of another host would fail it.
func (r *Registry) checkHere(ctx context.Context, rec Record) error {
	if rec.Ref == nil {
		return nil
	}
	p, err := r.mux.Provider(rec.Kind)
	if err != nil {
		return err
	}
	d, err := r.callProvider(ctx, rec, "resolve", func(ctx context.Context) (*driver.Workspace, error) { return p.Resolve(ctx, *rec.Ref) })
	if err != nil {
		if fault.CauseOf(err) == fault.CauseStale {
			return nil // it is here, with a newer policy
		}
		return fmt.Errorf("registry: workspace %s was opened before its server was in a cluster, and node %s does not have it: %w: start the replica that has its data directory: %w", rec.ID, r.replica.Node, fault.Unavailable, err)
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	return d.Life.Close(ctx)
}

// claimID is claim for the change of a workspace, whose record may be destroyed or missing.
func (r *Registry) claimID(ctx context.Context, id string) error {
	rec, err := r.store.Get(ctx, id)
	switch {
	case fault.Of(err) == fault.NotFound:
		return nil // the change says so
	case err != nil:
		return err
	case !auth.Sees(ctx, rec.Tenant):
		return nil // as above
	}
	_, err = r.claim(ctx, rec)
	return err
}

// A share says which workspaces the background work of this registry is for. Each workspace is
// in the share of one living replica.
type share struct {
	registry *Registry
	live     map[string]bool // living nodes
	leader   bool            // of the living replicas, this one joined first
}

// share returns the share of this registry now. A command beside a replica has none.
func (r *Registry) share(ctx context.Context) (share, error) {
	s := share{registry: r, live: map[string]bool{}}
	if !r.replica.serves() {
		return s, nil
	}
	list, err := r.store.Replicas(ctx)
	if err != nil {
		return s, err
	}
	list = slices.DeleteFunc(list, func(one Replica) bool { return !one.Live })
	for _, one := range list {
		s.live[one.Node] = true
	}
	s.leader = len(list) > 0 && list[0].Node == r.replica.Node && list[0].holder == r.replica.holder
	r.leads.Store(s.leader)
	return s, nil
}

// has reports whether a workspace is in the share: one of this node or, for the leader, one of
// no living node that every node reaches. A workspace on the host of another node never is.
func (s share) has(rec Record) bool {
	r := s.registry
	switch {
	case !r.clustered():
		return rec.Node == ""
	case rec.Node == r.replica.Node:
		return true
	}
	return s.leader && !s.live[rec.Node] && r.isPortable(rec.Kind)
}

// sweeps reports whether the leftovers of a kind are in the share: those of this host and, for
// the leader, those that every node reaches.
func (s share) sweeps(kind string) bool {
	return !s.registry.clustered() || s.leader || !s.registry.isPortable(kind)
}

// buries reports whether the record of a destroyed workspace may be deleted after a sweep of
// its kind. Of a workspace on another host only that host's sweep removes the rest.
func (s share) buries(rec Record) bool {
	return rec.Node == "" || s.has(rec) || s.sweeps(rec.Kind) && s.registry.isPortable(rec.Kind)
}

// adoptUnassigned claims the workspaces of this host that have no node, because its server was
// not in a cluster when they were opened.
func (r *Registry) adoptUnassigned(ctx context.Context) error {
	if !r.replica.serves() {
		return nil
	}
	recs, err := r.store.List(ctx, Filter{})
	if err != nil {
		return err
	}
	var errs []error
	for _, rec := range recs {
		if rec.Node != "" || rec.Ref == nil || r.isPortable(rec.Kind) {
			continue
		}
		if _, err := r.claim(ctx, rec); err != nil && fault.Of(err) != fault.Unavailable && fault.Of(err) != fault.NotFound {
			errs = append(errs, fmt.Errorf("registry: adopt workspace %s: %w", rec.ID, err))
		}
	}
	return errors.Join(errs...)
}
