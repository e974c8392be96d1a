package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// counted is a provider that counts what is asked of it, per id. Several registries share one
// value, as several nodes reach one remote service; with portable it says so.
type counted struct {
	driver.Provider
	portable bool
	mu       sync.Mutex
	opens    map[string]int
	resolves map[string]int
	sweeps   atomic.Int64
	swept    func(live []string)
}

func newCounted(portable bool) *counted {
	return &counted{Provider: new(memory.Provider), portable: portable, opens: map[string]int{}, resolves: map[string]int{}}
}

func (p *counted) Features() driver.Features {
	f := p.Provider.Features()
	f.Portable = p.portable
	return f
}

func (p *counted) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	p.mu.Lock()
	p.opens[spec.ID]++
	p.mu.Unlock()
	return p.Provider.Open(ctx, spec)
}

func (p *counted) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var own struct{ ID string }
	if err := json.Unmarshal(ref.Payload, &own); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.resolves[own.ID]++
	p.mu.Unlock()
	return p.Provider.Resolve(ctx, ref)
}

func (p *counted) Sweep(ctx context.Context, live []string) error {
	p.sweeps.Add(1)
	if p.swept != nil {
		p.swept(live)
	}
	return p.Provider.Sweep(ctx, live)
}

// node is a registry of a cluster.
func newNode(t *testing.T, url, name string, p driver.Provider, lease time.Duration) *Registry {
	t.Helper()
	r, err := New(t.Context(), openStore(t, url), workspace.NewMux(p), &Options{
		Lease: lease, Cluster: Cluster{Node: name, Address: "http://" + name + ":7070", Data: "data-" + name},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Errorf("shut down %s: %v", name, err)
		}
	})
	if err := r.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// kill ends the heartbeat of a registry as the death of its process does, and its lease.
func kill(t *testing.T, r *Registry) {
	t.Helper()
	r.end()
	if err := r.waitBackground(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.leased = false // Shutdown writes nothing
	r.mu.Unlock()
	s := r.store.(*postgresStore)
	for _, query := range []string{`UPDATE replicas SET expires_at = 1 WHERE node = $1`, `DELETE FROM holders WHERE id = '` + r.self.ID + `' AND $1 <> ''`} {
		if _, err := s.db.ExecContext(t.Context(), query, r.replica.Node); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-time.Second)
	r.leaseEnd.Store(&past)
}

func createOn(t *testing.T, r *Registry, edit func(*workspace.Spec)) string {
	t.Helper()
	spec := workspace.Spec{Kind: memory.Kind}
	if edit != nil {
		edit(&spec)
	}
	rec, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return rec.ID
}

//croft:race
func TestOneNodeOwnsAWorkspace(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprintf("portable=%v", portable), func(t *testing.T) {
			p := newCounted(portable)
			suffix := fmt.Sprint(portable)
			a, b := newNode(t, url, "a-"+suffix, p, time.Minute), newNode(t, url, "b-"+suffix, p, time.Minute)
			id := createOn(t, a, nil)
			if _, err := a.Acquire(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			verbs := map[string]func() error{
				"acquire": func() error { _, err := b.Acquire(t.Context(), id); return err },
				"destroy": func() error { return b.Destroy(t.Context(), id) },
				"close":   func() error { return b.Close(t.Context(), id) },
				"pause":   func() error { return b.Pause(t.Context(), id) },
				"update":  func() error { _, err := b.Update(t.Context(), id, workspace.Policy{Idle: time.Hour}); return err },
			}
			for verb, call := range verbs {
				var elsewhere *ElsewhereError
				if err := call(); !errors.As(err, &elsewhere) || elsewhere.Owner.Address != "http://a-"+suffix+":7070" || fault.Of(err) != fault.Unavailable {
					t.Errorf("%s on another node: %v; want the owner's address", verb, err)
				}
			}
			if owner, elsewhere, err := b.Owner(t.Context(), id); err != nil || !elsewhere || owner.Node != "a-"+suffix {
				t.Errorf("owner seen by b: %+v, %v, %v", owner, elsewhere, err)
			}
			if _, elsewhere, err := a.Owner(t.Context(), id); err != nil || elsewhere {
				t.Errorf("owner seen by a: elsewhere %v, %v", elsewhere, err)
			}

			kill(t, a)
			_, err := b.Acquire(t.Context(), id)
			if portable {
				if err != nil {
					t.Errorf("a portable workspace of a lost node: %v", err)
				}
				if rec, _ := b.getRecord(t.Context(), id); rec.Node != "b-true" {
					t.Errorf("its node is %q", rec.Node)
				}
				// The old owner comes back, and must not use it.
				if _, err := a.Acquire(t.Context(), id); !errors.As(err, new(*ElsewhereError)) {
					t.Errorf("the old owner: %v; want that another node owns it", err)
				}
				return
			}
			if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "node a-false") || !strings.Contains(err.Error(), "lost since") {
				t.Errorf("a workspace on the host of a lost node: %v", err)
			}
			wantCode(t, "destroy it", b.Destroy(t.Context(), id), fault.Unavailable)
			back := newNode(t, url, "a-false", p, time.Minute) // another process of the same node
			if _, err := back.Acquire(t.Context(), id); err != nil {
				t.Errorf("when the node is back: %v", err)
			}
		})
	}
}

// TestTwoNodesRaceForAWorkspace of a lost node, which had opened every other one: in all the provider
// opens it once, and the winner alone attaches to one that was open.
//
//croft:slow
func TestTwoNodesRaceForAWorkspace(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	p := newCounted(true)
	dead := newNode(t, url, "dead", p, time.Minute)
	a, b := newNode(t, url, "a", p, time.Minute), newNode(t, url, "b", p, time.Minute)
	const races = 1000
	ids := make([]string, races)
	for i := range ids {
		ids[i] = createOn(t, dead, nil)
		if i%2 == 1 {
			if _, err := dead.Acquire(t.Context(), ids[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	kill(t, dead)
	won := map[string]int{}
	for n, id := range ids {
		var wg sync.WaitGroup
		var errs [2]error
		start := make(chan struct{})
		for i := range errs {
			i := (i + n) % 2 // none is always the first
			wg.Go(func() { <-start; _, errs[i] = []*Registry{a, b}[i].Acquire(t.Context(), id) })
		}
		close(start)
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("race for %s: %v and %v; want one winner", id, errs[0], errs[1])
		}
		winner := "a"
		if errs[0] != nil {
			winner = "b"
		}
		won[winner]++
		if err := errors.Join(errs[0], errs[1]); !errors.As(err, new(*ElsewhereError)) {
			t.Fatalf("the loser: %v; want the owner", err)
		}
		if rec, err := a.getRecord(t.Context(), id); err != nil || rec.Node != winner {
			t.Fatalf("the node is %q, %v; want %s", rec.Node, err, winner)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, id := range ids {
		if p.opens[id] != 1 || p.resolves[id] != i%2 {
			t.Errorf("%s was opened %d times and resolved %d times; want 1 and %d", id, p.opens[id], p.resolves[id], i%2)
		}
	}
	if won["a"] == 0 || won["b"] == 0 {
		t.Errorf("won: %v; one node always wins, so this is no race", won)
	}
	t.Logf("won: %v", won)
}

// TestAQuotaHoldsOnAllNodes: two nodes create for one tenant at the same time.
//
//croft:race
func TestAQuotaHoldsOnAllNodes(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	nodes := []*Registry{newNode(t, url, "a", newCounted(true), time.Minute), newNode(t, url, "b", newCounted(true), time.Minute)}
	const quota, tries = 5, 20
	for _, r := range nodes {
		r.opts.Quota = func(string) Quota { return Quota{Workspaces: quota} }
	}
	for _, tenant := range []string{"red", "blue", "green"} {
		ctx := tenantContext(t.Context(), tenant)
		var wg sync.WaitGroup
		errs := make([]error, tries)
		start := make(chan struct{})
		for i := range errs {
			wg.Go(func() {
				<-start
				_, errs[i] = nodes[i%2].Create(ctx, workspace.Spec{Kind: memory.Kind})
			})
		}
		close(start)
		wg.Wait()
		created := 0
		for _, err := range errs {
			switch {
			case err == nil:
				created++
			case fault.Of(err) != fault.ResourceExhausted:
				t.Errorf("create: %v, want ResourceExhausted", err)
			}
		}
		recs, err := nodes[0].store.List(t.Context(), Filter{Tenant: tenant})
		if err != nil || created != quota || len(recs) != quota {
			t.Errorf("tenant %s: %d created, %d records, %v; want %d", tenant, created, len(recs), err, quota)
		}
	}
}

// TestBackgroundWorkStaysOnItsNode is where data could be lost: no node ends, sweeps or fails
// what is on the host of another one, living or lost.
func TestBackgroundWorkStaysOnItsNode(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	disks := map[string]*counted{"a": newCounted(false), "b": newCounted(false)}
	a, b := newNode(t, url, "a", disks["a"], time.Minute), newNode(t, url, "b", disks["b"], time.Minute)
	ctx := t.Context()
	idle := createOn(t, a, func(s *workspace.Spec) { s.Policy.Idle = time.Nanosecond })
	due, err := a.CreateWith(ctx, workspace.Spec{Kind: memory.Kind}, Attributes{EndAt: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	ready := createOn(t, a, nil)
	tomb := createOn(t, a, nil)
	for _, id := range []string{ready, tomb} {
		if _, err := a.Acquire(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.markDestroyed(ctx, tomb); err != nil { // interrupted before anything was removed
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		for what, f := range map[string]func() error{
			"expire":        func() error { n, err := b.Expire(ctx); return errors.Join(err, noneOf(n)) },
			"end due":       func() error { n, err := b.EndDue(ctx); return errors.Join(err, noneOf(n)) },
			"mark vanished": func() error { _, err := b.markVanished(ctx); return err },
			"sweep":         func() error { return b.Sweep(ctx) },
			"sweep tombs":   func() error { return b.sweepDestroyed(ctx) },
			"adopt":         func() error { return b.adoptUnassigned(ctx) },
		} {
			if err := f(); err != nil {
				t.Errorf("%s, %s: %v", when, what, err)
			}
		}
		for id, want := range map[string]State{idle: Intended, due.ID: Intended, ready: Ready, tomb: Destroyed} {
			rec, err := b.store.Get(ctx, id)
			if err != nil || rec.State != want || rec.Node != "a" {
				t.Errorf("%s: %s of node %q is %s, %v; want %s", when, id, rec.Node, rec.State, err, want)
			}
		}
	}
	check("the node lives")
	kill(t, a)
	if err := b.store.Reap(ctx); err != nil {
		t.Fatal(err)
	}
	check("the node is lost")
	if n := disks["a"].sweeps.Load(); n != 0 {
		t.Errorf("the disk of a was swept %d times", n)
	}
	if n := disks["b"].sweeps.Load(); n == 0 {
		t.Error("the disk of b was not swept")
	}

	// The node is back, and does its own work.
	back := newNode(t, url, "a", disks["a"], time.Minute)
	if n, err := back.Expire(ctx); n != 1 || err != nil {
		t.Errorf("expired %d, %v; want 1", n, err)
	}
	if n, err := back.EndDue(ctx); n != 1 || err != nil {
		t.Errorf("ended %d, %v; want 1", n, err)
	}
	if err := back.sweepDestroyed(ctx); err != nil {
		t.Error(err)
	}
	if _, err := b.store.Get(ctx, tomb); fault.Of(err) != fault.NotFound {
		t.Errorf("the destroyed workspace: %v; want that its own node has removed it", err)
	}
}

func noneOf(n int) error {
	if n != 0 {
		return fmt.Errorf("%d workspaces of another node", n)
	}
	return nil
}

func TestTheLeaderWorksForTheCluster(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	p := newCounted(true)
	ctx := t.Context()
	a := newNode(t, url, "a", p, time.Minute)
	b := newNode(t, url, "b", p, time.Minute)
	c := newNode(t, url, "c", p, time.Minute)
	for _, r := range []*Registry{a, b, c} {
		if _, err := r.share(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if !a.Leads() || b.Leads() || c.Leads() {
		t.Errorf("leaders: %v %v %v; want the first that joined", a.Leads(), b.Leads(), c.Leads())
	}
	for _, r := range []*Registry{a, b, c} {
		if err := r.Sweep(ctx); err != nil {
			t.Error(err)
		}
	}
	if n := p.sweeps.Load(); n != 1 {
		t.Errorf("three nodes swept %d times, want once", n)
	}
	idle := createOn(t, a, func(s *workspace.Spec) { s.Policy.Idle = time.Nanosecond })
	if n, err := b.Expire(ctx); n != 0 || err != nil {
		t.Errorf("b expired %d, %v of a", n, err)
	}
	kill(t, a)
	if n, err := c.Expire(ctx); n != 0 || err != nil {
		t.Errorf("c, which does not lead, expired %d, %v", n, err)
	}
	if n, err := b.Expire(ctx); n != 1 || err != nil {
		t.Errorf("b, which leads now, expired %d, %v; want 1", n, err)
	}
	if _, err := b.store.Get(ctx, idle); fault.Of(err) != fault.NotFound {
		t.Errorf("the expired workspace: %v", err)
	}
}

func TestANameIsOfOneDataDirectory(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	a := newNode(t, url, "a", newCounted(false), time.Minute)
	other, err := New(t.Context(), openStore(t, url), workspace.NewMux(newCounted(false)), &Options{
		Lease: time.Minute, Cluster: Cluster{Node: "a", Address: "http://other", Data: "another"},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = other.Join(t.Context())
	wantCode(t, "another data directory joins as the same node", err, fault.AlreadyExists)
	// The same data directory: the process before is dead, since it is locked.
	again := newNode(t, url, "a", newCounted(false), time.Minute)
	wantCode(t, "the process before renews", a.renewLease(t.Context()), fault.Conflict)
	if err := again.renewLease(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestForgetALostNode(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	p := newCounted(false)
	a, b := newNode(t, url, "a", p, time.Minute), newNode(t, url, "b", p, time.Minute)
	id, own := createOn(t, a, nil), createOn(t, b, nil)
	_, err := b.ForgetReplica(t.Context(), "a")
	wantCode(t, "forget a living node", err, fault.WrongState)
	_, err = b.ForgetReplica(t.Context(), "nowhere")
	wantCode(t, "forget an unknown node", err, fault.NotFound)
	kill(t, a)
	if n, err := b.ForgetReplica(t.Context(), "a"); n != 1 || err != nil {
		t.Errorf("forgot %d, %v; want 1", n, err)
	}
	_, err = b.Acquire(t.Context(), id)
	wantCode(t, "a forgotten workspace", err, fault.NotFound)
	if _, err := b.Acquire(t.Context(), own); err != nil {
		t.Error(err)
	}
}

func TestWorkspacesFromBeforeTheCluster(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	ctx := t.Context()
	disks := map[string]*counted{"a": newCounted(false), "b": newCounted(false)}
	single, err := New(ctx, openStore(t, url), workspace.NewMux(disks["a"]), nil)
	if err != nil {
		t.Fatal(err)
	}
	id := createOn(t, single, nil)
	if _, err := single.Acquire(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := single.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	b := newNode(t, url, "b", disks["b"], time.Minute)
	_, err = b.Acquire(ctx, id)
	if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "does not have it") {
		t.Errorf("on a node that does not have it: %v", err)
	}
	if rec, err := b.getRecord(ctx, id); err != nil || rec.State != Ready || rec.Node != "" {
		t.Errorf("it is %s on node %q, %v; want that nothing has changed", rec.State, rec.Node, err)
	}
	a := newNode(t, url, "a", disks["a"], time.Minute)
	if err := a.adoptUnassigned(ctx); err != nil {
		t.Error(err)
	}
	if _, err := b.Acquire(ctx, id); !errors.As(err, new(*ElsewhereError)) {
		t.Errorf("after its node has joined: %v", err)
	}
	// A server that was not told of the cluster must not touch what belongs to a node.
	stray, err := New(ctx, openStore(t, url), workspace.NewMux(newCounted(false)), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = stray.Acquire(ctx, id)
	wantCode(t, "a server without the cluster", err, fault.Unavailable)
	wantCode(t, "destroy by a server without the cluster", stray.Destroy(ctx, id), fault.Unavailable)
}

// TestTheVersionBeforeWorksOnTheNewSchema runs the statements of the version before, which does
// not know nodes, and its migrations.
func TestTheVersionBeforeWorksOnTheNewSchema(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	ctx := t.Context()
	p := newCounted(false)
	a := newNode(t, url, "a", p, time.Minute)
	id := createOn(t, a, nil)
	s := a.store.(*postgresStore)
	const before = `id, version, owner, name, kind, state, spec, ref, pending, failure, attempts, worker, created_at, updated_at, last_used, tenant, annotations, end_at, on_end`
	old := driver.NewID()
	for _, q := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO workspaces (` + before + `) SELECT $1, version, owner, $2, kind, state, spec, ref, pending, failure, attempts, worker, created_at, updated_at, last_used, tenant, annotations, end_at, on_end FROM workspaces WHERE id = $3`, []any{old, "old", id}},
		{`UPDATE workspaces SET version = version + 1, state = $1, last_used = 5 WHERE id = $2`, []any{string(Closed), id}},
		{`INSERT INTO holders (id, host, pid, expires_at) VALUES ('h', 'host', 1, 2) ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at`, nil},
		{`INSERT INTO holds (workspace, holder) VALUES ($1, 'h') ON CONFLICT (workspace, holder) DO NOTHING`, []any{old}},
		{`DELETE FROM holders WHERE expires_at <= 3`, nil},
		{`DELETE FROM holds WHERE holder NOT IN (SELECT id FROM holders)`, nil},
	} {
		if _, err := s.db.ExecContext(ctx, q.query, q.args...); err != nil {
			t.Errorf("%s: %v", q.query, err)
		}
	}
	if rec, err := a.getRecord(ctx, id); err != nil || rec.Node != "a" || rec.State != Closed {
		t.Errorf("after a change by the version before: node %q, %s, %v", rec.Node, rec.State, err)
	}
	if rec, err := a.getRecord(ctx, old); err != nil || rec.Node != "" {
		t.Errorf("a record of the version before: node %q, %v", rec.Node, err)
	}
	if list, err := a.Replicas(ctx); err != nil || len(list) != 1 || !list[0].Live {
		t.Errorf("replicas: %+v, %v", list, err)
	}
	// It starts: its migrations are a part of the present ones.
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	m, err := goose.NewProvider(s.name, s.db, without{dir, []string{"00007_replicas.sql", "00008_ended_sessions.sql"}}, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if done, err := m.Up(ctx); err != nil || len(done) != 0 {
		t.Errorf("the migrations of the version before: %v, %v", done, err)
	}
}

// without is a directory without some files.
type without struct {
	fs.FS
	names []string
}

func (w without) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(w.FS, name)
	var out []fs.DirEntry
	for _, e := range list {
		if !slices.Contains(w.names, e.Name()) {
			out = append(out, e)
		}
	}
	return out, err
}

func (w without) Glob(pattern string) ([]string, error) {
	list, err := fs.Glob(w.FS, pattern)
	var out []string
	for _, name := range list {
		if !slices.Contains(w.names, name) {
			out = append(out, name)
		}
	}
	return out, err
}

func TestALostLeaseStopsAPortableWorkspace(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	p := newCounted(true)
	a, b := newNode(t, url, "a", p, time.Minute), newNode(t, url, "b", p, time.Minute)
	id := createOn(t, a, nil)
	ws, err := a.Acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, a) // as one that was suspended for longer than its lease
	if a.HasLease() {
		t.Error("the lease is still there")
	}
	if _, err := b.Acquire(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Acquire(t.Context(), id); !errors.As(err, new(*ElsewhereError)) {
		t.Errorf("the suspended node: %v; want that b owns the workspace", err)
	}
	if !a.HasLease() {
		t.Error("the lease was not renewed")
	}
	_ = ws
}
