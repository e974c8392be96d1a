package eval

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
)

// resumeRun opens the journal of the run in p.Resume and adopts its plan. Executions with
// a line in the journal are done.
func (r *runResults) resumeRun(p *plan) error {
	dir, err := filepath.EvalSymlinks(p.Resume)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return fmt.Errorf("eval: resume %s: %w: %w", p.Resume, fault.Of(err), err)
	}
	type key struct{ c, r string }
	was, at := map[key]*ExecutionResult{}, map[key]lineSpan{}
	j, header, err := openJournal(dir, func(d *journalEntry, s lineSpan) {
		k := key{d.Case, d.Runner}
		was[k], at[k] = resultSummary(d.Result), s
	})
	if err != nil {
		return err
	}
	r.journal = j
	if header.Made != nil {
		err = p.runSettings().checkSame(header.Made)
	}
	if err == nil {
		err = p.adoptHeader(header)
	}
	if err != nil {
		return errors.Join(err, j.close())
	}
	p.addExecutions(dir)
	r.allocate()
	for _, e := range p.executions {
		k := key{e.c.ID, e.runner.info.ID}
		if res := was[k]; res != nil {
			r.list[e.index], r.spans[e.index] = res, at[k]
			e.c.begun = true
		}
	}
	return nil
}

// adoptHeader takes the plan from the header of a journal.
func (p *plan) adoptHeader(h journalHeader) error {
	if h.Suite != p.suite.Path() {
		return fmt.Errorf("eval: resume: %w: the run is of %s, and this suite is %s", fault.InvalidArgument, h.Suite, p.suite.Path())
	}
	p.Repeat, p.RepeatFailure, p.Tags, p.startedAt = h.Repeat, &h.RepeatFail, h.Tags, h.StartedAt
	if t, err := time.Parse(time.RFC3339, h.StartedAt); err == nil {
		p.started = t
	}
	p.cases = slices.DeleteFunc(p.cases, func(c *plannedCase) bool { return !slices.Contains(h.Cases, c.ID) })
	p.runners = slices.DeleteFunc(p.runners, func(r *plannedRunner) bool { return !slices.Contains(h.Runners, r.info.ID) })
	for i, c := range p.cases {
		c.index = i
	}
	for i, r := range p.runners {
		r.index = i
	}
	if len(p.cases) != len(h.Cases) || len(p.runners) != len(h.Runners) {
		return fmt.Errorf("eval: resume: %w: the suite or its configuration lacks what the run was of: %d of %d cases and %d of %d runners are there",
			fault.InvalidArgument, len(p.cases), len(h.Cases), len(p.runners), len(h.Runners))
	}
	return nil
}

// header is the plan as the first line of the journal.
func (p *plan) header() journalHeader {
	h := journalHeader{Version: journalVersion, Suite: p.suite.Path(), Config: p.config.Path, StartedAt: p.startedAt, Tags: p.Tags, Schedule: p.Schedule,
		MaxParallel: p.MaxParallel, Repeat: p.Repeat, RepeatFail: *p.RepeatFailure, Provider: p.Envs.Kind(), Cwd: p.Dir, Made: p.runSettings()}
	for _, c := range p.cases {
		h.Cases = append(h.Cases, c.ID)
		if len(c.Tags) > 0 {
			if h.CaseTags == nil {
				h.CaseTags = map[string][]string{}
			}
			h.CaseTags[c.ID] = c.Tags
		}
	}
	for _, r := range p.runners {
		h.Runners = append(h.Runners, r.info.ID)
	}
	return h
}

// checkSame refuses to resume a run with other settings, because its results could not be
// compared.
func (m *RunSettings) checkSame(was *RunSettings) error {
	for _, x := range []struct{ what, was, is string }{
		{"provider", was.Provider, m.Provider}, {"tools", was.Tools, m.Tools}, {"record", was.Record, m.Record}, {"replay", was.Replay, m.Replay}, {"cwd", was.Cwd, m.Cwd},
	} {
		if x.was != x.is {
			return fmt.Errorf("eval: resume: %w: %s is %q, and the run was started with %q; resume it with the same settings", fault.InvalidArgument, x.what, x.is, x.was)
		}
	}
	return nil
}

// runSettings are the settings of this run.
func (p *plan) runSettings() *RunSettings {
	made := &RunSettings{Provider: p.Envs.Kind(), Cwd: p.cwd, Tools: p.Toolset, Record: p.Record, Replay: p.Replay,
		AllowNet: p.AllowNet, NoModelNet: p.NoModelNet, Read: p.Read, Write: p.Write, Limits: p.Limits}
	for _, t := range p.Toolchains {
		made.Toolchains = append(made.Toolchains, t.Name)
	}
	if s, ok := p.Envs.(*Sandbox); ok {
		made.Isolation = s.Isolation
	}
	return made
}

// An InterruptedRun is a run that can be resumed.
type InterruptedRun struct {
	Suite, Config string // files
	Schedule      Schedule
	MaxParallel   int          // 0 is the default
	Made          *RunSettings // nil is not known: an earlier version began it
}

// Resumable returns the settings of the run in dir.
func Resumable(dir string) (*InterruptedRun, error) {
	j, p, err := openJournal(dir, func(*journalEntry, lineSpan) {})
	if err != nil {
		return nil, err
	}
	return &InterruptedRun{p.Suite, p.Config, p.Schedule, p.MaxParallel, p.Made}, j.close()
}
