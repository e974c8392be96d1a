package app_test

import (
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/workspace/driver"
)

// TestEventsAreKept proves that what happens is in the file of the data
// directory, numbered on from one program to the next, and that a workspace that
// was opened is told of even by a program that ends at once.
//
//croft:slow-race
func TestEventsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var ids []string
	for range 2 {
		sys, err := app.Open(t.Context(), app.Config{DataDir: dir, Operator: true})
		if err != nil {
			t.Fatal(err)
		}
		c, err := sys.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ws, err := c.Create(t.Context(), driver.Spec{Kind: "local"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ws.ID)
		if err := sys.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	announced := map[string]int{}
	var last uint64
	for e, err := range event.ReadFiles(app.EventsFile(dir, config.Default())) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Sequence != last+1 {
			t.Errorf("event %d follows %d", e.Sequence, last)
		}
		last = e.Sequence
		if e.Kind == event.WorkspaceSandbox {
			announced[e.Workspace]++
		}
	}
	for _, id := range ids {
		if announced[id] != 1 {
			t.Errorf("workspace %s was announced %d times, want once", id, announced[id])
		}
	}
}
