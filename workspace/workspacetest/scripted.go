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

// Scripted is a fake provider that delegates to another one and fails by a script: it
// fails transiently or permanently, evicts, waits, panics, and counts. Calls that the
// script does not touch go to the wrapped provider, so tests run real code.
//
//	p := workspacetest.NewScripted(new(memory.Provider))
//	p.OnOpen(workspacetest.Plan{Transient: 2})      // two transient failures, then success
//	p.OnResolve(workspacetest.Plan{Err: fault.Failed}) // fails permanently
//	p.EvictCalls(3)                                  // the third module call from now returns Evicted
//	...
//	if got := p.Count("open"); got != 3 { ... }
//
// It is safe for concurrent use, and a plan may be replaced at any time.
type Scripted struct {
	driver.Provider

	mu     sync.Mutex
	plans  map[string]Plan
	counts map[string]int
	evict  map[int]bool // numbers of module calls that return Evicted
}

// A Plan says what happens to the calls of one verb, in the order of its fields. Its
// zero value passes them through.
type Plan struct {
	WaitFor   <-chan struct{} // wait until it is closed, or the context ends
	Delay     time.Duration   // then wait this long, or until the context ends
	Panic     any             // panic with it, unless nil
	Transient int             // fail this many calls with a transient Failed
	Err       error           // fail every call after those with this error
	After     error           // pass the call through, and then return this error: the call had its effect
}

// NewScripted returns a provider that passes every call to base until a script
// changes that.
func NewScripted(base driver.Provider) *Scripted {
	return &Scripted{Provider: base, plans: map[string]Plan{}, counts: map[string]int{}, evict: map[int]bool{}}
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

// EvictCalls makes the k-th module calls from now on return Evicted, without any
// effect; the first is 1. Calls of all workspaces count together.
func (s *Scripted) EvictCalls(k ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range k {
		s.evict[s.counts["call"]+n] = true
	}
}

// Count returns how often a verb was called, whatever the result. The verbs are those
// of On.
func (s *Scripted) Count(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[verb]
}

// applyPlans counts a call of the verbs and applies their plans. after is the error to
// return after a call that was passed through.
func (s *Scripted) applyPlans(ctx context.Context, verbs ...string) (before, after error) {
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
		if err := plan.waitGate(ctx); err != nil {
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

func (p Plan) waitGate(ctx context.Context) error {
	if p.WaitFor != nil {
		select {
		case <-p.WaitFor:
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

// Probe implements driver.Provider.
func (s *Scripted) Probe(ctx context.Context) (driver.Traits, error) {
	before, after := s.applyPlans(ctx, "probe")
	if before != nil {
		return driver.Traits{}, before
	}
	traits, err := s.Provider.Probe(ctx)
	return traits, firstError(err, after)
}

// Open implements driver.Provider.
func (s *Scripted) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	before, after := s.applyPlans(ctx, "open")
	if before != nil {
		return nil, before
	}
	d, err := s.Provider.Open(ctx, spec)
	return s.wrapWorkspace(d, firstError(err, after))
}

// Resolve implements driver.Provider.
func (s *Scripted) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	before, after := s.applyPlans(ctx, "resolve")
	if before != nil {
		return nil, before
	}
	d, err := s.Provider.Resolve(ctx, ref)
	return s.wrapWorkspace(d, firstError(err, after))
}

// Sweep implements driver.Provider.
func (s *Scripted) Sweep(ctx context.Context, live []string) error {
	before, after := s.applyPlans(ctx, "sweep")
	if before != nil {
		return before
	}
	return firstError(s.Provider.Sweep(ctx, live), after)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// wrapWorkspace applies the script to every function of a workspace, but not to its sessions.
func (s *Scripted) wrapWorkspace(d *driver.Workspace, err error) (*driver.Workspace, error) {
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
		before, after := s.applyPlans(ctx, verbs...)
		if before != nil {
			return before
		}
		return firstError(next(ctx), after)
	}), nil
}
