package eval

import (
	"fmt"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/posix/boundary"
)

// apartInPlace lets agents work one at a time where several would work at once in a
// directory that holds the results. What is in that directory is theirs: one could put
// a link in the place of a directory that is being made for another, which would lead
// it, and what is written for it, out of the fence. One at a time, an agent is gone,
// and with it all that it started, before the next directory is looked at. Without a
// fence there is nothing that they could not reach anyway.
func (m *matrix) apartInPlace(o *Options) error {
	spec := m.workspace()
	if !spec.InPlace() || !m.opts.envs.Fenced() || m.together() < 2 {
		return nil
	}
	dir, err := m.workingDir(spec, o)
	if err != nil {
		return err
	}
	out := m.outputDir(o)
	if o.Resume != "" {
		out = o.Resume
	}
	for _, w := range []struct{ path, use string }{{out, "an output directory elsewhere (--output-dir)"}, {m.opts.record, "a directory of tapes elsewhere (--record)"}} {
		if w.path == "" {
			continue
		}
		abs, err := filepath.Abs(w.path)
		if err != nil {
			return fmt.Errorf("eval: %s: %w: %w", w.path, fault.Of(err), err)
		}
		if real := boundary.Resolve(abs); inDir(dir, real) {
			m.notices = append(m.notices, fmt.Sprintf("agents work one at a time in %s, which holds %s, where each could replace what is written for others; "+
				"several at once need %s, or workspaces of mode isolated", dir, real, w.use))
			m.opts.schedule = Serial
			return nil
		}
	}
	return nil
}

// together is how many executions may run at the same time.
func (m *matrix) together() int {
	turns := map[[2]int]bool{}
	for _, c := range m.cases {
		for _, r := range m.runners {
			turn := [2]int{c.index, r.index}
			if m.opts.schedule == ByRunner {
				turn[0] = 0
			}
			if m.opts.only == nil || m.opts.only(c.ID, r.info.ID) {
				turns[turn] = true
			}
		}
	}
	return min(len(turns), m.opts.schedule.lanes(m.opts.maxParallel))
}
