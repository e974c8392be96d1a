package workspacetest

import (
	"sync"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

var revisionChecks = []Check{
	{"Update/refuses-the-older-ref", needUpdate, updateStale},
	{"Update/is-obeyed-by-the-handle", allNeeds(needUpdate, needReadOnly, needFS), updateHandle},
	{"Update/is-obeyed-by-other-handles", allNeeds(needUpdate, needReadOnly, needFS), updateOtherHandles},
	{"Update/can-be-taken-back", allNeeds(needUpdate, needReadOnly, needFS), updateBack},
	{"Update/refuses-what-it-can't-enforce", needUpdate, updateRefused},
	{"Update/concurrently-gives-each-its-own-revision", needUpdate, updateConcurrently},
	{"Update/outlives-the-process", allNeeds(needUpdate, needPersistence), updatePersists},
	{"Open/with-another-policy-converges", nil, openConverges},
	{"Open/with-another-policy-refuses-the-older-ref", nil, openStale},
}

// updatePolicy changes the policy to the other one that these traits allow.
func (e *Env) updatePolicy(t testing.TB, p *testWorkspace) driver.Ref {
	t.Helper()
	ref, err := p.d.Life.Update(t.Context(), otherPolicy(e))
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	return ref
}

// wantStale reports a ref that is not refused as an older one.
func (e *Env) wantStale(t testing.TB, ref driver.Ref) {
	t.Helper()
	_, err := e.sharedProvider(t).Resolve(t.Context(), ref)
	wantFailed(t, "Resolve of the older ref", err)
	if got := fault.CauseOf(err); err != nil && got != fault.CauseStale {
		t.Errorf("Resolve of the older ref has the cause %q, want %q: %v", got, fault.CauseStale, err)
	}
}

func updateStale(t testing.TB, e *Env) {
	p := e.open(t)
	old := p.Ref()
	ref := e.updatePolicy(t, p)
	if ref.Revision <= old.Revision {
		t.Errorf("Update moved the revision from %d to %d, want a higher one", old.Revision, ref.Revision)
	}
	e.wantStale(t, old)
	q := e.resolve(t, p.spec, ref)
	wantPolicy(t, q, otherPolicy(e))
	if got := q.Ref().Revision; got != ref.Revision {
		t.Errorf("the newer ref resolves to revision %d, want %d", got, ref.Revision)
	}
}

func updateHandle(t testing.TB, e *Env) {
	p := e.open(t)
	p.write(t, "file", "before")
	e.updatePolicy(t, p)
	wantPolicy(t, p, driver.Policy{ReadOnly: true})
	p.wantContent(t, "file", "before")
}

// updateOtherHandles: a revoked permission is revoked for existing handles, too. A
// handle may also be evicted.
func updateOtherHandles(t testing.TB, e *Env) {
	p := e.open(t)
	other := e.resolve(t, p.spec, p.Ref())
	e.updatePolicy(t, p)
	_, err := other.WriteFile(t.Context(), "forbidden", []byte("x"), nil)
	wantCode(t, "Write by a handle from before the update", err, fault.PermissionDenied, fault.Evicted)
	p.wantMissing(t, "forbidden")
}

func updateBack(t testing.TB, e *Env) {
	p := e.open(t)
	first := e.updatePolicy(t, p)
	second, err := p.d.Life.Update(t.Context(), driver.Policy{})
	if !wantNil(t, "Update back", err) {
		return
	}
	if second.Revision <= first.Revision {
		t.Errorf("Update back moved the revision from %d to %d, want a higher one", first.Revision, second.Revision)
	}
	p.wantUsable(t)
	e.wantStale(t, first)
	e.resolve(t, p.spec, second).wantUsable(t)
}

func updateRefused(t testing.TB, e *Env) {
	p := e.open(t)
	_, err := p.d.Life.Update(t.Context(), driver.Policy{Isolation: "moat"})
	wantCode(t, "Update to an unknown isolation", err, fault.InvalidArgument)
	for _, name := range unenforcedLimits(e) {
		_, err := p.d.Life.Update(t.Context(), driver.Policy{Limits: driver.Limits{name: {Max: plenty}}})
		wantCode(t, "Update to a limit that nothing enforces: "+string(name), err, fault.Unsupported)
	}
	e.resolve(t, p.spec, p.Ref()).wantUsable(t)
}

func updateConcurrently(t testing.TB, e *Env) {
	const callers = 8
	p := e.open(t)
	refs, errs := make([]driver.Ref, callers), make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			refs[i], errs[i] = p.d.Life.Update(t.Context(), driver.Policy{Env: map[string]string{"CALLER": itoa(i)}})
		})
	}
	wg.Wait()
	seen := map[int64]bool{}
	newest := driver.Ref{}
	for i, err := range errs {
		if !wantNil(t, "Update", err) {
			return
		}
		if seen[refs[i].Revision] {
			t.Errorf("two updates to different policies have the revision %d", refs[i].Revision)
		}
		seen[refs[i].Revision] = true
		if refs[i].Revision > newest.Revision {
			newest = refs[i]
		}
	}
	e.resolve(t, p.spec, newest)
	for _, ref := range refs {
		if ref.Revision < newest.Revision {
			e.wantStale(t, ref)
		}
	}
}

func updatePersists(t testing.TB, e *Env) {
	p := e.open(t)
	old := p.Ref()
	ref := e.updatePolicy(t, p)
	e.restartProvider(t)
	e.wantStale(t, old)
	wantPolicy(t, e.resolve(t, p.spec, ref), otherPolicy(e))
}

// openWithOtherPolicy opens a workspace and opens it again with another policy. A provider
// without Update may refuse that; then after is nil.
func (e *Env) openWithOtherPolicy(t testing.TB) (before, after *testWorkspace) {
	t.Helper()
	before = e.open(t)
	if before.d.FS != nil {
		before.write(t, "file", "kept")
	}
	spec := before.spec
	spec.Policy = otherPolicy(e)
	d, err := e.sharedProvider(t).Open(t.Context(), spec)
	if e.sample.Life.Update == nil && fault.Of(err) == fault.Unsupported {
		return before, nil
	}
	if err != nil {
		t.Fatalf("Open with another policy: %v", err)
	}
	return before, newTestWorkspace(t, spec, d)
}

// openConverges checks that Open changes the policy, or refuses to and changes nothing.
func openConverges(t testing.TB, e *Env) {
	before, after := e.openWithOtherPolicy(t)
	if after == nil {
		after = e.openSpec(t, before.spec)
		if got, want := after.Ref().Revision, before.Ref().Revision; got != want {
			t.Errorf("after a policy that was refused Open gives revision %d, want %d", got, want)
		}
	} else if got, old := after.Ref().Revision, before.Ref().Revision; got <= old {
		t.Errorf("Open with another policy gives revision %d, want more than %d", got, old)
	}
	wantPolicy(t, after, after.spec.Policy)
	if after.d.FS != nil {
		after.wantContent(t, "file", "kept")
	}
	again := e.openSpec(t, after.spec)
	if got, want := again.Ref().Revision, after.Ref().Revision; got != want {
		t.Errorf("Open with the same policy again gives revision %d, want %d", got, want)
	}
}

func openStale(t testing.TB, e *Env) {
	before, after := e.openWithOtherPolicy(t)
	if after == nil { // it was refused, so that the ref is the newest
		wantPolicy(t, e.resolve(t, before.spec, before.Ref()), before.spec.Policy)
		return
	}
	e.wantStale(t, before.Ref())
	wantPolicy(t, e.resolve(t, after.spec, after.Ref()), after.spec.Policy)
}
