package limit

import (
	"context"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

func wrapped(t *testing.T, opts Options) (*workspacetest.Scripted, *Provider) {
	t.Helper()
	inner := workspacetest.NewScripted(new(memory.Provider))
	p, err := Wrap(inner, opts)
	if err != nil {
		t.Fatal(err)
	}
	return inner, p
}

func open(t *testing.T, p *Provider) *driver.Workspace {
	t.Helper()
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: p.Kind()})
	if err != nil {
		t.Fatal(err)
	}
	return ws
}

func TestWorkspacesAreCounted(t *testing.T) {
	inner, p := wrapped(t, Options{Workspaces: 2})
	first, _ := open(t, p), open(t, p)
	spec := driver.Spec{ID: driver.NewID(), Kind: p.Kind()}
	if _, err := p.Open(t.Context(), spec); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("the third of two: %v, want ResourceExhausted", err)
	}
	if err := first.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Life.Close(t.Context()); err != nil { // gives no second place
		t.Fatal(err)
	}
	inner.OnOpen(workspacetest.Plan{Err: fault.Failed}) // one that fails takes none
	if _, err := p.Open(t.Context(), spec); fault.Of(err) != fault.Failed {
		t.Errorf("got %v, want Failed", err)
	}
	inner.OnOpen(workspacetest.Plan{})
	open(t, p)
	if _, err := p.Open(t.Context(), spec); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("the third of two, later: %v, want ResourceExhausted", err)
	}
}

// TestCallsWaitForTheirTurn proves that one call runs at a time, that the next
// waits for it, and that what ends a workspace does not wait.
func TestCallsWaitForTheirTurn(t *testing.T) {
	inner, p := wrapped(t, Options{Calls: 1, Wait: time.Minute})
	ws := open(t, p)
	gate := make(chan struct{})
	inner.On("fs.Stat", workspacetest.Plan{WaitFor: gate})
	done := make(chan error, 2)
	stat := func(ctx context.Context) { _, err := ws.FS.Stat(ctx, ".", &driver.StatOptions{}); done <- err }
	go stat(t.Context())
	for inner.Count("fs.Stat") == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go stat(ctx)
	cancel()
	if err := <-done; fault.Of(err) != fault.Canceled {
		t.Errorf("one that gives up waiting: %v, want Canceled", err)
	}
	if err := open(t, p).Life.Close(t.Context()); err != nil {
		t.Errorf("Close while a call runs: %v", err)
	}
	close(gate)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := inner.Count("fs.Stat"); got != 1 {
		t.Errorf("%d calls got through, want 1", got)
	}
}

func TestRate(t *testing.T) {
	_, p := wrapped(t, Options{Rate: 0.001, Burst: 3})
	ws := open(t, p)
	for range 3 {
		if _, err := ws.FS.Stat(t.Context(), ".", &driver.StatOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ws.FS.Stat(t.Context(), ".", &driver.StatOptions{}); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("the fourth of three: %v, want ResourceExhausted", err)
	}
	_, p = wrapped(t, Options{Rate: 1000, Burst: 1, Wait: time.Minute})
	ws = open(t, p)
	for range 20 { // each waits for its turn
		if _, err := ws.FS.Stat(t.Context(), ".", &driver.StatOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Wrap(p, Options{Rate: -1}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a negative bound: %v, want InvalidArgument", err)
	}
}
