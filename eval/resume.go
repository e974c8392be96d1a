package eval

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
)

// resume goes on with the run in o.Resume: what its journal has is done. The plan
// is that of the journal.
func (m *matrix) resume(o *Options) error {
	dir := o.Resume
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return fmt.Errorf("eval: resume %s: %w: %w", dir, fault.Of(err), err)
	}
	m.runDir = real
	type key struct{ c, r string }
	was := map[key]done{}
	at := map[key]span{}
	j, p, err := openJournal(real, func(d *done, s span) {
		k := key{d.Case, d.Runner}
		was[k], at[k] = done{d.Case, d.Runner, summary(d.Result)}, s
	})
	if err != nil {
		return err
	}
	m.journal = j
	if p.Made != nil {
		if err := m.made(o).like(p.Made); err != nil {
			return err
		}
	}
	if err := m.adopt(p); err != nil {
		return errors.Join(err, j.close())
	}
	m.plan()
	for _, e := range m.executions {
		k := key{e.c.ID, e.runner.info.ID}
		if d, ok := was[k]; ok {
			m.results[e.index], m.spans[e.index] = d.Result, at[k]
			m.begun[e.c] = true
			m.ended[e.c]++
		}
	}
	return nil
}

// adopt takes over what the plan of a run says.
func (m *matrix) adopt(p plan) error {
	if p.Suite != m.opts.suite.Path() {
		return fmt.Errorf("eval: resume: %w: the run is of %s, and this suite is %s", fault.InvalidArgument, p.Suite, m.opts.suite.Path())
	}
	m.opts.repeat, m.opts.repeatFailure, m.startedAt = p.Repeat, p.RepeatFail, p.StartedAt
	if t, err := time.Parse(time.RFC3339, p.StartedAt); err == nil {
		m.started = t
	}
	m.opts.tags = p.Tags
	m.cases = slices.DeleteFunc(m.cases, func(c *plannedCase) bool { return !slices.Contains(p.Cases, c.ID) })
	m.runners = slices.DeleteFunc(m.runners, func(r *plannedRunner) bool { return !slices.Contains(p.Runners, r.info.ID) })
	for i, c := range m.cases {
		c.index = i
	}
	for i, r := range m.runners {
		r.index = i
	}
	if len(m.cases) != len(p.Cases) || len(m.runners) != len(p.Runners) {
		return fmt.Errorf("eval: resume: %w: the suite or its configuration lacks what the run was of: %d of %d cases and %d of %d runners are there",
			fault.InvalidArgument, len(m.cases), len(p.Cases), len(m.runners), len(p.Runners))
	}
	return nil
}

// like refuses to go on with a run in another way than it was begun: its results
// would be of neither.
func (m *Made) like(was *Made) error {
	for _, x := range []struct{ what, was, is string }{
		{"provider", was.Provider, m.Provider}, {"tools", was.Tools, m.Tools}, {"record", was.Record, m.Record}, {"replay", was.Replay, m.Replay},
	} {
		if x.was != x.is {
			return fmt.Errorf("eval: resume: %w: %s is %q, and the run was begun with %q: it must go on as it was begun", fault.InvalidArgument, x.what, x.is, x.was)
		}
	}
	return nil
}

// made is how this run is made.
func (m *matrix) made(o *Options) *Made {
	made := &Made{Provider: m.opts.envs.Kind(), Tools: o.Toolset, Record: m.opts.record, Replay: m.opts.replay,
		AllowNet: o.AllowNet, NoModelNet: o.NoModelNet, Read: o.Read, Limits: o.Limits}
	if s, ok := m.opts.envs.(*Sandbox); ok {
		made.Isolation = s.Isolation
	}
	return made
}

// A Begun is a run that was cut short.
type Begun struct {
	Suite, Config string // files
	Made          *Made  // nil is not known: an earlier version began it
}

// Resumable returns what is known of the run in dir.
func Resumable(dir string) (*Begun, error) {
	j, p, err := openJournal(dir, func(*done, span) {})
	if err != nil {
		return nil, err
	}
	return &Begun{p.Suite, p.Config, p.Made}, j.close()
}
