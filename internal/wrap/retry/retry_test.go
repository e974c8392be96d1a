package retry

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

func wrapped(t *testing.T, opts Options) (*workspacetest.Scripted, *Provider, *[]time.Duration) {
	t.Helper()
	var waits []time.Duration
	opts.Wait = func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}
	inner := workspacetest.NewScripted(new(memory.Provider))
	p, err := Wrap(inner, opts)
	if err != nil {
		t.Fatal(err)
	}
	return inner, p, &waits
}

func TestOpenIsRepeated(t *testing.T) {
	inner, p, waits := wrapped(t, Options{For: 7 * time.Second})
	inner.OnOpen(workspacetest.Plan{Transient: 3})
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: p.Kind()})
	if err != nil {
		t.Fatal(err)
	}
	var all time.Duration
	for _, d := range *waits {
		all += d
	}
	if len(*waits) != 3 || all > 7*time.Second {
		t.Errorf("waited %v, want three times and 7 s at most", *waits)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatFailsForGoodIsNot(t *testing.T) {
	inner, p, waits := wrapped(t, Options{})
	inner.OnOpen(workspacetest.Plan{Err: fault.Failed})
	if _, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: p.Kind()}); fault.Of(err) != fault.Failed {
		t.Errorf("got %v, want Failed", err)
	}
	inner.OnOpen(workspacetest.Plan{Transient: 9})
	if _, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: p.Kind()}); !fault.IsTransient(err) {
		t.Errorf("got %v, want a transient failure", err)
	}
	if got := inner.Count("open"); got != 1+4 || len(*waits) != 3 {
		t.Errorf("opened %d times with %d waits, want 5 and 3", got, len(*waits))
	}
}

// TestNothingHappensTwice proves that what changes a workspace is tried once.
func TestNothingHappensTwice(t *testing.T) {
	inner, p, _ := wrapped(t, Options{})
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: p.Kind()})
	if err != nil {
		t.Fatal(err)
	}
	inner.On("fs.Write", workspacetest.Plan{Transient: 1})
	if _, err := ws.FS.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{}); !fault.IsTransient(err) {
		t.Errorf("Write: %v, want the failure as it is", err)
	}
	inner.On("fs.Stat", workspacetest.Plan{Transient: 1})
	if _, err := ws.FS.Stat(t.Context(), ".", &driver.StatOptions{}); err != nil {
		t.Errorf("Stat: %v", err)
	}
	if w, s := inner.Count("fs.Write"), inner.Count("fs.Stat"); w != 1 || s != 2 {
		t.Errorf("%d writes and %d looks, want 1 and 2", w, s)
	}
}

func TestContextEndsTheWaits(t *testing.T) {
	inner := workspacetest.NewScripted(new(memory.Provider))
	inner.OnOpen(workspacetest.Plan{Transient: 9})
	p, err := Wrap(inner, Options{For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: p.Kind()}); err == nil {
		t.Error("Open succeeds under a context that ended")
	}
	if _, err := Wrap(inner, Options{Retries: -1}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("Wrap with -1 retries: %v, want InvalidArgument", err)
	}
}
