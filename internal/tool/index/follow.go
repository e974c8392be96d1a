package index

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/workspace"
)

// debounce is how long changes are collected before they are applied.
const debounce = 50 * time.Millisecond

// A follower applies the changes that a file watch reports.
type follower struct {
	x       *Index
	watcher workspace.Watcher
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	ended   atomic.Bool
}

// newFollower starts a file watch that outlives the call.
func newFollower(ctx context.Context, x *Index) (*follower, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watcher, err := x.ws.Watch(ctx, ".", &workspace.WatchOptions{Recursive: true, Debounce: debounce})
	if err != nil {
		cancel()
		return nil, err
	}
	return &follower{x: x, watcher: watcher, ctx: ctx, cancel: cancel}, nil
}

// start applies changes until the watch ends.
func (f *follower) start() {
	f.wg.Go(func() {
		defer f.ended.Store(true)
		for {
			changes, err := f.watcher.Next(f.ctx)
			if err != nil {
				return
			}
			if err := f.applyChanges(changes); err != nil {
				return // the next search rescans
			}
		}
	})
}

func (f *follower) applyChanges(changes workspace.Changes) error {
	if changes.Overflow {
		f.x.buildMu.Lock()
		defer f.x.buildMu.Unlock()
		return f.x.rescan(f.ctx)
	}
	names := make([]string, len(changes.Changes))
	for i, c := range changes.Changes {
		names[i] = c.Path
	}
	return f.x.refreshPaths(f.ctx, names)
}

// isAlive reports whether the watch still works.
func (f *follower) isAlive() bool { return f != nil && !f.ended.Load() }

func (f *follower) close() error {
	f.cancel()
	err := f.watcher.Close()
	f.wg.Wait()
	if err != nil {
		return fmt.Errorf("index: end the watch: %w", err)
	}
	return nil
}
