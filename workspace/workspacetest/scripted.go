package workspacetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Scripted is a provider that does what another one does, except where a script
// says otherwise: it fails for a while or for good, evicts, waits, panics, and
// counts. Everything that the script does not touch is the real work of the
// provider below, so a test above it runs real parts.
//
//	p := workspacetest.NewScripted(new(memory.Provider))
//	p.OnOpen(workspacetest.Plan{Transient: 2})      // two transient failures, then success
//	p.OnResolve(workspacetest.Plan{Err: fault.Failed}) // fails for good
//	p.EvictCalls(3)                                  // the third module call from now answers Evicted
//	...
//	if got := p.Count("open"); got != 3 { ... }
//
// It is safe for concurrent use, and a plan may be replaced at any time.
type Scripted struct {
	base driver.Provider

	mu     sync.Mutex
	plans  map[string]Plan
	counts map[string]int
	evict  map[int]bool // module calls that answer Evicted, by their number
}

// A Plan says what happens to the calls of one verb, in the order of its
// fields. Its zero value lets them through.
type Plan struct {
	Gate      <-chan struct{} // wait until it is closed, or the context ends
	Delay     time.Duration   // then wait this long, or until the context ends
	Panic     any             // panic with it, unless nil
	Transient int             // fail this many calls with a transient Failed
	Err       error           // fail every call after those with it
	After     error           // let the call through, and fail it nevertheless: its effect is there
}

// NewScripted returns a provider that passes every call to base until a script
// says otherwise.
func NewScripted(base driver.Provider) *Scripted {
	return &Scripted{base: base, plans: map[string]Plan{}, counts: map[string]int{}, evict: map[int]bool{}}
}

// On sets the plan for a verb: "probe", "open", "resolve", "sweep", "close",
// "destroy", "update", "pause", "resume", or "call" for every call of a module.
// A verb such as "fs.Write" or "shell.Start" is one function of a module.
func (s *Scripted) On(verb string, plan Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans[verb] = plan
}

// OnOpen is On for "open".
func (s *Scripted) OnOpen(plan Plan) { s.On("open", plan) }

// OnResolve is On for "resolve".
func (s *Scripted) OnResolve(plan Plan) { s.On("resolve", plan) }

// OnCall is On for every call of a module.
func (s *Scripted) OnCall(plan Plan) { s.On("call", plan) }

// EvictCalls makes the k-th module calls from now on answer Evicted, without
// any effect; the first is 1. Calls of all workspaces count together.
func (s *Scripted) EvictCalls(k ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range k {
		s.evict[s.counts["call"]+n] = true
	}
}

// Count returns how often a verb was called, whatever came of it. The verbs are
// those of On.
func (s *Scripted) Count(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[verb]
}

// play counts a call of the verbs and does what their plans say before it; the
// error to return after a call that went through is the second result.
func (s *Scripted) play(ctx context.Context, verbs ...string) (before, after error) {
	s.mu.Lock()
	var plans []Plan
	evicted := false
	for _, verb := range verbs {
		s.counts[verb]++
		if verb == "call" {
			evicted = s.evict[s.counts[verb]]
		}
		plan, ok := s.plans[verb]
		if !ok {
			continue
		}
		plans = append(plans, plan)
		if plan.Transient > 0 {
			plan.Transient--
			s.plans[verb] = plan
		}
	}
	s.mu.Unlock()
	if evicted {
		return fmt.Errorf("scripted: %s: %w", verbs[0], fault.Evicted), nil
	}
	for _, plan := range plans {
		if err := plan.wait(ctx); err != nil {
			return fmt.Errorf("scripted: %s: %w", verbs[0], err), nil
		}
		switch {
		case plan.Panic != nil:
			panic(plan.Panic)
		case plan.Transient > 0:
			return fault.Transient(fmt.Errorf("scripted: %s: %w: not yet", verbs[0], fault.Failed)), nil
		case plan.Err != nil:
			return fmt.Errorf("scripted: %s: %w", verbs[0], plan.Err), nil
		case plan.After != nil:
			after = fmt.Errorf("scripted: %s: %w", verbs[0], plan.After)
		}
	}
	return nil, after
}

func (p Plan) wait(ctx context.Context) error {
	if p.Gate != nil {
		select {
		case <-p.Gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.Delay <= 0 {
		return nil
	}
	timer := time.NewTimer(p.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kind implements driver.Provider.
func (s *Scripted) Kind() string { return s.base.Kind() }

// Probe implements driver.Provider.
func (s *Scripted) Probe(ctx context.Context) (driver.Traits, error) {
	before, after := s.play(ctx, "probe")
	if before != nil {
		return driver.Traits{}, before
	}
	traits, err := s.base.Probe(ctx)
	return traits, first(err, after)
}

// Open implements driver.Provider.
func (s *Scripted) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	before, after := s.play(ctx, "open")
	if before != nil {
		return nil, before
	}
	d, err := s.base.Open(ctx, spec)
	return s.wrap(d, first(err, after))
}

// Resolve implements driver.Provider.
func (s *Scripted) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	before, after := s.play(ctx, "resolve")
	if before != nil {
		return nil, before
	}
	d, err := s.base.Resolve(ctx, ref)
	return s.wrap(d, first(err, after))
}

// Sweep implements driver.Provider.
func (s *Scripted) Sweep(ctx context.Context, live []string) error {
	before, after := s.play(ctx, "sweep")
	if before != nil {
		return before
	}
	return first(s.base.Sweep(ctx, live), after)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// wrap puts the script before every function of a workspace; what a session does
// is not in it.
func (s *Scripted) wrap(d *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil || d == nil {
		return nil, err
	}
	return driver.Around(d, func(ctx context.Context, call driver.Call, next func(context.Context) error) error {
		verbs := []string{call.Verb, "call"}
		if module, name, _ := strings.Cut(call.Verb, "."); module == "session" {
			return next(ctx)
		} else if module == "life" {
			verbs = []string{strings.ToLower(name)}
		}
		before, after := s.play(ctx, verbs...)
		if before != nil {
			return before
		}
		return first(next(ctx), after)
	}), nil
}
