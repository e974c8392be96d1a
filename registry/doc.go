// Package registry stores the identity and state of workspaces, opens them on first
// use, and closes or destroys them on request or when idle.
//
//	store, err := registry.OpenStore(ctx, "sqlite:"+filepath.Join(data, "croft.db"))
//	r, err := registry.New(ctx, store, workspace.NewMux(providers...), nil)
//	rec, err := r.Create(ctx, workspace.Spec{Kind: "local", Name: "demo"})
//	ws, err := r.Acquire(ctx, rec.ID)
//
// # What is durable when
//
// A record goes through the states of [State], and every step that another process
// could miss is stored before it is taken. The spec is stored before a provider is
// asked to open anything; the ref is stored before Acquire returns; a change of
// policy is stored as pending, made, stored with its new ref, and only then
// acknowledged; a workspace is recorded as destroyed before anything of it is
// removed, and the record is deleted when the provider has confirmed. So a crash at
// any instant leaves a record from which Acquire, Destroy or Sweep continues, and
// never a workspace without a record that outlives the next sweep.
//
// # One store, several processes
//
// Any number of registries may share one store: a daemon and command lines on one
// SQLite file, or many daemons on PostgreSQL. Records change by compare-and-swap.
// Each registry has a lease that it renews by a heartbeat while it holds
// workspaces, and a row for each workspace that it holds, so that no registry
// expires a workspace that another one uses; the lease of a crashed registry runs
// out. By the heartbeat a registry also learns of changes by other processes:
// handles on a workspace that was destroyed, closed or paused elsewhere, or whose
// policy changed, end within a third of a lease. Sweep excludes every Open, in all
// processes.
//
// # Errors
//
// A transient failure of Open or Resolve is retried with backoff. A permanent one
// is stored, and Acquire returns it at once, in every process, until Reset. A call
// whose workspace was evicted attaches again from the ref, once, and is repeated
// once.
package registry
