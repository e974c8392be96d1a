package registry

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

//croft:race
func TestEvictionResolvesOnceAndRepeatsOnce(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	ws := g.acquireOK(id)
	if _, err := ws.WriteFile(t.Context(), "a", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	calls := g.p.Count("call")
	g.p.EvictCalls(1)
	if got, err := ws.ReadFile(t.Context(), "a"); err != nil || string(got) != "x" {
		t.Errorf("read %q, %v; want x", got, err)
	}
	if n := g.p.Count("resolve"); n != 1 {
		t.Errorf("%d resolves, want 1", n)
	}
	if n := g.p.Count("call") - calls; n < 2 {
		t.Errorf("%d calls, want the first and its repetition", n)
	}
	g.wantState(id, Ready)
	if diff := cmp.Diff([]State{Intended, Opening, Ready, Evicted, Ready}, g.told(id)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

//croft:race
func TestASecondEvictionOfOneCallReachesTheCaller(t *testing.T) {
	g := newRig(t, nil)
	ws := g.acquireOK(g.create(nil))
	g.p.EvictCalls(1, 2)
	_, err := ws.Stat(t.Context(), ".", nil)
	wantCode(t, "stat", err, fault.Evicted)
	if n := g.p.Count("resolve"); n != 1 {
		t.Errorf("%d resolves, want 1", n)
	}
	if _, err := ws.Stat(t.Context(), ".", nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// vanishing is a file system whose Stat waits until n calls are there and then
// says that the live thing behind it is gone, to all of them.
type vanishing struct {
	driver.Files
	arrived *sync.WaitGroup
}

func (v vanishing) Stat(context.Context, string, *driver.StatOptions) (driver.Info, error) {
	v.arrived.Done()
	v.arrived.Wait()
	return driver.Info{}, fault.Evicted
}

//croft:race
func TestConcurrentCallsThatMeetOneEvictionResolveOnce(t *testing.T) {
	const n = 20
	var arrived sync.WaitGroup
	arrived.Add(n)
	handles := 0
	p := workspacetest.NewScripted(decorated{new(memory.Provider), func(d *driver.Workspace) {
		if handles++; handles == 1 {
			fs := *d.FS
			fs.Files = vanishing{fs.Files, &arrived}
			d.FS = &fs
		}
	}})
	g := newRigOn(t, sqliteURL(t), p, nil)
	ws := g.acquireOK(g.create(nil))
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := ws.Stat(t.Context(), ".", nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := p.Count("resolve"); got != 1 {
		t.Errorf("%d calls met one eviction and made %d resolves, want 1", n, got)
	}
}

func TestAnEvictedWorkspaceThatIsGoneFails(t *testing.T) {
	g := newRig(t, nil)
	id := g.create(nil)
	ws := g.acquireOK(id)
	g.p.EvictCalls(1)
	g.p.OnResolve(workspacetest.Plan{Err: fault.WithCause(fault.Failed, fault.CauseGone)})
	_, err := ws.Stat(t.Context(), ".", nil)
	wantCode(t, "the call", err, fault.Failed)
	if fault.CauseOf(err) != fault.CauseGone {
		t.Errorf("the cause is %q, want gone", fault.CauseOf(err))
	}
	g.wantState(id, Failed)
	_, again := g.Acquire(t.Context(), id)
	if again == nil || again.Error() != err.Error() {
		t.Errorf("Acquire says %v, want %v", again, err)
	}
	if n := g.p.Count("resolve"); n != 1 {
		t.Errorf("%d resolves, want 1", n)
	}
	g.p.OnResolve(workspacetest.Plan{})
	if _, err := g.Reset(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	g.wantState(id, Evicted)
	if ws = g.acquireOK(id); g.p.Count("open") != 1 {
		t.Errorf("%d opens, want 1: what was ready once is never made anew", g.p.Count("open"))
	}
	if _, err := ws.Stat(t.Context(), ".", nil); err != nil {
		t.Error(err)
	}
}
