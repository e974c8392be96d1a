package plot

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// TestDirectoriesLeftToSweep destroys workspaces of a ground that leaves two of
// them to Sweep, if they hold little.
func TestDirectoriesLeftToSweep(t *testing.T) {
	g, err := New(&Config{Kind: "test", Root: t.TempDir(), Later: 2})
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	end := func(context.Context, string) error { ended++; return nil }
	destroy := func(size int) {
		t.Helper()
		m, err := g.Ensure(t.Context(), driver.Spec{ID: driver.NewID(), Kind: "test"}, nil, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "more"), make([]byte, size), 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
		h, err := g.Attach(t.Context(), m, Directory)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Destroy(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Read(m.ID); !os.IsNotExist(err) {
			t.Errorf("it can still be found: %v", err)
		}
	}
	dead := func() (n int) {
		t.Helper()
		entries, err := os.ReadDir(g.Path(g.laterName))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), g.deadPrefix) {
				n++
			}
		}
		return n
	}
	destroy(littleBytes + 1)
	if n := dead(); n != 0 {
		t.Errorf("%d that hold much are left", n)
	}
	for range 3 {
		destroy(10)
	}
	if n := dead(); n != 2 || ended != 4 {
		t.Errorf("%d are left, and %d were ended; want 2 and 4", n, ended)
	}
	if err := g.Sweep(t.Context(), nil, end); err != nil {
		t.Fatal(err)
	}
	if n := dead(); n != 0 {
		t.Errorf("%d are left after Sweep", n)
	}
}
