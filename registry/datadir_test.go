package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/croft-run/croft/fault"
)

// A marked ground knows which stores have been on it.
type marked struct {
	mu     sync.Mutex
	stores []string
}

func (m *marked) LockShared(_ context.Context, store string) (func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.stores, store) {
		m.stores = append(m.stores, store)
	}
	return func() {}, nil
}

func (m *marked) LockExclusive(_ context.Context, store string) (func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.stores {
		if other != store {
			return nil, fmt.Errorf("ground: %w: store %s is on it", fault.WrongState, other)
		}
	}
	return func() {}, nil
}

// TestSweepKeepsWhatAnotherStoreKnows is about a store that was lost: the next
// one knows no workspace, and must not take them all for leftovers.
func TestSweepKeepsWhatAnotherStoreKnows(t *testing.T) {
	ground := new(marked)
	g := newRig(t, &Options{Owner: ground})
	id := g.create(nil)
	g.acquireOK(id)
	other := newRigOn(t, sqliteURL(t), g.p, &Options{Owner: ground})
	wantCode(t, "Sweep by another store", other.Sweep(t.Context()), fault.WrongState)
	rec, err := g.store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.p.Resolve(t.Context(), *rec.Ref); err != nil {
		t.Errorf("after the sweep: %v, want the workspace", err)
	}
	wantCode(t, "Sweep by the one store", g.Sweep(t.Context()), "")

	mine := other.create(nil)
	other.acquireOK(mine)
	wantCode(t, "Sweep of a ground that two use", g.Sweep(t.Context()), fault.WrongState)
}
