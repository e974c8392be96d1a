package eval

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/agent"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/paths"
)

// defaultTimeout is the timeout of a case where neither suite nor configuration sets one.
const defaultTimeout = 120 * time.Second

// A plan is what a run does: the options, completed by the configuration, and the
// cases, runners and executions that the filters leave.
type plan struct {
	Options
	suite     Suite
	config    *suite.Config
	workspace suite.Workspace
	cwd       string // of workspaces in place; absolute, without symlinks
	runDir    string
	started   time.Time
	startedAt string

	cases      []*plannedCase
	runners    []*plannedRunner
	executions []*execution
	notices    []string
}

// A plannedCase is a case of a run.
type plannedCase struct {
	suite.Case
	index   int
	key     string
	timeout time.Duration

	executions int
	begun      bool // guarded by notifier.mu
}

// A plannedRunner is a runner of a run.
type plannedRunner struct {
	index    int
	info     session.Runner
	config   agent.Config
	agent    agent.Agent
	hosts    []string
	read     []string
	rejected atomic.Bool // its model was rejected
}

// newPlan completes the options, chooses cases and runners, and refuses a plan that can't
// be run; then it returns what there is of it, and the error. It makes nothing on disk.
func newPlan(s Suite, cfg *suite.Config, o *Options) (*plan, error) {
	p := &plan{suite: s, config: cfg, started: time.Now()}
	if o != nil {
		p.Options = *o
	}
	p.startedAt = session.Time(p.started)
	p.notices = append(p.notices, cfg.Notices...)
	if f, ok := s.(fileSuite); ok {
		p.notices = append(p.notices, f.Notices()...)
	}
	for _, step := range []func() error{p.applyResumed, p.applyDefaults, p.chooseCases, p.chooseRunners, p.checkTraffic, p.checkProviderEnvs, p.findCwd, p.serializeInPlace} {
		if err := step(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// applyResumed sets the options that were not given to those of the run to resume.
func (p *plan) applyResumed() error {
	if p.Resume == "" {
		return nil
	}
	begun, err := Resumable(p.Resume)
	if err != nil {
		return err
	}
	p.Schedule, p.MaxParallel = cmp.Or(p.Schedule, begun.Schedule), cmp.Or(p.MaxParallel, begun.MaxParallel)
	if begun.Made != nil {
		p.Cwd = cmp.Or(p.Cwd, begun.Made.Cwd)
	}
	return nil
}

// applyDefaults sets the options that were not given to those of the configuration.
func (p *plan) applyDefaults() (err error) {
	def := p.config.Run
	p.MaxParallel = cmp.Or(p.MaxParallel, def.MaxParallel)
	p.Repeat = max(1, cmp.Or(p.Repeat, def.Repeat))
	p.MaxSteps = cmp.Or(p.MaxSteps, def.MaxSteps)
	if p.RepeatFailure == nil {
		p.RepeatFailure = &def.RepeatFailure
	}
	if p.Envs == nil {
		p.Envs = Host{}
	}
	if len(p.Tags) == 0 {
		p.Tags = def.Tags
	}
	if p.Record == "" && p.Replay == "" {
		p.Record, p.Replay = p.config.Croft.Record, p.config.Croft.Replay
	}
	p.workspace = suite.Workspace{Mode: suite.ModeNone}
	if spec := cmp.Or(p.suite.Workspace(), def.Workspace); spec != nil {
		p.workspace = *spec
	}
	if p.Dir == "" {
		if p.Dir, err = os.Getwd(); err != nil {
			return fmt.Errorf("eval: %w: %w", fault.Of(err), err)
		}
	}
	p.OutputDir = cmp.Or(p.OutputDir, def.OutputDir, filepath.Join(p.Dir, DefaultOutputDir))
	if p.Schedule == "" {
		p.Schedule, err = ParseSchedule(def.Schedule)
	}
	return err
}

// chooseCases plans the cases that pass the filters.
func (p *plan) chooseCases() error {
	all := p.suite.Cases()
	var ids []string
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	keys := caseKeys(ids)
	for i, c := range all {
		if len(p.Cases) > 0 && !slices.Contains(p.Cases, c.ID) {
			continue
		}
		if len(p.Tags) > 0 && !slices.ContainsFunc(c.Tags, func(t string) bool { return slices.Contains(p.Tags, t) }) {
			continue
		}
		timeout := cmp.Or(c.Timeout, p.config.Timeout, defaultTimeout)
		p.cases = append(p.cases, &plannedCase{Case: c, index: len(p.cases), key: keys[i], timeout: timeout})
	}
	if id := firstUnknown(p.Cases, ids); id != "" {
		return &skillgymError{fault.InvalidArgument, fmt.Sprintf("No cases matched the requested filters. There is no case %q; there are %s.", id, strings.Join(ids, ", "))}
	}
	if len(p.cases) == 0 {
		text := "No cases matched the requested filters."
		if tags := p.declaredTags(); len(p.Tags) > 0 && len(tags) > 0 {
			text += " There are the tags " + strings.Join(tags, ", ") + "."
		}
		return &skillgymError{fault.InvalidArgument, text}
	}
	return nil
}

// chooseRunners plans the runners that pass the filter.
func (p *plan) chooseRunners() error {
	var ids []string
	for _, r := range p.config.Runners {
		ids = append(ids, r.ID)
		if len(p.Runners) > 0 && !slices.Contains(p.Runners, r.ID) {
			continue
		}
		c := agent.Config{Type: r.Agent.Type, Model: r.Agent.Model, Command: r.Agent.Command, CommandArgs: r.Agent.CommandArgs, Env: r.Agent.Env, UserHome: p.UserHome}
		a, err := agent.New(c)
		if err != nil {
			return err
		}
		info := session.NewRunner(r.ID, session.Agent{Type: r.Agent.Type, Model: r.Agent.Model})
		p.runners = append(p.runners, &plannedRunner{index: len(p.runners), config: c, agent: a, info: info})
	}
	if len(ids) == 0 {
		return &skillgymError{fault.InvalidArgument, "No runners configured."}
	}
	if id := firstUnknown(p.Runners, ids); id != "" {
		return &skillgymError{fault.InvalidArgument, fmt.Sprintf("No runners matched the requested filter: %s. There are %s.", id, strings.Join(ids, ", "))}
	}
	return nil
}

// firstUnknown returns the first id that is not known, "" if all are.
func firstUnknown(asked, known []string) string {
	for _, id := range asked {
		if !slices.Contains(known, id) {
			return id
		}
	}
	return ""
}

func (p *plan) declaredTags() []string {
	tags := []string{}
	for _, c := range p.suite.Cases() {
		for _, t := range c.Tags {
			if !slices.Contains(tags, t) {
				tags = append(tags, t)
			}
		}
	}
	return tags
}

// checkTraffic refuses runners whose traffic can't be recorded or replayed.
func (p *plan) checkTraffic() error {
	switch {
	case p.Record == "" && p.Replay == "":
		return nil
	case p.Record != "" && p.Replay != "":
		return fmt.Errorf("eval: record and replay: %w: one run does one or the other", fault.InvalidArgument)
	}
	if p.Replay != "" {
		if info, err := os.Stat(p.Replay); err != nil {
			return fmt.Errorf("eval: replay %s: %w: %w", p.Replay, fault.Of(err), err)
		} else if !info.IsDir() {
			return fmt.Errorf("eval: replay %s: %w: it is not a directory", p.Replay, fault.InvalidArgument)
		}
	}
	for _, r := range p.runners {
		_, up, err := agent.Redirect(r.config, "http://127.0.0.1")
		if err != nil {
			return fmt.Errorf("eval: runner %s: %w", r.info.ID, err)
		}
		if up == nil {
			p.notices = append(p.notices, fmt.Sprintf("runner %s: nothing is recorded or replayed: env of its agent sets none of %s",
				r.info.ID, strings.Join(agent.ModelVariables, ", ")))
		}
	}
	return nil
}

// checkProviderEnvs refuses options that need host mounts, for environments without them.
func (p *plan) checkProviderEnvs() error {
	f, ok := p.Envs.(*ProviderEnvs)
	if !ok {
		return nil
	}
	if p.workspace.Mode != suite.ModeIsolated {
		return fmt.Errorf("eval: workspace mode %q: %w: with provider %s there are only isolated workspaces", p.workspace.Mode, fault.Unsupported, f.Provider)
	}
	if p.config.Croft.Bootstrap == "once" {
		return fmt.Errorf("eval: croft.bootstrap once: %w: with provider %s each workspace is prepared on its own", fault.Unsupported, f.Provider)
	}
	for _, r := range p.runners {
		if !slices.Contains(streamingAgents, r.agent.Type()) {
			return fmt.Errorf("eval: runner %s: %w: %s keeps its session in files that are not seen here with provider %s; use the sandbox, or one of %v",
				r.info.ID, fault.Unsupported, r.agent.Type(), f.Provider, streamingAgents)
		}
	}
	return nil
}

// findCwd finds the directory of workspaces in place.
func (p *plan) findCwd() error {
	spec := &p.workspace
	if !spec.InPlace() {
		if p.Cwd != "" {
			return &skillgymError{fault.InvalidArgument, "CLI option --cwd is only supported when the effective workspace mode is none."}
		}
		return nil
	}
	if spec.Mode == suite.ModeShared && spec.Cwd == "" {
		p.notices = append(p.notices, `workspace mode "shared" without cwd, templateDir or bootstrap works in place, as skillgym 0.8 does; 0.9 would share an empty directory. `+
			`Say mode "none" for the former, or add a template or a bootstrap for the latter.`)
	}
	dir := cmp.Or(p.Cwd, spec.Cwd, p.config.Run.Cwd, p.Dir)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.Dir, dir)
	}
	var err error
	if p.cwd, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("eval: working directory %s: %w: %w", dir, fault.Of(err), err)
	}
	return nil
}

// serializeInPlace makes the schedule serial where several agents would work at once in
// a directory that holds the results. An agent may write there: it could replace a
// directory that is being made for another agent by a symlink, which would lead writes
// for that agent out of the sandbox. With a serial schedule an agent and all that it
// started have ended before the next directory is made. Without a sandbox nothing is
// prevented: agents reach the whole host anyway.
func (p *plan) serializeInPlace() error {
	if p.cwd == "" || !p.Envs.Sandboxed() || p.concurrency() < 2 {
		return nil
	}
	for _, w := range []struct{ path, use string }{
		{cmp.Or(p.Resume, p.OutputDir), "an output directory elsewhere (--output-dir)"}, {p.Record, "a directory of tapes elsewhere (--record)"},
	} {
		if w.path == "" {
			continue
		}
		abs, err := filepath.Abs(w.path)
		if err != nil {
			return fmt.Errorf("eval: %s: %w: %w", w.path, fault.Of(err), err)
		}
		if real := files.Resolve(abs); paths.Inside(p.cwd, real) {
			p.notices = append(p.notices, fmt.Sprintf("agents work one at a time in %s, which holds %s, where each could replace what is written for others; "+
				"several at once need %s, or workspaces of mode isolated", p.cwd, real, w.use))
			p.Schedule = Serial
			return nil
		}
	}
	return nil
}

// concurrency is the number of executions that may run at the same time.
func (p *plan) concurrency() int {
	queues := map[[2]int]bool{}
	for _, c := range p.cases {
		for _, r := range p.runners {
			queue := [2]int{c.index, r.index}
			if p.Schedule == ByRunner {
				queue[0] = 0
			}
			if p.Only == nil || p.Only(c.ID, r.info.ID) {
				queues[queue] = true
			}
		}
	}
	return min(len(queues), p.workers())
}

// workers is the number of workers of the schedule.
func (p *plan) workers() int { return p.Schedule.workers(p.MaxParallel) }

// addExecutions plans the executions: each case on each runner.
func (p *plan) addExecutions(runDir string) {
	p.runDir = runDir
	for _, c := range p.cases {
		for _, r := range p.runners {
			if p.Only != nil && !p.Only(c.ID, r.info.ID) {
				continue
			}
			c.executions++
			dir := filepath.Join(runDir, c.key, r.info.PathKey)
			p.executions = append(p.executions, &execution{index: len(p.executions), c: c, runner: r, dir: dir})
		}
	}
}

// allowedHosts lists the hosts that a runner's agent may reach; without a runner, those
// of the bootstrap command.
func (p *plan) allowedHosts(r *plannedRunner) []string {
	hosts := slices.Concat(p.config.Croft.AllowNet, p.AllowNet)
	if r != nil && !p.NoModelNet && p.Replay == "" {
		hosts = append(hosts, r.hosts...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
