package tool

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
)

// turns lets calls that change one file follow each other. Agents call tools at
// the same time, and two edits of different lines would otherwise be one edit and
// a refusal, since the file is no longer what was read.
type turns struct {
	once  sync.Once
	slots [64]chan struct{} // of one file or several
}

// Turn waits until the call may change a file. The function that it returns ends
// the turn.
func (c *Call) Turn(ctx context.Context, name string) (end func(), err error) {
	t := &c.Env.turns
	t.once.Do(func() {
		for i := range t.slots {
			t.slots[i] = make(chan struct{}, 1)
		}
	})
	slot := t.slots[maphash.Comparable(seed, fileKey{workspace: c.Workspace.ID(), path: c.clean(name)})%uint64(len(t.slots))]
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("tool: wait for other changes of %s: %w", name, context.Cause(ctx))
	}
}
