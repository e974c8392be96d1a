package registry

import (
	"context"
	"fmt"
)

// A turn is held by the verb that works on a workspace in this process.
type turn struct {
	taken chan struct{} // holds one token while taken
	users int           // guarded by Registry.mu; holder and waiters
}

// takeTurn makes the verbs of one workspace come one after the other. Using a
// workspace needs no turn.
func (r *Registry) takeTurn(ctx context.Context, id string) (done func(), err error) {
	r.mu.Lock()
	t := r.verbs[id]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		r.verbs[id] = t
	}
	t.users++
	r.mu.Unlock()
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; r.leaveTurn(id, t) }, nil
	case <-ctx.Done():
		r.leaveTurn(id, t)
		return nil, fmt.Errorf("registry: wait for another change of workspace %s: %w", id, ctx.Err())
	}
}

func (r *Registry) leaveTurn(id string, t *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(r.verbs, id)
	}
}
