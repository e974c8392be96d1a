package workspacetest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var lifeChecks = []Check{
	{"Close/leaves-the-workspace", nil, closeLeaves},
	{"Close/twice-is-once", nil, closeTwice},
	{"Destroy/twice-is-once", nil, destroyTwice},
	{"Destroy/leaves-nothing", allNeeds(needFS, needLeftovers), destroyLeavesNothing},
	{"Destroy/ends-other-handles", needFS, destroyOtherHandles},
	{"Destroy/concurrently-is-once", nil, destroyConcurrently},
	{"Destroy/leaves-others-alone", needFS, destroyOthers},
	{"Sweep/removes-what-is-not-live", nil, sweepRemoves},
	{"Sweep/keeps-what-is-live", needFS, sweepKeeps},
	{"Sweep/twice-is-once", nil, sweepTwice},
	{"Sweep/of-nothing-succeeds", nil, sweepNothing},
	{"Sweep/never-touches-what-it-did-not-make", nil, sweepForeign},
	{"Sweep/takes-ids-that-it-never-saw", nil, sweepUnknown},
}

func closeLeaves(t testing.TB, e *Env) {
	p := e.open(t)
	if p.d.FS != nil {
		p.write(t, "file", "kept")
	}
	wantNil(t, "Close", p.d.Life.Close(t.Context()))
	q := e.resolve(t, p.spec, p.Ref())
	if q.d.FS != nil {
		q.wantContent(t, "file", "kept")
	}
	q.wantUsable(t)
}

func closeTwice(t testing.TB, e *Env) {
	p := e.open(t)
	wantNil(t, "Close", p.d.Life.Close(t.Context()))
	wantNil(t, "second Close", p.d.Life.Close(t.Context()))
	e.resolve(t, p.spec, p.Ref()).wantUsable(t)
}

func destroyTwice(t testing.TB, e *Env) {
	p := e.open(t)
	wantNil(t, "Destroy", p.d.Life.Destroy(t.Context()))
	wantNil(t, "second Destroy", p.d.Life.Destroy(t.Context()))
	wantNil(t, "Close after Destroy", p.d.Life.Close(t.Context()))
	_, err := e.sharedProvider(t).Resolve(t.Context(), p.Ref())
	wantGone(t, "Resolve after Destroy", err)
}

func destroyLeavesNothing(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "a/b/c", "deep")
	p.write(t, "big", string(patternBytes(1, 3<<20)))
	if left := e.Leftovers(t, e.Dir); len(left) == 0 {
		t.Error("Harness.Leftovers does not see a workspace that is there")
	}
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy")
}

// destroyOtherHandles: after another handle destroyed the workspace, calls return an
// error with a code and recreate nothing.
func destroyOtherHandles(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "x")
	other := e.resolve(t, p.spec, p.Ref())
	wantNil(t, "Destroy", p.Destroy(t.Context()))
	codes := []fault.Code{fault.Evicted, fault.NotFound, fault.WrongState, fault.Failed}
	_, err := other.WriteFile(t.Context(), "file", []byte("y"), nil)
	wantCode(t, "Write after another handle's Destroy", err, codes...)
	_, err = other.ReadFile(t.Context(), "file")
	wantCode(t, "Read after another handle's Destroy", err, codes...)
	wantNil(t, "Destroy by the other handle", other.Destroy(t.Context()))
	e.wantNothing(t, "after Destroy")
	_, err = e.sharedProvider(t).Resolve(t.Context(), p.Ref())
	wantGone(t, "Resolve after Destroy", err)
}

func destroyConcurrently(t testing.TB, e *Env) {
	p := e.open(t)
	other := e.resolve(t, p.spec, p.Ref())
	if p.d.FS != nil {
		p.write(t, "a/b/c", "deep")
	}
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		d := p.d
		if i%2 == 1 {
			d = other.d
		}
		wg.Go(func() { errs[i] = d.Life.Destroy(t.Context()) })
	}
	wg.Wait()
	for _, err := range errs {
		wantNil(t, "concurrent Destroy", err)
	}
	e.wantNothing(t, "after Destroy")
}

func destroyOthers(t testing.TB, e *Env) {
	a, b := e.open(t), e.open(t)
	b.write(t, "file", "kept")
	wantNil(t, "Destroy", a.Destroy(t.Context()))
	b.wantContent(t, "file", "kept")
	b.wantUsable(t)
}

func sweepRemoves(t testing.TB, e *Env) {
	dead, live := e.open(t), e.open(t)
	wantNil(t, "Close", dead.Close(t.Context()))
	wantHas(t, e, true)
	wantNil(t, "Sweep", e.sharedProvider(t).Sweep(t.Context(), []string{live.spec.ID}))
	_, err := e.sharedProvider(t).Resolve(t.Context(), dead.Ref())
	wantGone(t, "Resolve of what was swept", err)
	live.wantUsable(t)
	wantNil(t, "Sweep of all", e.sharedProvider(t).Sweep(t.Context(), nil))
	_, err = e.sharedProvider(t).Resolve(t.Context(), live.Ref())
	wantGone(t, "Resolve of what was swept", err)
	e.wantNothing(t, "after Sweep of all")
	wantHas(t, e, false)
}

// wantHas checks HasWorkspaces of a provider whose workspaces outlive the process.
func wantHas(t testing.TB, e *Env, want bool) {
	has := e.sharedProvider(t).Features().HasWorkspaces
	if has == nil {
		return
	}
	got, err := has(t.Context())
	wantNil(t, "HasWorkspaces", err)
	if got != want {
		t.Errorf("HasWorkspaces = %v, want %v", got, want)
	}
}

func sweepKeeps(t testing.TB, e *Env) {
	var live []string
	var places []*testWorkspace
	for i := range 3 {
		p := e.open(t)
		p.write(t, "file", itoa(i))
		live, places = append(live, p.spec.ID), append(places, p)
	}
	if e.Traits.Persists() {
		e.restartProvider(t)
	}
	wantNil(t, "Sweep", e.sharedProvider(t).Sweep(t.Context(), live))
	for i, p := range places {
		e.resolve(t, p.spec, p.Ref()).wantContent(t, "file", itoa(i))
		p.wantContent(t, "file", itoa(i))
	}
}

func sweepTwice(t testing.TB, e *Env) {
	dead, live := e.open(t), e.open(t)
	_ = dead
	for range 2 {
		wantNil(t, "Sweep", e.sharedProvider(t).Sweep(t.Context(), []string{live.spec.ID}))
	}
	live.wantUsable(t)
}

func sweepNothing(t testing.TB, e *Env) {
	wantNil(t, "Sweep", e.sharedProvider(t).Sweep(t.Context(), nil))
	e.open(t).wantUsable(t)
}

// sweepForeign creates files beside the provider's own, before and after the provider
// is built, with names that a careless provider might take for its own.
func sweepForeign(t testing.TB, e *Env) {
	names := []string{"foreign", ".hidden", "notes.txt", "dir/inner", driver.NewID() + ".bak", "meta"}
	plant := func(prefix string) {
		for _, name := range names {
			path := filepath.Join(e.Dir, prefix+name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	plant("")
	e.sharedProvider(t)
	plant("later-")
	p := e.open(t)
	wantNil(t, "Sweep that keeps one", e.sharedProvider(t).Sweep(t.Context(), []string{p.spec.ID}))
	wantNil(t, "Sweep of all", e.sharedProvider(t).Sweep(t.Context(), nil))
	for _, prefix := range []string{"", "later-"} {
		for _, name := range names {
			if got, err := os.ReadFile(filepath.Join(e.Dir, prefix+name)); err != nil || string(got) != name {
				t.Errorf("Sweep touched %q, which it did not make: %q, %v", prefix+name, got, err)
			}
		}
	}
}

func sweepUnknown(t testing.TB, e *Env) {
	p := e.open(t)
	wantNil(t, "Sweep", e.sharedProvider(t).Sweep(t.Context(), []string{driver.NewID(), p.spec.ID, driver.NewID()}))
	p.wantUsable(t)
}
