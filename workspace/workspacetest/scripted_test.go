package workspacetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func scripted(t *testing.T) (*Scripted, driver.Spec) {
	t.Helper()
	return NewScripted(&dirs{dir: t.TempDir()}), driver.Spec{ID: driver.NewID(), Kind: dirKind}
}

// A provider with a script that says nothing is the provider itself.
func TestScriptedConformance(t *testing.T) {
	h := harness(defects{})
	base := h.Provider
	h.Provider = func(t testing.TB, dir string) driver.Provider { return NewScripted(base(t, dir)) }
	sample := newSample(t, h)
	for _, check := range slices.Concat(openChecks, revisionChecks, capabilityChecks, lifeChecks, readChecks, writeChecks, moveChecks) {
		t.Run(check.Name, func(t *testing.T) {
			env := sample.newEnv(t)
			if reason, ok := env.needsMet(check); !ok {
				t.Skip("skipped: " + reason)
			}
			check.Func(t, env)
		})
	}
}

func TestScriptedOpen(t *testing.T) {
	s, spec := scripted(t)
	s.OnOpen(Plan{Transient: 2})
	for i := range 2 {
		_, err := s.Open(t.Context(), spec)
		if fault.Of(err) != fault.Failed || !fault.IsTransient(err) {
			t.Errorf("call %d: got %v, want a transient Failed", i+1, err)
		}
	}
	d, err := s.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s.OnResolve(Plan{Err: fault.Failed})
	for range 2 {
		if _, err := s.Resolve(t.Context(), d.Ref); fault.Of(err) != fault.Failed || fault.IsTransient(err) {
			t.Errorf("got %v, want a permanent Failed", err)
		}
	}
	if got := s.Count("open"); got != 3 {
		t.Errorf("Open was counted %d times, want 3", got)
	}
	if got := s.Count("resolve"); got != 2 {
		t.Errorf("Resolve was counted %d times, want 2", got)
	}
	s.OnOpen(Plan{After: fault.Failed})
	other := driver.Spec{ID: driver.NewID(), Kind: dirKind}
	if _, err := s.Open(t.Context(), other); fault.Of(err) != fault.Failed {
		t.Errorf("got %v, want Failed", err)
	}
	if left := leftovers(t, s.Provider.(*dirs).dir); len(left) != 2 {
		t.Errorf("there are %q, want the workspace whose Open had its effect and failed, too", left)
	}
}

func TestScriptedEviction(t *testing.T) {
	s, spec := scripted(t)
	renewed := 0
	d, err := s.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(spec.ID, d, nil, &workspace.Options{
		Renew: func(ctx context.Context, stale *driver.Workspace) (*driver.Workspace, error) {
			renewed++
			return s.Resolve(ctx, stale.Ref)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.EvictCalls(2)
	for _, name := range []string{"one", "two"} {
		if _, err := ws.WriteFile(t.Context(), name, []byte(name), nil); err != nil {
			t.Errorf("write %s: %v", name, err)
		}
	}
	if renewed != 1 {
		t.Errorf("renewed %d times, want 1", renewed)
	}
	if got := s.Count("fs.Write"); got != 3 {
		t.Errorf("Write was counted %d times, want 3", got)
	}
	s.EvictCalls(1)
	if err := d.FS.Rename(t.Context(), "one", "moved", &driver.RenameOptions{}); fault.Of(err) != fault.Evicted {
		t.Errorf("got %v, want Evicted", err)
	}
	if _, err := d.FS.Stat(t.Context(), "one", &driver.StatOptions{}); err != nil {
		t.Errorf("a call that was evicted had an effect: %v", err)
	}
}

func TestScriptedWaits(t *testing.T) {
	s, spec := scripted(t)
	gate := make(chan struct{})
	s.OnOpen(Plan{WaitFor: gate})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Open(ctx, spec); fault.Of(err) != fault.Canceled {
		t.Errorf("at a closed gate: got %v, want Canceled", err)
	}
	close(gate)
	d, err := s.Open(t.Context(), spec)
	if err != nil {
		t.Errorf("at an open gate: %v", err)
	}
	s.On("fs.Stat", Plan{Delay: time.Hour})
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := d.FS.Stat(ctx, ".", &driver.StatOptions{}); !errors.Is(err, fault.DeadlineExceeded) && fault.Of(err) != fault.DeadlineExceeded {
		t.Errorf("a slow call: got %v, want DeadlineExceeded", err)
	}
}

func TestScriptedPanics(t *testing.T) {
	s, spec := scripted(t)
	d, err := s.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s.OnCall(Plan{Panic: "as told"})
	defer func() {
		if got := recover(); got != "as told" {
			t.Errorf("recovered %v, want the panic of the script", got)
		}
	}()
	d.FS.Stat(t.Context(), ".", &driver.StatOptions{}) // it panics
}
