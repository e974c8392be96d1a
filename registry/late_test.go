package registry

import (
	"context"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// A meddling store lets something else happen right after its k-th Get.
type meddling struct {
	Store
	gets, at int
	meddle   func()
}

func (s *meddling) Get(ctx context.Context, id string) (Record, error) {
	rec, err := s.Store.Get(ctx, id)
	if s.gets++; s.gets == s.at {
		s.meddle()
	}
	return rec, err
}

// TestVerbsThatMeetAnAcquire has a workspace closed or destroyed at each moment
// of an Acquire at which the registry looks at the record. Whatever the order
// turns out to be, a live handle means a record that is ready.
//
//croft:race
func TestVerbsThatMeetAnAcquire(t *testing.T) {
	for name, verb := range map[string]func(ctx context.Context, r *Registry, id string) error{
		"close":   func(ctx context.Context, r *Registry, id string) error { return r.Close(ctx, id) },
		"destroy": destroyAnyhow,
	} {
		t.Run(name, func(t *testing.T) {
			for at := 1; ; at++ {
				if !meetAcquire(t, at, verb) {
					break
				}
			}
		})
	}
}

// destroyAnyhow is Destroy without waiting for the flight, which is the one that
// calls it.
func destroyAnyhow(ctx context.Context, r *Registry, id string) error {
	rec, err := r.markDestroyed(ctx, id)
	if err != nil {
		return err
	}
	return r.removeFromProvider(ctx, rec)
}

func meetAcquire(t *testing.T, at int, verb func(context.Context, *Registry, string) error) bool {
	base := new(memory.Provider)
	g := newRigOn(t, sqliteURL(t), workspacetest.NewScripted(base), nil)
	id := g.create(nil)
	g.acquireOK(id) // so that there is a ref, and Acquire elsewhere resolves
	store := &meddling{Store: g.store, at: at}
	r, err := New(t.Context(), store, workspace.NewMux(g.p), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Shutdown(t.Context())
	met := false
	store.meddle = func() {
		met = true
		if err := verb(t.Context(), r, id); err != nil && fault.Of(err) != fault.NotFound {
			t.Errorf("at look %d: %v", at, err)
		}
	}
	ws, err := r.Acquire(t.Context(), id)
	_, live := r.liveEntry(id)
	state := g.state(id)
	switch {
	case live && state != Ready:
		t.Errorf("at look %d: there is a handle on a workspace that is %q", at, state)
	case err == nil && !live:
		if _, err := ws.Stat(t.Context(), ".", nil); err == nil {
			t.Errorf("at look %d: a handle works that the registry does not know", at)
		}
	case err != nil && fault.Of(err) != fault.NotFound:
		t.Errorf("at look %d: %v", at, err)
	}
	if state == Destroyed && made(t, base, id) {
		t.Errorf("at look %d: the provider still has it", at)
	}
	return met
}
