package snapshot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// leaseTime is how long a lease protects a stored tree that is no snapshot from gc. A tree
// that is read renews its lease.
const leaseTime = time.Hour

// A leasedTree is a stored tree that is no snapshot, with a lease: an object of the backend,
// which gc of any process takes for a root.
type leasedTree struct {
	Tree
	s  *Store
	id ID // of the stored tree

	mu      sync.Mutex
	renewed time.Time // guarded by mu
}

// lease returns the tree t, whose stored part has the root id, with a lease.
func (s *Store) lease(ctx context.Context, t Tree, id ID) (*leasedTree, error) {
	leased := &leasedTree{Tree: t, s: s, id: id}
	return leased, leased.renew(ctx)
}

func (t *leasedTree) Root(ctx context.Context) (Directory, error) {
	if err := t.renew(ctx); err != nil {
		return nil, err
	}
	return t.Tree.Root(ctx)
}

// renew writes another lease when the last one is half over; gc removes both.
func (t *leasedTree) renew(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.s.now().Sub(t.renewed) < leaseTime/2 {
		return nil
	}
	if err := t.s.createObject(ctx, kindLeases+"/"+driver.NewID(), []byte(t.id.String())); err != nil {
		return err
	}
	t.renewed = t.s.now()
	return nil
}

// markLeased collects the objects of leased trees, and removes leases that are over.
func (g *gcRun) markLeased(ctx context.Context) error {
	leases, err := g.s.be.List(ctx, kindLeases)
	if err != nil || len(leases) == 0 {
		return err
	}
	now, err := g.backendTime(ctx)
	if err != nil {
		return err
	}
	for _, l := range leases {
		name := kindLeases + "/" + l.ID
		if now.Sub(l.ModTime) >= leaseTime {
			if err := g.s.be.Delete(ctx, name); err != nil {
				return err
			}
			continue
		}
		data, err := g.s.be.ReadRange(ctx, name, 0, l.Size)
		if fault.Of(err) == fault.NotFound {
			continue // another gc removed it
		}
		var id ID
		if err == nil {
			id, err = ParseID(string(data))
		}
		if err == nil {
			err = g.markTree(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("of lease %s: %w", l.ID, err)
		}
	}
	return nil
}
