package eval

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
)

// resume goes on with the run in dir: what its journal has is done. The plan is
// that of the journal.
func (m *matrix) resume(dir string) error {
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
		was[k], at[k] = done{d.Case, d.Runner, light(d.Result)}, s
	})
	if err != nil {
		return err
	}
	m.journal = j
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

// Resumable returns the suite and the configuration of the run in dir.
func Resumable(dir string) (suitePath, configPath string, err error) {
	j, p, err := openJournal(dir, func(*done, span) {})
	if err != nil {
		return "", "", err
	}
	return p.Suite, p.Config, j.close()
}
