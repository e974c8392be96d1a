package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/eval/agent"
	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// defaultTimeout is that of a case for which nobody says another.
const defaultTimeout = 120 * time.Second

// A Suite is cases and how they are judged: one that was loaded from a file, or
// Cases.
type Suite interface {
	Path() string // of the file; a name where there is none
	Cases() []suite.Case
	Workspace() *suite.Workspace // nil: the configuration's
	Assert(ctx context.Context, caseID string, report json.RawMessage, env suite.AssertEnv) (*suite.Outcome, error)
	Classify(ctx context.Context, caseID string, result json.RawMessage) (*suite.FailureClass, error)
}

// Options say how a suite is run. The zero value of each field is what the
// configuration says.
type Options struct {
	Envs     EnvFactory // where executions work; nil is Host
	Requests *Requests  // what the provider of Envs tells its requests; nil is none

	// Filters: those that are named, or that have one of the tags. Empty is all.
	Cases, Runners, Tags []string

	// Only, where set, leaves executions out of which it is false.
	Only func(caseID, runnerID string) bool

	Schedule      Schedule
	MaxParallel   int
	Repeat        int
	RepeatFailure *int
	MaxSteps      int
	Cwd           string // where agents work in place; only with such workspaces
	OutputDir     string

	Baselines       string // file of snapshots of token use
	UpdateBaselines bool

	AllowNet   []string      // hosts that may be reached, beside those of the agents' models
	NoModelNet bool          // the latter are not reached by themselves
	Limits     driver.Limits // of each workspace
	Read       []string      // further directories of the host that are shown, read-only
	Tmp        string        // the suite's directory for temporary files, which is shown, too; "" is none

	// Tools, where set, gives each agent a server of tools over its workspace, and
	// Toolset is its name: a run that goes on with this one must have the same.
	Tools   Tools
	Toolset string

	// Record is a directory to which the traffic with models is recorded, Replay one
	// from which models are answered: without them, and without their network.
	Record, Replay string

	Reporters   []Reporter
	Interactive bool   // reporters write to a terminal
	Resume      string // directory of a run to go on with

	Dir      string // of the process, from which defaults are; "" is the present one
	UserHome string // from where agents get credentials and settings; "" is nowhere
	Note     func(format string, args ...any)
}

// settings are options and configuration as one.
type settings struct {
	suite         Suite
	config        *suite.Config
	envs          EnvFactory
	requests      *Requests
	schedule      Schedule
	maxParallel   int
	repeat        int
	repeatFailure int
	maxSteps      int
	userHome      string
	allowNet      []string
	noModelNet    bool
	tools         Tools
	record        string // directory of tapes
	replay        string
	tags          []string
	caseFilter    []string
	runnerFilter  []string
	dir           string
	only          func(caseID, runnerID string) bool
}

// A matrix is a run under way.
type matrix struct {
	opts        settings
	runDir      string
	started     time.Time
	startedAt   string
	provision   *provision
	baselines   *baselines
	cases       []*plannedCase
	runners     []*plannedRunner
	executions  []*execution
	journal     *journal
	ahead       *ahead
	reporters   []Reporter
	described   *Context // what reporters are told of the run
	interactive bool
	notes       func(format string, args ...any)

	mu      sync.Mutex
	results []*ExecutionResult // guarded by mu; by execution, without reports' events
	spans   []span             // guarded by mu; where they are in the journal
	begun   map[*plannedCase]bool
	ended   map[*plannedCase]int
	notices []string
}

// A plannedCase is a case of a run.
type plannedCase struct {
	suite.Case
	index   int
	key     string
	timeout time.Duration

	executions int
}

// A plannedRunner is a runner of a run.
type plannedRunner struct {
	index    int
	info     session.Runner
	config   agent.Config
	agent    agent.Agent
	hosts    []string
	read     []string
	rejected atomic.Bool // its model is not to be had
}

// Run runs a suite. Failures of executions are in the result; an error means that
// the run could not be made or finished. A run that ctx ended is Canceled, with
// the result so far; what is in its directory can be resumed.
func Run(ctx context.Context, s Suite, cfg *suite.Config, opts *Options) (*Result, error) {
	m, err := newMatrix(ctx, s, cfg, opts)
	if err != nil {
		return nil, err
	}
	return m.run(ctx)
}

func newMatrix(ctx context.Context, s Suite, cfg *suite.Config, o *Options) (*matrix, error) {
	if o == nil {
		o = &Options{}
	}
	m := &matrix{begun: map[*plannedCase]bool{}, ended: map[*plannedCase]int{}, started: time.Now(), notes: o.Note}
	m.startedAt = session.Time(m.started)
	if err := m.settle(s, cfg, o); err != nil {
		return nil, err
	}
	if err := m.choose(o); err != nil {
		return nil, err
	}
	if err := m.checkTraffic(o); err != nil {
		return nil, err
	}
	if err := m.checkProviderEnvs(m.workspace()); err != nil {
		return nil, err
	}
	if err := m.apartInPlace(o); err != nil {
		return nil, err
	}
	if err := m.opts.envs.Ready(ctx); err != nil {
		return nil, err
	}
	base, err := m.baseline(o)
	if err != nil {
		return nil, err
	}
	if m.baselines, err = loadBaselines(base); err != nil {
		return nil, err
	}
	m.results, m.spans = make([]*ExecutionResult, len(m.cases)*len(m.runners)), make([]span, len(m.cases)*len(m.runners))
	if err := m.begin(o); err != nil {
		return nil, err
	}
	if err := m.provisionFor(ctx, o); err != nil {
		return nil, errors.Join(err, m.journal.close())
	}
	m.reporters, m.interactive = o.Reporters, o.Interactive
	return m, nil
}

// settle brings options and configuration together.
func (m *matrix) settle(s Suite, cfg *suite.Config, o *Options) error {
	run := cfg.Run
	m.opts = settings{suite: s, config: cfg, envs: o.Envs, requests: o.Requests, maxParallel: first(o.MaxParallel, run.MaxParallel),
		repeat: max(1, first(o.Repeat, run.Repeat)), repeatFailure: run.RepeatFailure, maxSteps: first(o.MaxSteps, run.MaxSteps), userHome: o.UserHome,
		allowNet: slices.Concat(cfg.Croft.AllowNet, o.AllowNet), dir: o.Dir, caseFilter: o.Cases, runnerFilter: o.Runners, only: o.Only, noModelNet: o.NoModelNet, tools: o.Tools}
	if o.RepeatFailure != nil {
		m.opts.repeatFailure = *o.RepeatFailure
	}
	if m.opts.envs == nil {
		m.opts.envs = Host{}
	}
	if m.opts.tags = o.Tags; len(o.Tags) == 0 {
		m.opts.tags = run.Tags
	}
	var err error
	if m.opts.dir == "" {
		if m.opts.dir, err = os.Getwd(); err != nil {
			return fmt.Errorf("eval: %w: %w", fault.Of(err), err)
		}
	}
	if m.opts.schedule = o.Schedule; o.Schedule == "" {
		m.opts.schedule, err = ParseSchedule(run.Schedule)
	}
	m.notices = append(m.notices, cfg.Notices...)
	if f, ok := m.opts.suite.(file); ok {
		m.notices = append(m.notices, f.Notices()...)
	}
	return err
}

// first returns the first number that is set.
func first(list ...int) int {
	for _, n := range list {
		if n != 0 {
			return n
		}
	}
	return 0
}

// choose plans the cases and runners that the filters leave.
func (m *matrix) choose(o *Options) error {
	all := m.opts.suite.Cases()
	var ids []string
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	keys := caseKeys(ids)
	for i, c := range all {
		if len(o.Cases) > 0 && !slices.Contains(o.Cases, c.ID) {
			continue
		}
		if len(m.opts.tags) > 0 && !slices.ContainsFunc(c.Tags, func(t string) bool { return slices.Contains(m.opts.tags, t) }) {
			continue
		}
		p := &plannedCase{Case: c, index: len(m.cases), key: keys[i], timeout: c.Timeout}
		if p.timeout == 0 {
			p.timeout = m.opts.config.Timeout
		}
		if p.timeout == 0 {
			p.timeout = defaultTimeout
		}
		m.cases = append(m.cases, p)
	}
	if err := unknown("case", o.Cases, ids); err != nil {
		return err
	}
	if len(m.cases) == 0 {
		text := "No cases matched the requested filters."
		if tags := m.declaredTags(); len(m.opts.tags) > 0 && len(tags) > 0 {
			text += " There are the tags " + strings.Join(tags, ", ") + "."
		}
		return &plainError{fault.InvalidArgument, text}
	}
	return m.chooseRunners(o)
}

func (m *matrix) chooseRunners(o *Options) error {
	var ids []string
	for _, r := range m.opts.config.Runners {
		ids = append(ids, r.ID)
		if len(o.Runners) > 0 && !slices.Contains(o.Runners, r.ID) {
			continue
		}
		c := agent.Config{Type: r.Agent.Type, Model: r.Agent.Model, Command: r.Agent.Command, CommandArgs: r.Agent.CommandArgs, Env: r.Agent.Env, UserHome: o.UserHome}
		a, err := agent.New(c)
		if err != nil {
			return err
		}
		m.runners = append(m.runners, &plannedRunner{index: len(m.runners), config: c, agent: a, info: session.NewRunner(r.ID, session.Agent{Type: r.Agent.Type, Model: r.Agent.Model})})
	}
	if len(ids) == 0 {
		return &plainError{fault.InvalidArgument, "No runners configured."}
	}
	return unknown("runner", o.Runners, ids)
}

// unknown refuses a filter that names what there is not.
func unknown(what string, asked, known []string) error {
	for _, id := range asked {
		if !slices.Contains(known, id) {
			if what == "runner" {
				return &plainError{fault.InvalidArgument, fmt.Sprintf("No runners matched the requested filter: %s. There are %s.", id, strings.Join(known, ", "))}
			}
			return &plainError{fault.InvalidArgument, fmt.Sprintf("No cases matched the requested filters. There is no case %q; there are %s.", id, strings.Join(known, ", "))}
		}
	}
	return nil
}

// baseline says how token use is compared.
func (m *matrix) baseline(o *Options) (*Baseline, error) {
	s := m.opts.config.Snapshots
	if s == nil {
		if o.Baselines != "" || o.UpdateBaselines {
			return nil, fmt.Errorf("eval: snapshots: %w: the configuration has no snapshots with a tolerance", fault.InvalidArgument)
		}
		return nil, nil
	}
	b := &Baseline{Path: s.Path, Metric: s.Metric, Absolute: s.Absolute, Percent: s.Percent, Update: o.UpdateBaselines}
	if o.Baselines != "" {
		b.Path = o.Baselines
	}
	if b.Path == "" {
		b.Path = filepath.Join(m.opts.config.Dir, "skillgym.snapshots.json")
	}
	return b, nil
}

// begin makes the directory of the run and its journal, or opens those of the one
// to go on with.
func (m *matrix) begin(o *Options) (err error) {
	if o.Resume != "" {
		return m.resume(o)
	}
	if m.runDir, err = newRunDir(m.outputDir(o), m.started); err != nil {
		return err
	}
	m.plan()
	m.journal, err = newJournal(m.runDir, m.planLine(o))
	return err
}

// outputDir is where the directory of the run goes.
func (m *matrix) outputDir(o *Options) string {
	for _, dir := range []string{o.OutputDir, m.opts.config.Run.OutputDir} {
		if dir != "" {
			return dir
		}
	}
	return filepath.Join(m.opts.dir, DefaultOutputDir)
}

// plan makes the executions: each case on each runner.
func (m *matrix) plan() {
	for _, c := range m.cases {
		for _, r := range m.runners {
			if m.opts.only != nil && !m.opts.only(c.ID, r.info.ID) {
				continue
			}
			c.executions++
			m.executions = append(m.executions, &execution{index: len(m.executions), c: c, runner: r, dir: filepath.Join(m.runDir, c.key, r.info.PathKey)})
		}
	}
}

func (m *matrix) planLine(o *Options) plan {
	p := plan{Version: journalVersion, Suite: m.opts.suite.Path(), Config: m.opts.config.Path, StartedAt: m.startedAt, Tags: m.opts.tags, Schedule: m.opts.schedule,
		MaxParallel: m.opts.maxParallel, Repeat: m.opts.repeat, RepeatFail: m.opts.repeatFailure, Provider: m.opts.envs.Kind(), Cwd: m.opts.dir, Made: m.made(o)}
	for _, c := range m.cases {
		p.Cases = append(p.Cases, c.ID)
	}
	for _, r := range m.runners {
		p.Runners = append(p.Runners, r.info.ID)
	}
	return p
}

// note tells the user something that no result holds.
func (m *matrix) note(format string, args ...any) {
	if m.notes != nil {
		m.notes(format, args...)
	}
}

// hosts lists what a runner's agent may reach.
func (m *matrix) hosts(r *plannedRunner) []string {
	hosts := slices.Clone(m.opts.allowNet)
	if !m.opts.noModelNet {
		hosts = append(hosts, r.hosts...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// run runs what is planned and not yet done.
func (m *matrix) run(ctx context.Context) (*Result, error) {
	defer m.journal.close() //nolint:errcheck // each line was written when it was there
	m.tellStart()
	var left []*execution
	for _, e := range m.executions {
		if m.results[e.index] == nil {
			left = append(left, e)
		}
	}
	m.ahead = newAhead(m)
	m.opts.schedule.run(ctx, len(left), m.opts.maxParallel, func(i int) int { return left[i].runner.index }, func(ctx context.Context, i int) {
		if m.opts.schedule != ByRunner { // whose next one is of the same runner
			m.ahead.prepare(ctx, left[i+1:])
		}
		m.one(ctx, left[i])
	})
	m.ahead.finish(context.WithoutCancel(ctx))
	result := m.result(ctx.Err() != nil)
	err := errors.Join(m.provision.settleShared(result.Passed()), m.writeResults(result), m.baselines.save())
	m.mu.Lock()
	m.tell(Event{Hook: OnSuiteFinish, Result: result})
	m.mu.Unlock()
	if ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("eval: run: %w", fault.Canceled), err)
	}
	if err != nil {
		m.mu.Lock()
		m.tell(Event{Hook: OnError, Error: &ErrorInfo{Name: "Error", Message: err.Error()}})
		m.mu.Unlock()
	}
	return result, err
}

// one runs an execution and notes its result.
func (m *matrix) one(ctx context.Context, e *execution) {
	m.mu.Lock()
	if !m.begun[e.c] {
		m.begun[e.c] = true
		m.tell(m.about(OnCaseStart, e.c))
	}
	start := m.about(OnRunnerStart, e.c)
	start.Runner = &e.runner.info
	m.tell(start)
	m.mu.Unlock()
	res := m.execute(ctx, e)
	if res == nil {
		return // interrupted: it runs again when the run is resumed
	}
	at, err := m.journal.add(done{Case: e.c.ID, Runner: e.runner.info.ID, Result: compactResult(res)})
	if err != nil {
		m.note("%v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	end := m.about(OnRunnerFinish, e.c)
	end.Runner, end.Result = &e.runner.info, res
	m.tell(end)
	m.results[e.index], m.spans[e.index] = summary(res), at
	if m.ended[e.c]++; m.ended[e.c] == e.c.executions {
		c := m.caseResultLocked(e.c)
		over := m.about(OnCaseFinish, e.c)
		over.Result = &c
		m.tell(over)
	}
}

// light is a result without what fills memory: the journal has it.
func summary(r *ExecutionResult) *ExecutionResult {
	if r == nil {
		return nil
	}
	c := *r
	c.diff = ""
	c.Report = reportSummary(r.Report)
	c.Sessions, c.Repetitions = summaries(r.Sessions), summaries(r.Repetitions)
	return &c
}

func summaries(list []*ExecutionResult) []*ExecutionResult {
	var out []*ExecutionResult
	for _, r := range list {
		out = append(out, summary(r))
	}
	return out
}

func reportSummary(r *session.Report) *session.Report {
	if r == nil {
		return nil
	}
	const shown = 2000 // of a final output
	c := *r
	c.Events, c.DetectedSkills, c.Commands, c.Network = nil, nil, nil, nil
	c.Files = session.Files{Changed: r.Files.Changed[:min(len(r.Files.Changed), 20)]}
	c.FinalOutput = cut(r.FinalOutput, shown)
	return &c
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
