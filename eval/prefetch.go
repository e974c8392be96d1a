package eval

import (
	"context"
	"sync"

	"github.com/croft-run/croft/posix/boundary"
)

// ahead prepares workspaces before their turn and ends them after it, so that
// agents do not wait for either: the next fence is put up while one works, and
// the last one is taken down while the next one does.
type ahead struct {
	m     *matrix
	depth int // how many are prepared before their turn; 0 is none

	mu      sync.Mutex
	open    map[int]*opening // guarded by mu; by execution
	begun   map[int]bool     // guarded by mu; the executions that need none any more
	working sync.WaitGroup
	closing chan struct{} // a token for each that is being ended
}

// An opening is a workspace that is being prepared.
type opening struct {
	ready       chan struct{}
	preparedEnv *preparedEnv
	err         error
}

// newAhead decides whether workspaces can be prepared before their turn: those
// that are an execution's own, and in which no command of the user runs first.
func newAhead(m *matrix) *ahead {
	const further, ending = 2, 4
	a := &ahead{m: m, open: map[int]*opening{}, begun: map[int]bool{}, closing: make(chan struct{}, ending)}
	p := m.provision
	if p.envs.Fenced() && p.spec.Mode == "isolated" && (p.spec.Bootstrap == nil || p.made) {
		a.depth = m.opts.schedule.lanes(m.opts.maxParallel) + further - 1
	}
	return a
}

// prepare begins to prepare the workspaces of executions whose turn is near. Lanes
// that start together may have overtaken the one that asks: what has begun has its
// workspace, and a second one would take the first one's directory away.
func (a *ahead) prepare(ctx context.Context, next []*execution) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range next[:min(a.depth, len(next))] {
		if a.open[e.index] != nil || a.begun[e.index] || e.runner.rejected.Load() {
			continue
		}
		o := &opening{ready: make(chan struct{})}
		a.open[e.index] = o
		a.working.Go(func() {
			defer close(o.ready)
			dir := sessionDir(e.dir, 1, 1)
			if o.err = a.m.artifacts(e, dir); o.err == nil {
				o.preparedEnv, o.err = a.m.provision.prepare(ctx, a.m.envRequest(e, dir))
			}
		})
	}
}

// take returns the workspace of a session: the one that was prepared, or a new one.
func (a *ahead) take(ctx context.Context, e *execution, artifacts string) (*preparedEnv, error) {
	a.mu.Lock()
	o := a.open[e.index]
	a.begun[e.index] = true
	if artifacts != sessionDir(e.dir, 1, 1) {
		o = nil // a further session starts anew
	} else {
		delete(a.open, e.index)
	}
	a.mu.Unlock()
	if o == nil {
		return a.m.provision.prepare(ctx, a.m.envRequest(e, artifacts))
	}
	<-o.ready
	if o.preparedEnv == nil {
		o.preparedEnv = &preparedEnv{}
	}
	return o.preparedEnv, o.err
}

// end ends a place: at once on the host, where the next execution may meet what it
// leaves, and where something may still run in it that could touch the artifacts, such
// as what tools have started; else meanwhile.
func (a *ahead) end(ctx context.Context, d *preparedEnv, failed func(error)) {
	ctx = context.WithoutCancel(ctx)
	if !d.env.fenced || a.depth == 0 || a.m.opts.tools != nil || a.m.opts.repeatFailure > 0 {
		if err := d.env.close(ctx); err != nil {
			failed(err)
		}
		return
	}
	a.closing <- struct{}{}
	a.working.Go(func() {
		defer func() { <-a.closing }()
		if err := d.env.close(ctx); err != nil {
			failed(err)
		}
	})
}

// finish waits for all, and ends what nobody took.
func (a *ahead) finish(ctx context.Context) {
	a.working.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.open {
		if o.preparedEnv == nil {
			continue
		}
		if o.preparedEnv.env != nil {
			if err := o.preparedEnv.env.close(ctx); err != nil {
				a.m.note("eval: %v", err)
			}
		}
		if o.preparedEnv.path != "" {
			if err := boundary.RemoveTree(o.preparedEnv.path); err != nil {
				a.m.note("eval: %v", err)
			}
		}
	}
	clear(a.open)
}
