package testshell

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestHandlesShareTheirProcesses: what one started another finds, until the last
// is closed.
func TestHandlesShareTheirProcesses(t *testing.T) {
	root := t.TempDir()
	p, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: "local"}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("Open of another kind: %v", err)
	}
	id := driver.NewID()
	first, err := p.Open(ctx, driver.Spec{ID: id, Kind: Kind, Policy: driver.Policy{Env: map[string]string{"GREETING": "hi"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Validate(driver.NewCapabilities(driver.CapFS, driver.CapShell)); err != nil {
		t.Fatal(err)
	}
	second, err := p.Resolve(ctx, first.Ref)
	if err != nil {
		t.Fatal(err)
	}
	s, err := first.Shell.Start(ctx, driver.Command{Argv: []string{"sh", "-c", "echo $GREETING > f; sleep 1000"}, Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Life.Close(ctx); err != nil {
		t.Fatal(err)
	}
	same, err := second.Shell.Attach(ctx, s.ID())
	if err != nil {
		t.Fatalf("the other handle does not know the session: %v", err)
	}
	if info, err := same.State(ctx); err != nil || !info.Running {
		t.Errorf("the session of a handle that was closed: %+v, %v; want it running", info, err)
	}
	if err := second.Life.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{filepath.Join(root, "logs", id), filepath.Join(root, "ws", id)} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", left, err)
		}
	}
}
