package wsdir

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// attach makes a workspace, or finds it, and returns a handle on it.
func attach(t *testing.T, g *Store, spec driver.Spec) *Handle {
	t.Helper()
	m, err := g.Ensure(t.Context(), spec, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := g.Attach(t.Context(), m, OpenDirectory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// A change of policy is acknowledged when the writes that were being committed under
// the old policy are done, and not before.
func TestUpdateWaitsForThoseWhoCommit(t *testing.T) {
	g, err := New(&Config{Kind: "test", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	spec := driver.Spec{ID: driver.NewID(), Kind: "test"}
	h, other := attach(t, g, spec), attach(t, g, spec)
	m := h.State()
	guard := h.CommitGuard(&m)

	updated := make(chan error, 1)
	var acknowledged atomic.Bool
	err = guard(func() error {
		go func() {
			_, err := other.Update(t.Context(), driver.Policy{ReadOnly: true})
			acknowledged.Store(true)
			updated <- err
		}()
		time.Sleep(50 * time.Millisecond) // time for an Update that does not wait to show it
		if acknowledged.Load() {
			t.Error("the change of policy was acknowledged while a change was being committed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-updated; err != nil {
		t.Fatal(err)
	}
	err = guard(func() error { t.Error("a change was committed after it was forbidden"); return nil })
	if got, want := fault.Of(err), fault.PermissionDenied; got != want {
		t.Errorf("got %v (%s), want %s", err, got, want)
	}
	if err := h.Destroy(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	err = guard(func() error { t.Error("a change was committed after Destroy"); return nil })
	if got, want := fault.Of(err), fault.Evicted; got != want {
		t.Errorf("got %v (%s), want %s", err, got, want)
	}
}
