package registry

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestDiskFull proves that a store without room says so, and goes on once there
// is some.
func TestDiskFull(t *testing.T) {
	dir := testenv.NeedsTmpfs(t, 1<<20)
	store, err := OpenStore(t.Context(), "sqlite:"+filepath.Join(dir, "croft.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	provider := new(memory.Provider)
	reg, err := New(t.Context(), store, workspace.NewMux(provider), nil)
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	spec := driver.Spec{Kind: provider.Kind(), Labels: map[string]string{"k": "v"}}
	for range 200 { // the log of the database has some room left
		if _, err = reg.Create(t.Context(), spec); err != nil {
			break
		}
	}
	if fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("Create on a full disk: %v, want ResourceExhausted", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Create(t.Context(), spec); err != nil {
		t.Errorf("Create once there is room: %v", err)
	}
}
