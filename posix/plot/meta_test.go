package plot

import (
	"os"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A loss of power can leave the name of a meta that was not on stable storage
// yet, without what was in it. Such a workspace is gone, and still whose it was.
func TestWhatLostItsMetaIsGoneAndSwept(t *testing.T) {
	root := t.TempDir()
	grounds := map[string]*Ground{}
	for _, kind := range []string{"test", "other"} {
		g, err := New(&Config{Kind: kind, Root: root})
		if err != nil {
			t.Fatal(err)
		}
		grounds[kind] = g
	}
	for name, left := range map[string][]byte{"empty": nil, "zeroes": make([]byte, 100)} {
		t.Run(name, func(t *testing.T) {
			g, spec := grounds["test"], driver.Spec{ID: driver.NewID(), Kind: "test"}
			if _, err := g.Ensure(t.Context(), spec, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(g.metaPath(spec.ID), left, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Read(spec.ID); fault.Of(err) != fault.Failed || fault.CauseOf(err) != fault.CauseGone {
				t.Errorf("got %v, want %s with the cause %s", err, fault.Failed, fault.CauseGone)
			}
			for _, kind := range []string{"other", "test"} {
				if err := grounds[kind].Sweep(t.Context(), nil, nil); err != nil {
					t.Fatal(err)
				}
				_, err := os.Lstat(g.Path(spec.ID))
				if got, want := err == nil, kind == "other"; got != want {
					t.Errorf("after the sweep of the kind %q: there is %v, want %v", kind, got, want)
				}
			}
		})
	}
}
