package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/workspace/driver"
)

// A Suite has cases and judges sessions: a suite that was loaded from a file, or Cases.
type Suite interface {
	Path() string // of the file; a name where there is none
	Cases() []suite.Case
	Workspace() *suite.Workspace // nil: the configuration's
	Assert(ctx context.Context, caseID string, report json.RawMessage, env suite.AssertEnv) (*suite.Outcome, error)
	Classify(ctx context.Context, caseID string, result json.RawMessage, info suite.EnvInfo) (*suite.FailureClass, error)
}

// Options say how a suite is run. A field with its zero value is taken from the
// configuration.
type Options struct {
	Envs     EnvFactory // where executions work; nil is Host
	Requests *Requests  // the event sink of the provider of Envs; nil for none

	// Filters: those that are named, or that have one of the tags. Empty is all.
	Cases, Runners, Tags []string

	// Only, if set, leaves out executions for which it returns false.
	Only func(caseID, runnerID string) bool

	Schedule      Schedule
	MaxParallel   int
	Repeat        int
	RepeatFailure *int
	MaxSteps      int
	Cwd           string // directory of workspaces in place; only with such workspaces
	OutputDir     string

	Baselines       string // file of snapshots of token use
	UpdateBaselines bool

	AllowNet   []string      // allowed hosts, beside those of the agents' models
	NoModelNet bool          // the hosts of models are not allowed implicitly
	Limits     driver.Limits // of each workspace
	Read       []string      // further host directories that are mounted read-only
	Write      []string      // host directories that are mounted writable

	// Toolchains are shown read-only to agents in a sandbox, with their caches.
	Toolchains []toolchain.Toolchain

	Tmp string // the suite's temporary directory, which is mounted read-only, too; "" for none

	// Tools, if set, gives each agent an MCP server over its workspace. Toolset is its
	// name: a run must be resumed with the same one.
	Tools   Tools
	Toolset string

	// Record is a directory to which the traffic with models is recorded. Replay is a
	// directory from which it is replayed, without models and without their network.
	Record, Replay string

	Reporters   []Reporter
	Reports     []string // files that the reporters write: no changes of agents
	Interactive bool     // reporters write to a terminal
	Resume      string   // directory of a run to resume

	Dir      string // base of default paths; "" is the working directory
	UserHome string // home from which agents get credentials and settings; "" for none
	Note     func(format string, args ...any)
}

// A run executes a plan.
type run struct {
	*plan
	sessions  *sessionRunner
	envs      *environments
	prefetch  *prefetch
	results   *runResults
	baselines *baselines
	notify    *notifier
}

// Run runs a suite. Failed executions are in the result; an error means that the run
// could not start or finish. If ctx ends, the error is Canceled, with the result so far,
// and the run can be resumed.
func Run(ctx context.Context, s Suite, cfg *suite.Config, opts *Options) (*Result, error) {
	r, err := newRun(ctx, s, cfg, opts)
	if err != nil {
		ReportError(s, cfg, opts, err)
		return nil, err
	}
	return r.run(ctx)
}

// ReportError sends the error of a run that could not start to its reporters. Run does so
// itself.
func ReportError(s Suite, cfg *suite.Config, opts *Options, err error) {
	p, _ := newPlan(s, cfg, opts) // as far as it goes
	n := newNotifier(p)
	if opts == nil || opts.Envs == nil {
		n.context.Provider = ""
	}
	n.sendError(err)
}

// newRun prepares a run. All checks are made before the directory of the run and its
// journal are created.
func newRun(ctx context.Context, s Suite, cfg *suite.Config, o *Options) (*run, error) {
	p, err := newPlan(s, cfg, o)
	if err != nil {
		return nil, err
	}
	if err := p.Envs.Ready(ctx); err != nil {
		return nil, err
	}
	r := &run{plan: p}
	if r.baselines, err = loadBaselines(p); err != nil {
		return nil, err
	}
	if r.results, err = openResults(p); err != nil {
		return nil, err
	}
	if r.envs, err = newEnvironments(ctx, p); err != nil {
		return nil, errors.Join(err, r.results.journal.close())
	}
	r.notify = newNotifier(p)
	r.notify.context.Done = r.results.count()
	r.prefetch = newPrefetch(r.envs, r.notify)
	tapes := &tapes{p.Record, p.Replay, p.runDir, r.envs.policy.Network.Allow}
	r.sessions = &sessionRunner{p, r.envs, r.prefetch, tapes, r.notify}
	return r, nil
}

// run runs the executions that have no result yet.
func (r *run) run(ctx context.Context) (*Result, error) {
	defer r.results.journal.close() //nolint:errcheck // each line was written at once
	r.notify.startRun(r.plan)
	var left []*execution
	for _, e := range r.executions {
		if !r.results.hasResult(e) {
			left = append(left, e)
		}
	}
	runnerOf := func(i int) int { return left[i].runner.index }
	r.Schedule.run(ctx, len(left), r.MaxParallel, runnerOf, func(ctx context.Context, i int) {
		if r.Schedule != ByRunner { // its next execution waits for this one
			r.prefetch.prepare(ctx, left[i+1:])
		}
		r.runExecution(ctx, left[i])
	})
	r.prefetch.finish(context.WithoutCancel(ctx))
	result := r.results.buildResult(ctx.Err() != nil)
	err := errors.Join(r.envs.removeShared(result.Passed()), r.results.writeResults(result), r.baselines.save())
	r.notify.sendEvent(Event{Hook: OnSuiteFinish, Result: result})
	if ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("eval: run: %w", fault.Canceled), err)
	}
	if err != nil {
		r.notify.sendError(err)
	}
	return result, err
}

// runExecution runs an execution, and records and reports its result.
func (r *run) runExecution(ctx context.Context, e *execution) {
	r.notify.startExecution(e)
	res := r.execute(ctx, e)
	if res == nil {
		return // interrupted: it runs again when the run is resumed
	}
	at, err := r.results.recordResult(e, res)
	if err != nil {
		r.notify.note("%v", err)
	}
	end := r.notify.caseEvent(OnRunnerFinish, e.c)
	end.Runner, end.Result = &e.runner.info, res
	r.notify.sendEvent(end)
	if c := r.results.storeResult(e, res, at); c != nil {
		if r.notify.hasModule() { // hooks of the user get all that results.json has
			if full, err := r.results.readCase(c, e.c); err != nil {
				r.notify.note("%v", err)
			} else {
				c = full
			}
		}
		over := r.notify.caseEvent(OnCaseFinish, e.c)
		over.Result = c
		r.notify.sendEvent(over)
	}
}
