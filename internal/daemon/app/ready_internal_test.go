package app

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/croft-run/croft/internal/daemon/gc"
	"github.com/croft-run/croft/internal/server/rest"
	"github.com/croft-run/croft/registry"
)

// A task that hangs makes the server unready and is in its metrics; a workspace that hangs is a check
// that fails, and the server is ready for all others.
func TestStallsAreReported(t *testing.T) {
	sys, err := Open(t.Context(), Config{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sys.Close(context.WithoutCancel(t.Context())) })
	check := func(name string) rest.ReadyCheck {
		t.Helper()
		for _, c := range sys.readyChecks(t.Context()) {
			if c.Name == name {
				return c
			}
		}
		t.Fatalf("no check %q", name)
		return rest.ReadyCheck{}
	}
	metric := func() (sum float64, tasks int) {
		t.Helper()
		all := prometheus.NewRegistry()
		all.MustRegister(systemCollector{sys})
		families, err := all.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "croft_background_stalled" {
				for _, m := range family.GetMetric() {
					sum, tasks = sum+m.GetGauge().GetValue(), tasks+1
				}
			}
		}
		return sum, tasks
	}
	if !check("background").OK || !check("stuck-workspaces").OK {
		t.Error("a check fails before anything stalls")
	}
	if sum, tasks := metric(); sum != 0 || tasks != len(registry.Tasks())+1 {
		t.Errorf("the metric has %v stalls of %d tasks", sum, tasks)
	}
	free, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		sys.background.Do(t.Context(), gc.Task, time.Millisecond, func(context.Context) error { <-free; return nil })
	}()
	for len(sys.background.Stalls()) == 0 {
		time.Sleep(time.Millisecond)
	}
	if c := check("background"); c.OK || c.Advisory {
		t.Errorf("got %+v, want a check that fails", c)
	}
	if c := check("stuck-workspaces"); !c.OK || !c.Advisory {
		t.Errorf("got %+v, want an advisory check that holds", c)
	}
	if sum, _ := metric(); sum != 1 {
		t.Errorf("the metric has %v stalls, want 1", sum)
	}
	close(free)
	<-done
	if !check("background").OK {
		t.Error("the check fails after the task has ended")
	}
}
