// Package registry owns the identity of workspaces. It remembers what was asked
// for, opens it when it is first used, keeps what is needed to find it again,
// and ends it when it was told to, or when nobody used it for long.
//
//	store, err := registry.OpenStore(ctx, "sqlite:"+filepath.Join(data, "croft.db"))
//	r, err := registry.New(ctx, store, workspace.NewMux(providers...), nil)
//	rec, err := r.Create(ctx, workspace.Spec{Kind: "local", Name: "demo"})
//	ws, err := r.Acquire(ctx, rec.ID)
//
// # What is durable when
//
// A record goes through the states of [State], and every step that others could
// miss is stored before it is taken. The wish is stored before a provider is
// asked to open anything; the ref is stored before Acquire returns; a change of
// policy is stored as a wish, made, stored with its new ref, and only then
// acknowledged; a workspace is recorded as destroyed before anything of it is
// removed, and the record goes when the provider has confirmed. So a crash at
// any instant leaves a record from which Acquire, Destroy or Sweep goes on, and
// never a workspace without a record that outlives the next sweep.
//
// # One store, several processes
//
// Any number of registries may share one store: a daemon and command lines on
// one SQLite file, or many daemons on PostgreSQL. Records change by
// compare-and-swap. Each registry has a lease that it renews while it holds
// workspaces, and a row for each one that it holds, so that nobody expires a
// workspace which another one uses; the lease of a crashed registry runs out.
// The same beat tells a registry what others did to what it holds: handles on a
// workspace that was destroyed, closed or paused elsewhere, or whose policy
// changed, end within a third of a lease. Sweeping excludes every Open, in all
// processes.
//
// # Errors
//
// A transient failure of Open or Resolve is retried; a permanent one is stored,
// and Acquire answers with it at once, in every process, until Reset. A call
// that finds its workspace evicted attaches again from the ref, once, and is
// repeated once.
package registry
