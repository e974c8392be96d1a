package registry

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func sqliteURL(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "croft.db")
}

func openStore(t testing.TB, url string) Store {
	t.Helper()
	s, err := OpenStore(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// storeChecks is what every store must do. Each gets the URL of a fresh store.
var storeChecks = []struct {
	name  string
	check func(t *testing.T, url string)
}{
	{"what is inserted comes back", storeRoundTrip},
	{"names are unique per owner until destroyed", storeNames},
	{"put is compare and swap", storeSwap},
	{"list filters", storeFilter},
	{"its revision changes with its records", storeRevision},
	{"last use never goes back", storeLastUse},
	{"a living holder keeps a record from idling", storeIdle},
	{"a beat regains what was reaped", storeRegain},
	{"missing is not found", storeMissing},
	{"a session that ended stays so until it expires", storeSessions},
	{"the exclusive lock excludes", storeLock},
	{"waiting for a lock ends with the context", storeLockContext},
	{"the exclusive lock is not starved", storeLockFair},
	{"many stores open at once", storeManyOpen},
	{"its id is its own and stays", storeID},
	{"API keys are found by their hash", storeKeys},
	{"the share links of a deleted workspace are deleted", storeShares},
	{"a closed store is unavailable", storeClosed},
}

func TestSQLiteStore(t *testing.T) {
	for _, c := range storeChecks {
		t.Run(c.name, func(t *testing.T) { c.check(t, sqliteURL(t)) })
	}
}

func TestPostgresStore(t *testing.T) {
	pg := testenv.NeedsPostgres(t)
	for _, c := range storeChecks {
		t.Run(c.name, func(t *testing.T) { c.check(t, pg.Database(t)) })
	}
}

// someRecord returns a record in which every field is set.
func someRecord() Record {
	now := time.Now().UTC().Truncate(time.Microsecond)
	policy := workspace.Policy{Isolation: driver.IsolationNone, Idle: time.Minute, Env: map[string]string{"A": "b\x01\"ü"}}
	id := driver.NewID()
	labels := map[string]string{"team": "a", "stage": "test"}
	return Record{
		ID: id, Name: "demo-" + id[:4], Owner: "ann", Kind: "memory", State: Ready,
		Spec: workspace.Spec{ID: id, Kind: "memory", Name: "demo-" + id[:4], Session: workspace.SessionRef{User: "ann", ID: "s"},
			Policy: policy, Labels: labels, Config: []byte(`{"deterministic":true}`), Want: driver.NewCapabilities(driver.CapFS)},
		Ref:    &workspace.Ref{Provider: "memory", Payload: []byte(`{"id":"x"}`), Capabilities: driver.NewCapabilities(driver.CapFS), SchemaVersion: 2, Revision: 7},
		Labels: labels, CreatedAt: now, UpdatedAt: now.Add(time.Second), LastUsed: now.Add(2 * time.Second),
		Error: &fault.Wire{Code: "E_FAILED", Kind: "failed", Message: "m", Cause: "gone"}, Attempts: 3,
		Pending: &policy, Worker: "w",
	}
}

func storeKeys(t *testing.T, url string) {
	s, ctx := openStore(t, url), t.Context()
	now := time.Now().UTC().Truncate(time.Microsecond)
	want := auth.Key{ID: "key-a", Tenant: "red", Scope: auth.Run, Name: "ci", CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	if err := s.InsertKey(ctx, want, "h1"); err != nil {
		t.Fatal(err)
	}
	if err := s.InsertKey(ctx, auth.Key{ID: "key-b", CreatedAt: now}, "h1"); err == nil {
		t.Error("two keys have one hash")
	}
	if err := s.UseKey(ctx, want.ID, now.Add(time.Second)); err != nil {
		t.Error(err)
	}
	want.LastUsed, want.ExpiresAt = now.Add(time.Second), now.Add(2*time.Hour)
	until := now.Add(time.Minute)
	if err := s.ReplaceKey(ctx, want.ID, "h2", want.ExpiresAt, until); err != nil {
		t.Error(err)
	}
	if got, err := s.FindKey(ctx, "h1"); err != nil || got.ID != want.ID || !got.ExpiresAt.Equal(until) {
		t.Errorf("the previous hash: %+v, %v; want the key until %s", got, err, until)
	}
	if err := s.ReplaceKey(ctx, want.ID, "h2", want.ExpiresAt, time.Time{}); err != nil {
		t.Error(err)
	}
	for _, hash := range []string{"h1", ""} {
		if _, err := s.FindKey(ctx, hash); fault.Of(err) != fault.NotFound {
			t.Errorf("a replaced hash %q: %v, want NotFound", hash, err)
		}
	}
	if err := s.RevokeKey(ctx, want.ID, now.Add(time.Minute)); err != nil {
		t.Error(err)
	}
	want.RevokedAt = now.Add(time.Minute)
	got, err := s.FindKey(ctx, "h2")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := s.ReplaceKey(ctx, want.ID, "h3", time.Time{}, time.Time{}); fault.Of(err) != fault.NotFound {
		t.Errorf("a revoked key is replaced: %v", err)
	}
	if list, err := s.ListKeys(ctx); err != nil || len(list) != 1 {
		t.Errorf("listed %v, %v", list, err)
	}
}

func storeShares(t *testing.T, url string) {
	s, ctx := openStore(t, url), t.Context()
	rec, other := insert(t, s, nil), insert(t, s, nil)
	for hash, workspace := range map[string]string{"of the workspace": rec.ID, "of another": other.ID, "a key": ""} {
		if err := s.InsertKey(ctx, auth.Key{ID: "key-" + hash, Scope: auth.Read, Workspace: workspace, CreatedAt: time.Now()}, hash); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(ctx, rec.ID, rec.Version); err != nil {
		t.Fatal(err)
	}
	if _, err := s.FindKey(ctx, "of the workspace"); fault.Of(err) != fault.NotFound {
		t.Errorf("the link of a deleted workspace: %v, want NotFound: a later workspace with its id would be shown", err)
	}
	for _, hash := range []string{"of another", "a key"} {
		if _, err := s.FindKey(ctx, hash); err != nil {
			t.Errorf("%s: %v", hash, err)
		}
	}
}

func insert(t *testing.T, s Store, edit func(*Record)) Record {
	t.Helper()
	rec := someRecord()
	if edit != nil {
		edit(&rec)
	}
	rec.Spec.Labels = rec.Labels
	got, err := s.Insert(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func storeRoundTrip(t *testing.T, url string) {
	want := someRecord()
	s := openStore(t, url)
	if _, err := s.Insert(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want.Version = 1
	other := openStore(t, url) // what another process sees
	got, err := other.Get(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the record changed (-want +got):\n%s", diff)
	}
	if _, err := s.Insert(t.Context(), want); fault.Of(err) != fault.AlreadyExists || !strings.Contains(err.Error(), want.ID) {
		t.Errorf("inserting the id again: %v, want AlreadyExists naming it", err)
	}
}

func storeNames(t *testing.T, url string) {
	s := openStore(t, url)
	ctx := t.Context()
	named := func(owner, name string) func(*Record) {
		return func(r *Record) { r.Owner, r.Name, r.State = owner, name, Closed }
	}
	first := insert(t, s, named("ann", "demo"))
	insert(t, s, named("bob", "demo"))
	insert(t, s, named("ann", ""))
	insert(t, s, named("ann", ""))
	twin := someRecord()
	named("ann", "demo")(&twin)
	_, err := s.Insert(ctx, twin)
	if fault.Of(err) != fault.AlreadyExists || !strings.Contains(err.Error(), `"demo"`) {
		t.Errorf("a taken name: %v, want AlreadyExists naming it", err)
	}
	first.State = Destroyed
	if _, err := s.Put(ctx, first); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Insert(ctx, twin); err != nil {
		t.Errorf("the name of a destroyed workspace is not free: %v", err)
	}
}

func storeRevision(t *testing.T, url string) {
	s, other := openStore(t, url), openStore(t, url)
	seen := map[string]string{}
	revision := func(what string) {
		t.Helper()
		now, err := s.Revision(t.Context())
		if before, dup := seen[now]; err != nil || dup {
			t.Errorf("the revision %s is %q, %v, as it was %s", what, now, err, before)
		}
		seen[now] = what
		if again, err := s.Revision(t.Context()); err != nil || again != now {
			t.Errorf("the revision %s is %q and then %q, %v", what, now, again, err)
		}
	}
	revision("of an empty store")
	rec := insert(t, other, nil)
	revision("after an insert")
	rec, err := other.Put(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	revision("after a change")
	later := insert(t, other, nil)
	revision("of two")
	if err := other.Delete(t.Context(), rec.ID, rec.Version); err != nil {
		t.Fatal(err)
	}
	revision("after one went")
	if err := other.Delete(t.Context(), later.ID, later.Version); err != nil {
		t.Fatal(err)
	}
	insert(t, other, nil)
	revision("after one took the place of another")
}

func storeSwap(t *testing.T, url string) {
	s := openStore(t, url)
	rec := insert(t, s, nil)
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			mine := rec
			mine.Attempts = i
			switch _, err := s.Put(t.Context(), mine); fault.Of(err) {
			case "":
				won.Add(1)
			case fault.Conflict:
			default:
				t.Errorf("put: %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 20 changes of one version won, want 1", won.Load())
	}
	if err := s.Delete(t.Context(), rec.ID, rec.Version); fault.Of(err) != fault.Conflict {
		t.Errorf("deleting an old version: %v, want Conflict", err)
	}
	if err := s.Delete(t.Context(), rec.ID, rec.Version+1); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), rec.ID); fault.Of(err) != fault.NotFound {
		t.Errorf("a deleted record: %v, want NotFound", err)
	}
}

func storeFilter(t *testing.T, url string) {
	s := openStore(t, url)
	start := time.Now()
	add := func(n int, owner, kind string, state State, labels map[string]string) string {
		return insert(t, s, func(r *Record) {
			r.Owner, r.Name, r.Kind, r.State, r.Labels, r.CreatedAt = owner, fmt.Sprintf("n%d", n), kind, state, labels, start.Add(time.Duration(n))
		}).ID
	}
	a := add(1, "ann", "memory", Ready, map[string]string{"x": "1", "y": "2"})
	b := add(2, "ann", "local", Failed, map[string]string{"x": "1"})
	c := add(3, "bob", "local", Destroyed, nil)
	for _, tt := range []struct {
		filter Filter
		want   []string
	}{
		{Filter{}, []string{a, b}},
		{Filter{Owner: "ann"}, []string{a, b}},
		{Filter{Owner: "bob"}, nil},
		{Filter{Kind: "local"}, []string{b}},
		{Filter{Name: "n1"}, []string{a}},
		{Filter{States: []State{Destroyed, Failed}}, []string{b, c}},
		{Filter{Labels: map[string]string{"x": "1"}}, []string{a, b}},
		{Filter{Labels: map[string]string{"x": "1", "y": "2"}}, []string{a}},
		{Filter{Labels: map[string]string{"z": ""}}, nil},
	} {
		recs, err := s.List(t.Context(), tt.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, rec := range recs {
			got = append(got, rec.ID)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("List(%+v) (-want +got):\n%s", tt.filter, diff)
		}
	}
	from := workspace.NewID()
	for i, state := range []State{Ready, Destroyed} {
		rec := insert(t, s, func(r *Record) {
			r.Owner, r.Name, r.Kind, r.State, r.CreatedAt = "eve", fmt.Sprintf("from%d", i), "other", state, start.Add(time.Duration(4+i))
			r.Spec.From.Snapshot, r.Spec.Labels = from, map[string]string{"of": b}
		})
		if got, err := s.List(t.Context(), Filter{From: from}); err != nil || len(got) != 1 || i == 0 && got[0].ID != rec.ID {
			t.Errorf("those that started from %s are %v, %v", from, got, err)
		}
	}
	for _, id := range []string{b, "%", "x'"} {
		if got, err := s.List(t.Context(), Filter{From: id}); err != nil || len(got) != 0 {
			t.Errorf("those that started from %s are %v, %v", id, got, err)
		}
	}
}

func holder(id string) Holder { return Holder{ID: id, Host: "h", PID: 1} }

func storeLastUse(t *testing.T, url string) {
	s := openStore(t, url)
	ctx := t.Context()
	rec := insert(t, s, nil)
	later := rec.LastUsed.Add(time.Hour)
	if _, err := s.Beat(ctx, holder("me"), time.Minute, map[string]time.Time{rec.ID: later}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Beat(ctx, holder("me"), time.Minute, map[string]time.Time{rec.ID: later}); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(ctx, "me", map[string]time.Time{rec.ID: rec.LastUsed}); err != nil {
		t.Fatal(err)
	}
	stored, err := s.Put(ctx, rec) // with the old use, and still the same version
	if err != nil {
		t.Fatal(err)
	}
	if !stored.LastUsed.Equal(later) {
		t.Errorf("last use is %v, want %v", stored.LastUsed, later)
	}
}

func storeIdle(t *testing.T, url string) {
	s := openStore(t, url)
	ctx := t.Context()
	rec := insert(t, s, nil)
	held, err := s.Hold(ctx, rec.ID, holder("other"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if held.Version != rec.Version {
		t.Errorf("holding made version %d of %d", held.Version, rec.Version)
	}
	if _, err := s.PutIdle(ctx, held, "me"); fault.Of(err) != fault.Conflict {
		t.Errorf("putting what another one holds: %v, want Conflict", err)
	}
	if rec, err = s.PutIdle(ctx, held, "other"); err != nil {
		t.Errorf("putting what only oneself holds: %v", err)
	}
	got, err := s.Holders(ctx, rec.ID)
	if err != nil || len(got) != 1 || got[0].ID != "other" {
		t.Errorf("holders are %v, %v; want other", got, err)
	}
	if alive, err := s.Alive(ctx, "other"); err != nil || !alive {
		t.Errorf("Alive = %v, %v; want true", alive, err)
	}
	if _, err := s.Beat(ctx, holder("other"), -time.Second, map[string]time.Time{rec.ID: {}}); err != nil {
		t.Fatal(err)
	}
	if alive, err := s.Alive(ctx, "other"); err != nil || alive {
		t.Errorf("Alive after the lease = %v, %v; want false", alive, err)
	}
	if _, err := s.PutIdle(ctx, rec, "me"); err != nil {
		t.Errorf("putting what a dead one held: %v", err)
	}
}

func storeSessions(t *testing.T, url string) {
	s := openStore(t, url)
	ctx := t.Context()
	for range 2 { // a repeated sign-out is none
		if err := s.EndSession(ctx, "one", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"expired", "last"} { // the second end deletes what has expired
		if err := s.EndSession(ctx, id, time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]bool{"one": true, "other": false, "expired": false} {
		if ended, err := s.SessionEnded(ctx, id); err != nil || ended != want {
			t.Errorf("session %s has ended: %v, %v; want %v", id, ended, err, want)
		}
	}
}

func storeRegain(t *testing.T, url string) {
	s := openStore(t, url)
	ctx := t.Context()
	a, b, gone := insert(t, s, nil), insert(t, s, func(r *Record) { r.State = Destroyed }), driver.NewID()
	if _, err := s.Hold(ctx, a.ID, holder("me"), -time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hold(ctx, b.ID, holder("me"), time.Second); fault.Of(err) != fault.NotFound {
		t.Errorf("holding a destroyed workspace: %v, want NotFound", err)
	}
	if err := s.Reap(ctx); err != nil {
		t.Fatal(err)
	}
	recs, err := s.Beat(ctx, holder("me"), time.Minute, map[string]time.Time{a.ID: {}, b.ID: {}, gone: {}})
	if err != nil {
		t.Fatal(err)
	}
	if len(recs) != 2 || recs[a.ID].State != Ready || recs[b.ID].State != Destroyed {
		t.Errorf("the beat told of %v, want the ready and the destroyed one", recs)
	}
	if got, err := s.Holders(ctx, a.ID); err != nil || len(got) != 1 {
		t.Errorf("after the beat the holders are %v, %v; want me", got, err)
	}
	if err := s.Leave(ctx, "me"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Holders(ctx, a.ID); err != nil || len(got) != 0 {
		t.Errorf("after leaving the holders are %v, %v; want none", got, err)
	}
}

func storeMissing(t *testing.T, url string) {
	s := openStore(t, url)
	id := driver.NewID()
	_, err := s.Get(t.Context(), id)
	_, errHold := s.Hold(t.Context(), id, holder("me"), time.Minute)
	_, errPut := s.Put(t.Context(), Record{ID: id})
	for verb, err := range map[string]error{"get": err, "hold": errHold, "put": errPut, "delete": s.Delete(t.Context(), id, 1)} {
		if fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: %v, want NotFound naming the id", verb, err)
		}
	}
}

func storeLock(t *testing.T, url string) {
	a, b := openStore(t, url), openStore(t, url)
	var shared, exclusive atomic.Int64
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			s, alone := []Store{a, b}[i%2], i%6 == 0
			unlock, err := s.Lock(t.Context(), alone)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if !alone {
				shared.Add(1)
				defer shared.Add(-1)
				time.Sleep(time.Millisecond)
				if exclusive.Load() != 0 {
					t.Error("shared and exclusive locks were held at once")
				}
				return
			}
			if exclusive.Add(1) != 1 || shared.Load() != 0 {
				t.Error("the exclusive lock was not alone")
			}
			time.Sleep(time.Millisecond)
			exclusive.Add(-1)
		})
	}
	wg.Wait()
}

func storeLockContext(t *testing.T, url string) {
	s := openStore(t, url)
	unlock, err := s.Lock(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for _, exclusive := range []bool{false, true} {
		if _, err := s.Lock(ctx, exclusive); fault.Of(err) != fault.DeadlineExceeded {
			t.Errorf("waiting for a lock: %v, want DeadlineExceeded", err)
		}
	}
	unlock()
	unlock, err = s.Lock(t.Context(), false)
	if err != nil {
		t.Fatalf("the lock is not free after waiting for it in vain: %v", err)
	}
	unlock()
}

// storeLockFair has others take the shared lock without a gap, and must get the
// exclusive one nevertheless.
func storeLockFair(t *testing.T, url string) {
	a, b := openStore(t, url), openStore(t, url)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				unlock, err := a.Lock(t.Context(), false)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(10 * time.Millisecond)
				unlock()
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	unlock, err := b.Lock(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	stop()
	wg.Wait()
}

func storeManyOpen(t *testing.T, url string) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := OpenStore(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Insert(t.Context(), someRecord()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	recs, err := openStore(t, url).List(t.Context(), Filter{})
	if err != nil || len(recs) != 8 {
		t.Errorf("%d records, %v; want 8", len(recs), err)
	}
}

func storeID(t *testing.T, url string) {
	first, again := openStore(t, url), openStore(t, url)
	if !driver.ValidID(first.ID()) || first.ID() != again.ID() {
		t.Errorf("a store opened twice has the ids %q and %q, want one", first.ID(), again.ID())
	}
	if other := openStore(t, sqliteURL(t)); other.ID() == first.ID() {
		t.Errorf("two stores have the id %q", other.ID())
	}
}

func storeClosed(t *testing.T, url string) {
	s, err := OpenStore(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), driver.NewID()); fault.Of(err) != fault.Unavailable {
		t.Errorf("a closed store: %v, want Unavailable", err)
	}
}

func TestStoreURLs(t *testing.T) {
	for _, url := range []string{"", "sqlite:", "mysql://u:hunter2@h/d", "postgres:x", "/croft.db"} {
		_, err := OpenStore(t.Context(), url)
		if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "sqlite:PATH") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("OpenStore(%q): %v, want InvalidArgument that says what is allowed and no more", url, err)
		}
	}
	if _, err := OpenStore(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "missing", "croft.db")); fault.Of(err) != fault.NotFound {
		t.Errorf("a directory that is missing: %v, want NotFound", err)
	}
	odd := filepath.Join(t.TempDir(), "a?b#c%20 d.db")
	openStore(t, "sqlite:"+odd)
	if got, err := filepath.Glob(filepath.Join(filepath.Dir(odd), "*.db")); err != nil || len(got) != 1 || got[0] != odd {
		t.Errorf("the file is %v, want %q", got, odd)
	}
}
