package registry

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

func TestAClosedWorkspaceLivesOn(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	ws := g.acquireOK(id)
	if _, err := ws.WriteFile(t.Context(), "a", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	if err := ws.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.ReadFile(t.Context(), "a"); err != nil {
		t.Errorf("closing a shared handle ended it: %v", err)
	}
	for range 2 {
		if err := g.Close(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	g.wantState(id, Closed)
	_, err := ws.ReadFile(t.Context(), "a")
	wantCode(t, "a handle on a closed workspace", err, fault.WrongState)
	if got, err := g.acquireOK(id).ReadFile(t.Context(), "a"); err != nil || string(got) != "x" {
		t.Errorf("after opening it again: %q, %v", got, err)
	}
	if n := g.p.Count("open"); n != 1 {
		t.Errorf("%d opens, want 1", n)
	}
	if diff := cmp.Diff([]State{Intended, Opening, Ready, Closed, Opening, Ready}, g.told(id)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestDestroyEndsEverything(t *testing.T) {
	for name, prepare := range map[string]func(g *rig, id string){
		"intended": func(*rig, string) {},
		"live":     func(g *rig, id string) { g.acquireOK(id) },
		"closed": func(g *rig, id string) {
			g.acquireOK(id)
			if err := g.Close(g.t.Context(), id); err != nil {
				g.t.Fatal(err)
			}
		},
		"half open": func(g *rig, id string) { // made, and then the provider failed
			g.p.OnOpen(workspacetest.Plan{After: fault.Failed})
			if _, err := g.Acquire(g.t.Context(), id); err == nil {
				g.t.Fatal("the open succeeded")
			}
		},
		"unresolvable": func(g *rig, id string) {
			g.acquireOK(id)
			if err := g.Close(g.t.Context(), id); err != nil {
				g.t.Fatal(err)
			}
			g.p.OnResolve(workspacetest.Plan{Err: fault.Failed})
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := new(memory.Provider)
			g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(base), nil)
			id := g.create(func(s *workspace.Spec) { s.Name = "demo" })
			prepare(g, id)
			if err := g.Destroy(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			g.wantState(id, "")
			if made(t, base, id) {
				t.Error("the provider still has it")
			}
			_, err := g.Acquire(t.Context(), id)
			wantCode(t, "acquire", err, fault.NotFound)
			wantCode(t, "destroy", g.Destroy(t.Context(), id), fault.NotFound)
			g.create(func(s *workspace.Spec) { s.Name = "demo" }) // the name is free
		})
	}
}

// made reports whether the provider holds a workspace with the id.
func made(t *testing.T, p *memory.Provider, id string) bool {
	t.Helper()
	ref, err := driver.NewRef(memory.Kind, map[string]string{"id": id}, driver.NewCapabilities(driver.CapFS), 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Resolve(t.Context(), ref)
	cause := fault.CauseOf(err)
	if err != nil && cause != fault.CauseGone && cause != fault.CauseStale {
		t.Fatal(err)
	}
	return cause != fault.CauseGone // one whose policy was changed since is there, too
}

func TestADestroyThatWasCutShortIsSweptOrRepeated(t *testing.T) {
	for name, finish := range map[string]func(g *rig, id string) error{
		"swept":    func(g *rig, _ string) error { return g.Sweep(g.t.Context()) },
		"repeated": func(g *rig, id string) error { return g.Destroy(g.t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			base := new(memory.Provider)
			g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(base), nil)
			id, other := g.create(func(s *workspace.Spec) { s.Name = "demo" }), g.create(nil)
			ws := g.acquireOK(id)
			g.acquireOK(other)
			g.p.On("destroy", workspacetest.Plan{Err: fault.Unavailable})
			wantCode(t, "destroy", g.Destroy(t.Context(), id), fault.Unavailable)
			g.wantState(id, Destroyed)
			_, err := g.Acquire(t.Context(), id)
			wantCode(t, "acquire", err, fault.NotFound)
			_, err = ws.Stat(t.Context(), ".", nil)
			wantCode(t, "a handle", err, fault.NotFound)
			g.create(func(s *workspace.Spec) { s.Name = "demo" })
			g.p.On("destroy", workspacetest.Plan{})
			if err := finish(g, id); err != nil {
				t.Fatal(err)
			}
			g.wantState(id, "")
			if made(t, base, id) || !made(t, base, other) {
				t.Error("the wrong things were removed")
			}
		})
	}
}

func TestDestroyDuringOpenLeavesNothing(t *testing.T) {
	base := new(memory.Provider)
	g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(base), nil)
	other := g.twin(nil)
	for _, who := range []*rig{g, other} {
		proceed := make(chan struct{})
		g.p.OnOpen(workspacetest.Plan{WaitFor: proceed})
		id := g.create(nil)
		opens, got := g.p.Count("open"), make(chan error, 2)
		go func() { _, err := g.Acquire(context.WithoutCancel(t.Context()), id); got <- err }()
		for g.p.Count("open") == opens {
		}
		go func() { got <- who.Destroy(context.WithoutCancel(t.Context()), id) }()
		for g.state(id) == Opening {
		}
		close(proceed)
		for range 2 {
			if err := <-got; err != nil && fault.Of(err) != fault.NotFound {
				t.Error(err)
			}
		}
		g.wantState(id, "")
		if made(t, base, id) {
			t.Error("the provider still has it")
		}
	}
}

func TestSweepRemovesOnlyWhatHasNoRecord(t *testing.T) {
	base := new(memory.Provider)
	g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(base), nil)
	orphan, kept := driver.NewID(), g.create(nil)
	if _, err := base.Open(t.Context(), driver.Spec{ID: orphan, Kind: memory.Kind}); err != nil {
		t.Fatal(err)
	}
	g.acquireOK(kept)
	if err := g.twin(nil).Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if made(t, base, orphan) || !made(t, base, kept) {
		t.Error("the wrong things were swept")
	}
}

// Who keeps more about workspaces hears in a sweep which of them there are.
func TestSweptHearsWhatThereIs(t *testing.T) {
	g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(new(memory.Provider)), nil)
	kept, gone := g.create(nil), g.create(nil)
	g.acquireOK(kept)
	if err := g.Destroy(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	var told []string
	sweeper := g.twin(&Options{Swept: func(_ context.Context, live []string) error { told = live; return nil }})
	if err := sweeper.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(told, []string{kept}) {
		t.Errorf("told of %v, want %v", told, []string{kept})
	}
}

// The caller removes its data of a destroyed workspace with it. After an error the record
// stays until the next sweep.
func TestRemovedIsCalledForADestroyedWorkspace(t *testing.T) {
	var removed []string
	fails := errors.New("the disk is full")
	g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(new(memory.Provider)), &Options{Removed: func(_ context.Context, id string) error {
		removed = append(removed, id)
		return fails
	}})
	id := g.create(nil)
	g.acquireOK(id)
	if err := g.Destroy(t.Context(), id); !errors.Is(err, fails) {
		t.Errorf("got %v, want %v", err, fails)
	}
	if rec, err := g.store.Get(t.Context(), id); err != nil || rec.State != Destroyed {
		t.Errorf("the record is %s (%v), want %s", rec.State, err, Destroyed)
	}
	fails = nil
	if err := g.Destroy(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(removed, []string{id, id}) {
		t.Errorf("called for %v, want twice for %s", removed, id)
	}
}

// TestNoOpenIsUnderWayDuringASweep attacks the exclusion with two registries.
func TestNoOpenIsUnderWayDuringASweep(t *testing.T) {
	p := &overlapping{Provider: new(memory.Provider)}
	g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(p), nil)
	other := g.twin(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			if err := other.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 60 {
		g.acquireOK(g.create(nil))
	}
	<-done
	if p.met.Load() {
		t.Error("a provider was asked to open while it swept")
	}
	recs, err := g.List(t.Context(), Filter{States: []State{Ready}})
	if err != nil || len(recs) != 60 {
		t.Errorf("%d of 60 are ready, %v", len(recs), err)
	}
	for _, rec := range recs {
		if _, err := p.Resolve(t.Context(), *rec.Ref); err != nil {
			t.Errorf("a new workspace was swept: %v", err)
		}
	}
}

type overlapping struct {
	driver.Provider
	opens, sweeps atomic.Int64
	met           atomic.Bool
}

func (p *overlapping) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	p.opens.Add(1)
	defer p.opens.Add(-1)
	time.Sleep(time.Millisecond)
	if p.sweeps.Load() > 0 {
		p.met.Store(true)
	}
	return p.Provider.Open(ctx, spec)
}

func (p *overlapping) Sweep(ctx context.Context, live []string) error {
	p.sweeps.Add(1)
	defer p.sweeps.Add(-1)
	time.Sleep(time.Millisecond)
	if p.opens.Load() > 0 {
		p.met.Store(true)
	}
	return p.Provider.Sweep(ctx, live)
}

func TestPauseAndResume(t *testing.T) {
	var paused atomic.Bool
	p := decorated{new(memory.Provider), func(d *driver.Workspace) {
		d.Life.Pause = func(context.Context) error { paused.Store(true); return nil }
		d.Life.Resume = func(context.Context) error { paused.Store(false); return nil }
	}}
	g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(p), nil)
	id := g.create(nil)
	wantCode(t, "pausing what is not open", g.Pause(t.Context(), id), fault.WrongState)
	ws := g.acquireOK(id)
	if err := g.Pause(t.Context(), id); err != nil || !paused.Load() {
		t.Fatalf("pause: %v", err)
	}
	g.wantState(id, Paused)
	_, err := ws.Stat(t.Context(), ".", nil)
	wantCode(t, "a handle", err, fault.WrongState)
	other := g.twin(nil)
	_, err = other.Acquire(t.Context(), id)
	wantCode(t, "acquire", err, fault.WrongState)
	if err := other.Resume(t.Context(), id); err != nil || paused.Load() {
		t.Fatalf("resume: %v", err)
	}
	g.acquireOK(id)
	wantCode(t, "resuming what runs", g.Resume(t.Context(), id), fault.WrongState)
	plain := newRig(t, nil)
	id = plain.create(nil)
	plain.acquireOK(id)
	wantCode(t, "a provider without pause", plain.Pause(t.Context(), id), fault.Unsupported)
	plain.wantState(id, Ready)
}

func TestUpdateIsDurableBeforeItIsAcknowledged(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	ws := g.acquireOK(id)
	before := ws.Ref()
	rec, err := g.Update(t.Context(), id, workspace.Policy{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if !rec.Spec.Policy.ReadOnly || rec.Ref.Revision <= before.Revision || rec.Pending != nil || rec.Worker != "" {
		t.Errorf("the record is %+v", rec)
	}
	stored, err := openStore(t, g.url).Get(t.Context(), id)
	if err != nil || !cmp.Equal(stored.Ref, rec.Ref) || !stored.Spec.Policy.ReadOnly {
		t.Errorf("stored is %+v, %v", stored, err)
	}
	_, err = ws.WriteFile(t.Context(), "a", nil, nil)
	if err == nil {
		t.Error("the handle still writes")
	}
	_, err = g.p.Resolve(t.Context(), before)
	if fault.CauseOf(err) != fault.CauseStale {
		t.Errorf("the old ref: %v, want stale", err)
	}
}

func TestAPolicyThatIsRefusedChangesNothing(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	ws := g.acquireOK(id)
	_, err := g.Update(t.Context(), id, workspace.Policy{Isolation: driver.IsolationVM})
	wantCode(t, "update", err, fault.Unsupported)
	rec, err := g.getRecord(t.Context(), id)
	if err != nil || rec.Pending != nil || rec.Worker != "" || rec.Spec.Policy.Isolation != "" {
		t.Errorf("the record is %+v, %v", rec, err)
	}
	if _, err := ws.Stat(t.Context(), ".", nil); err != nil {
		t.Errorf("the handle: %v", err)
	}
}

//croft:race
func TestIdleAndPersistNeedNoProvider(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	g.acquireOK(id)
	rec, err := g.Update(t.Context(), id, workspace.Policy{Idle: 1e9, Persist: true})
	if err != nil || rec.Spec.Policy.Idle != 1e9 || g.p.Count("update") != 0 {
		t.Errorf("update: %+v, %v, with %d calls of the provider", rec.Spec.Policy, err, g.p.Count("update"))
	}
}

// TestACrashDuringUpdateConverges plays the two halves that a crash can leave:
// the wish stored and not made, and made with its ref not stored.
func TestACrashDuringUpdateConverges(t *testing.T) {
	for name, tt := range map[string]struct {
		made bool
		want bool
	}{"before the change": {false, false}, "after the change": {true, true}} {
		t.Run(name, func(t *testing.T) {
			base := new(memory.Provider)
			g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(base), nil)
			id := g.create(nil)
			g.acquireOK(id)
			wish := workspace.Policy{ReadOnly: true}
			if err := g.storePending(t.Context(), id, wish); err != nil {
				t.Fatal(err)
			}
			if tt.made {
				rec, err := g.getRecord(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				d, err := base.Resolve(t.Context(), *rec.Ref)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := d.Life.Update(t.Context(), wish); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.store.Leave(t.Context(), g.self.ID); err != nil { // the crash
				t.Fatal(err)
			}
			next := g.twin(nil)
			next.acquireOK(id)
			rec, err := next.getRecord(t.Context(), id)
			if err != nil || rec.Pending != nil || rec.Worker != "" || rec.Spec.Policy.ReadOnly != tt.want || rec.State != Ready {
				t.Errorf("the record is %+v, %v", rec, err)
			}
			if _, err := base.Resolve(t.Context(), *rec.Ref); err != nil {
				t.Errorf("the stored ref: %v", err)
			}
		})
	}
}

// TestAnUpdateOfUnknownOutcomeIsFoundOut has the provider make the change and
// then answer with an error.
func TestAnUpdateOfUnknownOutcomeIsFoundOut(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	g.acquireOK(id)
	g.p.On("update", workspacetest.Plan{After: fault.Unavailable})
	_, err := g.Update(t.Context(), id, workspace.Policy{ReadOnly: true})
	wantCode(t, "update", err, fault.Unavailable)
	if _, err := g.acquireOK(id).WriteFile(t.Context(), "a", nil, nil); err == nil {
		t.Error("the policy that was made is not in force")
	}
	rec, err := g.getRecord(t.Context(), id)
	if err != nil || rec.Pending != nil || !rec.Spec.Policy.ReadOnly {
		t.Errorf("the record is %+v, %v", rec, err)
	}
}

func TestUpdateBeforeOpenIsOnlyAWish(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	if _, err := g.Update(t.Context(), id, workspace.Policy{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	g.wantState(id, Intended)
	if _, err := g.acquireOK(id).WriteFile(t.Context(), "a", nil, nil); err == nil {
		t.Error("it is not read-only")
	}
}

func TestDescribe(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	d, err := g.Describe(t.Context(), id)
	if err != nil || d.Live || len(d.Holders) != 0 || !cmp.Equal(d.Moves, moves[Intended]) {
		t.Errorf("before: %+v, %v", d, err)
	}
	g.acquireOK(id)
	other := g.twin(nil)
	other.acquireOK(id)
	d, err = g.Describe(t.Context(), id)
	if err != nil || !d.Live || d.Traits == nil || len(d.Holders) != 2 {
		t.Errorf("with two holders: %+v, %v", d, err)
	}
}

func TestShutdownLetsGo(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	ws := g.acquireOK(id)
	for range 2 {
		if err := g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ws.Stat(t.Context(), ".", nil); err == nil {
		t.Error("the handle still works")
	}
	_, err := g.Acquire(t.Context(), id)
	wantCode(t, "acquire", err, fault.Unavailable)
	g.wantState(id, Ready)
	if holders, err := g.store.Holders(t.Context(), id); err != nil || len(holders) != 0 {
		t.Errorf("holders are %v, %v; want none", holders, err)
	}
}
