package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

func TestCreateOpensNothing(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(func(s *workspace.Spec) { s.Name = "demo" })
	if !driver.ValidID(id) {
		t.Errorf("the id is %q", id)
	}
	g.wantState(id, Intended)
	if n := g.p.Count("open"); n != 0 {
		t.Errorf("creating opened %d times", n)
	}
	g.acquireOK(id)
	g.wantState(id, Ready)
	if diff := cmp.Diff([]State{Intended, Opening, Ready}, g.told(id)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTheIntentIsStoredBeforeOpenAndTheRefBeforeAcquireReturns(t *testing.T) {
	g := newRig(t, nil)
	proceed := make(chan struct{})
	g.p.OnOpen(workspacetest.Plan{WaitFor: proceed})
	id := g.create(nil)
	var wg sync.WaitGroup
	wg.Go(func() { g.acquireOK(id) })
	for g.p.Count("open") == 0 {
		time.Sleep(time.Millisecond)
	}
	rec, err := openStore(t, g.url).Get(t.Context(), id)
	if err != nil || rec.State != Opening || rec.Spec.ID != id || rec.Worker != g.self.ID {
		t.Errorf("while it is opened another process sees %+v, %v", rec, err)
	}
	close(proceed)
	wg.Wait()
	if rec, err = openStore(t, g.url).Get(t.Context(), id); err != nil || rec.Ref == nil || rec.Ref.Provider != memory.Kind || rec.Worker != "" {
		t.Errorf("after Acquire another process sees %+v, %v; want a ref", rec, err)
	}
}

//croft:race
func TestConcurrentFirstCallsMakeOneOpen(t *testing.T) {
	g := newRig(t, nil)
	g.p.OnOpen(workspacetest.Plan{Delay: 20 * time.Millisecond})
	id := g.create(nil)
	got := make([]*workspace.Workspace, 1000)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = g.acquireOK(id) })
	}
	wg.Wait()
	for _, ws := range got {
		if ws != got[0] {
			t.Fatal("two callers got different handles")
		}
	}
	if n := g.p.Count("open"); n != 1 {
		t.Errorf("1,000 calls made %d opens, want 1", n)
	}
}

//croft:race
func TestAWaiterThatLeavesDoesNotEndTheOthersWait(t *testing.T) {
	g := newRig(t, nil)
	proceed := make(chan struct{})
	g.p.OnOpen(workspacetest.Plan{WaitFor: proceed})
	id := g.create(nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := g.Acquire(ctx, id)
		wantCode(t, "the one who left", err, fault.Canceled)
	})
	for g.p.Count("open") == 0 {
		time.Sleep(time.Millisecond)
	}
	wg.Go(func() { g.acquireOK(id) })
	for g.waiters(id) < 2 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	for g.waiters(id) > 1 {
		time.Sleep(time.Millisecond)
	}
	close(proceed)
	wg.Wait()
	if n := g.p.Count("open"); n != 1 {
		t.Errorf("%d opens, want 1", n)
	}
}

func (g *rig) waiters(id string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.openCalls[id]; f != nil {
		return f.waiters
	}
	return 0
}

//croft:race
func TestWhenAllLeaveTheOpenIsCutShortAndTheNextGoesOn(t *testing.T) {
	g := newRig(t, nil)
	g.p.OnOpen(workspacetest.Plan{WaitFor: make(chan struct{})})
	id := g.create(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := g.Acquire(ctx, id)
	wantCode(t, "acquire", err, fault.DeadlineExceeded)
	g.p.OnOpen(workspacetest.Plan{})
	g.acquireOK(id)
	g.wantState(id, Ready)
}

func TestTransientFailuresAreRetriedWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		id := g.create(nil)
		g.p.OnOpen(workspacetest.Plan{Transient: 3})
		start := time.Now()
		g.acquireOK(id)
		if took := time.Since(start); took < 5*time.Second || took > 10*time.Second { // each wait is random by half
			t.Errorf("three retries took %v, want 5 to 10 s", took)
		}
		if n := g.p.Count("open"); n != 4 {
			t.Errorf("%d opens, want 4", n)
		}
		if rec, err := g.getRecord(t.Context(), id); err != nil || rec.Attempts != 0 || rec.Error != nil {
			t.Errorf("the record says %+v, %v", rec, err)
		}
	})
}

func TestTransientFailuresEndInFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, &Options{Retries: 1, RetryFor: time.Second})
		id := g.create(nil)
		g.p.OnOpen(workspacetest.Plan{Transient: 100})
		_, err := g.Acquire(t.Context(), id)
		wantCode(t, "acquire", err, fault.Failed)
		if fault.IsTransient(err) {
			t.Error("a failure that stays is marked transient")
		}
		g.wantState(id, Failed)
		if n := g.p.Count("open"); n != 2 {
			t.Errorf("%d opens, want 2", n)
		}
	})
}

// What a provider that could not be reached has of a workspace is not lost: it fails
// fast at first, and is tried again once the provider may be back.
func TestAWorkspaceIsTriedAgainAfterAnOutage(t *testing.T) {
	for name, lose := range map[string]func(*rig, string) error{
		"not live": func(g *rig, id string) error {
			if err := g.Close(g.t.Context(), id); err != nil {
				g.t.Fatal(err)
			}
			_, err := g.Acquire(g.t.Context(), id)
			return err
		},
		"live": func(g *rig, id string) error {
			ws := g.acquireOK(id)
			g.p.EvictCalls(1)
			_, err := ws.Stat(g.t.Context(), ".", nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, &Options{Retries: 1, RetryFor: time.Second})
				id := g.create(nil)
				g.acquireOK(id)
				g.p.OnResolve(workspacetest.Plan{Transient: 100})
				err := lose(g, id)
				wantCode(t, "without the provider", err, fault.Failed)
				if got := fault.CauseOf(err); got != fault.CauseOutage {
					t.Errorf("the cause is %q, want %q", got, fault.CauseOutage)
				}
				g.wantState(id, Failed)
				tried := g.p.Count("resolve")
				_, err = g.Acquire(t.Context(), id)
				wantCode(t, "at once", err, fault.Failed)
				if n := g.p.Count("resolve"); n != tried {
					t.Errorf("%d more resolves at once, want none", n-tried)
				}
				g.p.OnResolve(workspacetest.Plan{})
				time.Sleep(15 * time.Second) // a lease
				g.acquireOK(id)
				g.wantState(id, Ready)
			})
		})
	}
}

// A state that can't be read says nothing about the files, and may be restored.
func TestACorruptStateIsNotStoredAsAFailure(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	ws := g.acquireOK(id)
	g.p.OnResolve(workspacetest.Plan{Err: fault.WithCause(fault.Failed, fault.CauseCorrupt)})
	g.p.EvictCalls(1)
	_, err := ws.Stat(t.Context(), ".", nil)
	wantCode(t, "stat", err, fault.Failed)
	g.wantState(id, Evicted)
	if err := g.Close(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err = g.Acquire(t.Context(), id)
	wantCode(t, "acquire", err, fault.Failed)
	g.p.OnResolve(workspacetest.Plan{})
	g.acquireOK(id)
	g.wantState(id, Ready)
}

func TestAPermanentFailureFailsFastEverywhereUntilReset(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	g.p.OnOpen(workspacetest.Plan{Err: fault.WithCause(fault.Failed, "odd")})
	_, first := g.Acquire(t.Context(), id)
	wantCode(t, "acquire", first, fault.Failed)
	if fault.CauseOf(first) != "odd" {
		t.Errorf("the cause is %q", fault.CauseOf(first))
	}
	for who, r := range map[string]*rig{"the same": g, "another": g.twin(nil)} {
		_, err := r.Acquire(t.Context(), id)
		if err == nil || err.Error() != first.Error() || fault.Of(err) != fault.Failed || fault.CauseOf(err) != "odd" {
			t.Errorf("%s registry says %v, want %v", who, err, first)
		}
	}
	if n := g.p.Count("open"); n != 1 {
		t.Errorf("%d opens, want 1", n)
	}
	g.p.OnOpen(workspacetest.Plan{})
	if _, err := g.Reset(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	g.acquireOK(id)
	_, err := g.Reset(t.Context(), id)
	wantCode(t, "resetting a good one", err, fault.WrongState)
	if diff := cmp.Diff([]State{Intended, Opening, Failed, Intended, Opening, Ready}, g.told(id)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAProviderThatBreaksTheContractFailsForGood(t *testing.T) {
	for name, plan := range map[string]workspacetest.Plan{
		"panic":    {Panic: "password=hunter2"},
		"evicted":  {Err: fault.Evicted},
		"internal": {Err: fmt.Errorf("%w: password=hunter2", fault.Internal)},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			id := g.create(nil)
			g.p.OnOpen(plan)
			_, err := g.Acquire(t.Context(), id)
			wantCode(t, "acquire", err, fault.Failed)
			if errors.Is(err, fault.Evicted) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error is %v", err)
			}
			g.wantState(id, Failed)
		})
	}
}

func TestAProvidersPlainErrorIsShown(t *testing.T) {
	g := newRig(t, &Options{Scrub: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }})
	id := g.create(nil)
	g.p.OnOpen(workspacetest.Plan{Err: errors.New("disk says no to hunter2 " + strings.Repeat("x", 10_000))})
	_, first := g.Acquire(t.Context(), id)
	_, again := g.Acquire(t.Context(), id) // as stored
	for name, err := range map[string]error{"first": first, "again": again} {
		wantCode(t, name, err, fault.Failed)
		if text := fault.Encode(err).Message; !strings.Contains(text, "disk says no to ***") || len(text) > 2500 {
			t.Errorf("%s: the message has %d bytes: %.200s", name, len(text), text)
		}
	}
	g.wantState(id, Failed)
}

func TestAMissingCapabilityFailsAtAcquire(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(func(s *workspace.Spec) { s.Want = driver.NewCapabilities(driver.CapShell) })
	_, err := g.Acquire(t.Context(), id)
	wantCode(t, "acquire", err, fault.Failed)
	g.wantState(id, Failed)
}

func TestBadConfigKeepsItsCode(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(func(s *workspace.Spec) { s.Config = []byte(`{"bogus":1}`) })
	_, err := g.Acquire(t.Context(), id)
	wantCode(t, "acquire", err, fault.InvalidArgument)
	if !strings.Contains(err.Error(), "bogus") {
		t.Errorf("%v does not name the key", err)
	}
}

func TestBadInput(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(func(s *workspace.Spec) { s.Name = "demo" })
	_ = id
	for name, tt := range map[string]struct {
		edit  func(*workspace.Spec)
		code  fault.Code
		words []string
	}{
		"unknown kind": {func(s *workspace.Spec) { s.Kind = "cloud" }, fault.InvalidArgument, []string{"cloud", "memory"}},
		"bad name":     {func(s *workspace.Spec) { s.Name = "De mo" }, fault.InvalidArgument, []string{"De mo", "[a-z0-9]"}},
		"bad id":       {func(s *workspace.Spec) { s.ID = "../../etc" }, fault.InvalidArgument, []string{"../../etc", "20"}},
		"bad label":    {func(s *workspace.Spec) { s.Labels = map[string]string{"a b": "c"} }, fault.InvalidArgument, []string{"a b", "[A-Za-z0-9]"}},
		"bad value":    {func(s *workspace.Spec) { s.Labels = map[string]string{"a": "c\n"} }, fault.InvalidArgument, []string{"label a"}},
		"idle":         {func(s *workspace.Spec) { s.Policy.Idle = -1 }, fault.InvalidArgument, []string{"idle"}},
		"name taken":   {func(s *workspace.Spec) { s.Name = "demo" }, fault.AlreadyExists, []string{`"demo"`}},
		"two sources":  {func(s *workspace.Spec) { s.From.Template, s.From.Snapshot = "a", "b" }, fault.InvalidArgument, []string{"template"}},
		"large":        {func(s *workspace.Spec) { s.Policy.Env = map[string]string{"A": strings.Repeat("x", 1<<20)} }, fault.InvalidArgument, []string{"policy", "files"}},
		"bad json":     {func(s *workspace.Spec) { s.Config = []byte(`{`) }, fault.InvalidArgument, nil},
	} {
		spec := workspace.Spec{Kind: memory.Kind}
		tt.edit(&spec)
		_, err := g.Create(t.Context(), spec)
		wantCode(t, name, err, tt.code)
		for _, word := range tt.words {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not say %q", name, err, word)
			}
		}
	}
	if recs, err := g.List(t.Context(), Filter{}); err != nil || len(recs) != 1 {
		t.Errorf("bad input left %d records, %v; want 1", len(recs), err)
	}
	unknown := driver.NewID()
	for verb, call := range map[string]func(string) error{
		"acquire":  func(id string) error { _, err := g.Acquire(t.Context(), id); return err },
		"lookup":   func(id string) error { _, err := g.Lookup(t.Context(), "", id); return err },
		"describe": func(id string) error { _, err := g.Describe(t.Context(), id); return err },
		"reset":    func(id string) error { _, err := g.Reset(t.Context(), id); return err },
		"close":    func(id string) error { return g.Close(t.Context(), id) },
		"destroy":  func(id string) error { return g.Destroy(t.Context(), id) },
		"update":   func(id string) error { _, err := g.Update(t.Context(), id, workspace.Policy{}); return err },
		"pause":    func(id string) error { return g.Pause(t.Context(), id) },
		"resume":   func(id string) error { return g.Resume(t.Context(), id) },
		"label":    func(id string) error { _, err := g.SetLabels(t.Context(), id, nil); return err },
	} {
		if err := call(unknown); fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), unknown) {
			t.Errorf("%s of an unknown id: %v, want NotFound naming it", verb, err)
		}
		wantCode(t, verb+" of nonsense", call("../x"), fault.InvalidArgument)
	}
}

func TestLookup(t *testing.T) {
	g := newRig(t, nil)
	ann := g.create(func(s *workspace.Spec) { s.Name, s.Session.User = "demo", "ann" })
	bob := g.create(func(s *workspace.Spec) { s.Name, s.Session.User = "demo", "bob" })
	for _, tt := range []struct {
		owner, name, want string
	}{
		{"ann", "demo", ann}, {"bob", "demo", bob}, {"bob", bob, bob}, {"", ann, ann},
		{"bob", ann, ""}, {"", "demo", ""}, {"ann", "other", ""},
	} {
		rec, err := g.Lookup(t.Context(), tt.owner, tt.name)
		if rec.ID != tt.want || tt.want == "" && fault.Of(err) != fault.NotFound {
			t.Errorf("Lookup(%q, %q) = %q, %v; want %q", tt.owner, tt.name, rec.ID, err, tt.want)
		}
	}
}

func TestLabels(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(func(s *workspace.Spec) { s.Labels = map[string]string{"a": "1"} })
	want := map[string]string{"b": "2"}
	if _, err := g.SetLabels(t.Context(), id, want); err != nil {
		t.Fatal(err)
	}
	recs, err := g.List(t.Context(), Filter{Labels: want})
	if err != nil || len(recs) != 1 || !cmp.Equal(recs[0].Labels, want) || !cmp.Equal(recs[0].Spec.Labels, want) {
		t.Errorf("List by label = %v, %v", recs, err)
	}
	_, err = g.SetLabels(t.Context(), id, map[string]string{"": "x"})
	wantCode(t, "an empty key", err, fault.InvalidArgument)
}

func TestTheCapIsKept(t *testing.T) {
	g := newRig(t, &Options{MaxOpen: 2})
	a, b, c := g.create(nil), g.create(nil), g.create(nil)
	g.acquireOK(a)
	g.acquireOK(b)
	_, err := g.Acquire(t.Context(), c)
	wantCode(t, "the third", err, fault.ResourceExhausted)
	g.acquireOK(a)
	if err := g.Close(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	g.acquireOK(c)
	if err := g.Destroy(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	g.acquireOK(b)
	_, err = g.Acquire(t.Context(), c)
	wantCode(t, "one that is gone", err, fault.ResourceExhausted)
}

func TestARecordOfAnUnknownKindIsLeftAlone(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	r, err := New(t.Context(), g.store, workspace.NewMux(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Acquire(t.Context(), id)
	wantCode(t, "acquire", err, fault.InvalidArgument)
	wantCode(t, "destroy", r.Destroy(t.Context(), id), fault.InvalidArgument)
	g.wantState(id, Intended)
}
