package eval

import (
	"context"
	"errors"
	"sync"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/internal/host/files"
)

// A prefetch prepares environments before their turn and closes them after it, so that
// agents do not wait for either.
type prefetch struct {
	envs   *environments
	notify *notifier
	depth  int // number of environments that are prepared early; 0 for none

	mu      sync.Mutex
	open    map[int]*opening // guarded by mu; by execution
	begun   map[int]bool     // guarded by mu; executions that have their environment
	working sync.WaitGroup
	closing chan struct{} // a token for each environment that is being closed
}

// An opening is an environment that is being prepared.
type opening struct {
	ready chan struct{}
	env   *preparedEnv
	err   error
}

// newPrefetch prefetches environments that belong to one execution, and in which no
// bootstrap command runs first.
func newPrefetch(v *environments, n *notifier) *prefetch {
	const further, closing = 2, 4
	f := &prefetch{envs: v, notify: n, open: map[int]*opening{}, begun: map[int]bool{}, closing: make(chan struct{}, closing)}
	p := v.plan
	if p.Envs.Sandboxed() && p.workspace.Mode == suite.ModeIsolated && (p.workspace.Bootstrap == nil || v.bootstrapped) {
		f.depth = p.workers() + further - 1
	}
	return f
}

// prepare begins to prepare the environments of executions whose turn is near. Workers
// that start together may have overtaken the caller: an execution that has begun has its
// environment, and a second one would remove the directory of the first.
func (f *prefetch) prepare(ctx context.Context, next []*execution) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range next[:min(f.depth, len(next))] {
		if f.open[e.index] != nil || f.begun[e.index] || e.runner.rejected.Load() {
			continue
		}
		o := &opening{ready: make(chan struct{})}
		f.open[e.index] = o
		f.working.Go(func() {
			defer close(o.ready)
			dir := sessionDir(e.dir, 1, 1)
			if o.err = makeArtifacts(f.envs.plan.runDir, e, dir); o.err == nil {
				o.env, o.err = f.envs.forExecution(ctx, e, dir)
			}
		})
	}
}

// takeEnv returns the environment of a session: the prefetched one, or a new one.
func (f *prefetch) takeEnv(ctx context.Context, e *execution, artifacts string) (*preparedEnv, error) {
	f.mu.Lock()
	o := f.open[e.index]
	f.begun[e.index] = true
	if artifacts != sessionDir(e.dir, 1, 1) {
		o = nil // a retry gets a new environment
	} else {
		delete(f.open, e.index)
	}
	f.mu.Unlock()
	if o == nil {
		return f.envs.forExecution(ctx, e, artifacts)
	}
	<-o.ready
	if o.env == nil {
		o.env = &preparedEnv{}
	}
	return o.env, o.err
}

// closeEnv closes an environment. It waits on the host, where the next execution may
// conflict with what is left, and if processes of tools may still write to the artifacts.
// Else it closes in the background.
func (f *prefetch) closeEnv(ctx context.Context, d *preparedEnv, failed func(error)) {
	ctx = context.WithoutCancel(ctx)
	p := f.envs.plan
	if !d.env.sandboxed || f.depth == 0 || p.Tools != nil || *p.RepeatFailure > 0 {
		if err := d.env.close(ctx); err != nil {
			failed(err)
		}
		return
	}
	f.closing <- struct{}{}
	f.working.Go(func() {
		defer func() { <-f.closing }()
		if err := d.env.close(ctx); err != nil {
			failed(err)
		}
	})
}

// finish waits for all work in the background, and removes environments that were not
// used.
func (f *prefetch) finish(ctx context.Context) {
	f.working.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.open {
		if o.env == nil {
			continue
		}
		var err error
		if o.env.env != nil {
			err = o.env.env.close(ctx)
		}
		if o.env.path != "" {
			err = errors.Join(err, files.RemoveTree(o.env.path))
		}
		if err != nil {
			f.notify.note("eval: %v", err)
		}
	}
	clear(f.open)
}
