package template

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
)

// TestCapture captures a directory once for each state of it, without credential
// files unless they are asked for, and forgets old states.
func TestCapture(t *testing.T) {
	now := time.Now()
	c := &Catalog{Store: snapshot.Open(snapshot.Dir(t.TempDir()), &snapshot.Options{CacheDir: t.TempDir(), Now: func() time.Time { return now }})}
	dir := t.TempDir()
	write(t, dir, "main.go", "1")
	write(t, dir, "app/.env", "KEY=1")
	capture := func(credentials bool) *snapshot.Manifest {
		t.Helper()
		m, err := c.Capture(t.Context(), dir, credentials)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	now = now.Add(-2 * captureAge)
	first := capture(false)
	if diff := cmp.Diff([]string{"app/.env"}, first.LeftOut); diff != "" || first.Files != 1 {
		t.Errorf("%d files, without (-want +got):\n%s", first.Files, diff)
	}
	if again := capture(false); again.ID != first.ID {
		t.Errorf("captured again as %s, want %s", again.ID, first.ID)
	}
	if all := capture(true); all.Files != 2 || all.LeftOut != nil {
		t.Errorf("with credentials: %d files, without %v", all.Files, all.LeftOut)
	}
	var last *snapshot.Manifest
	for i := range keptCaptures {
		now = now.Add(time.Second)
		write(t, dir, "main.go", fmt.Sprint("new", i))
		if last = capture(false); last.ID == first.ID {
			t.Errorf("a changed directory has the old capture")
		}
	}
	now = time.Now()
	write(t, dir, "main.go", "last")
	last = capture(false)
	list, err := c.Store.List(t.Context())
	if err != nil || len(list) != keptCaptures+1 || list[0].ID != last.ID || slices.ContainsFunc(list, func(m *snapshot.Manifest) bool { return m.ID == first.ID }) {
		t.Errorf("kept %d captures, %v; want %d without the first", len(list), err, keptCaptures+1)
	}
	for _, bad := range []string{filepath.Join(dir, "main.go"), "relative"} {
		if _, err := c.Capture(t.Context(), bad, false); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: %v, want %v", bad, err, fault.InvalidArgument)
		}
	}
	if _, err := c.Capture(t.Context(), filepath.Join(dir, "none"), false); fault.Of(err) != fault.NotFound {
		t.Errorf("a missing directory: %v, want %v", err, fault.NotFound)
	}
}
