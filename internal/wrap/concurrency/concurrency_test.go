package concurrency

import (
	"context"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
)

func TestCommandsAreCounted(t *testing.T) {
	inner, err := testshell.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	limit := New(t.Context(), 2)
	p := limit.Wrap(inner)
	var all []*driver.Workspace
	for range 2 { // they share the cap
		ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: testshell.Kind})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.Life.Destroy(context.WithoutCancel(t.Context())) })
		all = append(all, ws)
	}
	var sessions []*driver.Session
	for _, ws := range all {
		s, err := ws.Shell.Start(t.Context(), driver.Command{Argv: []string{"sleep", "1000"}})
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	_, err = all[0].Shell.Start(t.Context(), driver.Command{Argv: []string{"true"}})
	if fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("the third of two: %v, want ResourceExhausted", err)
	}
	if err := sessions[1].Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := sessions[1].Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for { // who counts hears of the end when others do
		s, err := all[0].Shell.Start(t.Context(), driver.Command{Argv: []string{"true"}})
		if err == nil {
			if _, err := s.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			break
		}
		if fault.Of(err) != fault.ResourceExhausted {
			t.Fatal(err)
		}
	}
	if err := limit.Close(); err != nil {
		t.Error(err)
	}
	if err := sessions[0].Kill(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
