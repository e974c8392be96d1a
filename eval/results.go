package eval

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
)

// caseResultLocked is what is known of a case.
// The caller holds m.mu.
func (m *matrix) caseResultLocked(c *plannedCase) CaseResult {
	r := CaseResult{CaseID: c.ID, Tags: slices.Concat([]string{}, c.Tags), Passed: true, RunnerResults: []*ExecutionResult{}}
	for _, e := range m.executions {
		if e.c != c {
			continue
		}
		if res := m.results[e.index]; res != nil {
			r.RunnerResults = append(r.RunnerResults, res)
			r.Passed = r.Passed && res.Passed
		}
	}
	return r
}

// result sums up what is done.
func (m *matrix) result(interrupted bool) *Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := time.Now()
	r := &Result{SuitePath: m.opts.suite.Path(), StartedAt: m.startedAt, EndedAt: session.Time(ended), DurationMs: millis(ended.Sub(m.started)),
		ArtifactDir: m.runDir, DeclaredTags: m.declaredTags(), SelectedTags: slices.Concat([]string{}, m.opts.tags), Cases: []CaseResult{}}
	for _, c := range m.cases {
		cr := m.caseResultLocked(c)
		if len(cr.RunnerResults) < c.executions {
			interrupted = true
			cr.Passed = false
		}
		if len(cr.RunnerResults) > 0 {
			r.Cases = append(r.Cases, cr)
		}
	}
	var runners []session.Runner
	for _, x := range m.runners {
		runners = append(runners, x.info)
	}
	r.Runners = summarize(r.Cases, runners)
	r.Croft = &About{Provider: m.opts.envs.Kind(), Workspace: m.provision.spec.Mode, Schedule: string(m.opts.schedule),
		MaxParallel: m.opts.schedule.lanes(m.opts.maxParallel), Repeat: m.opts.repeat, Interrupted: interrupted, Notices: m.notices}
	for _, s := range r.Runners {
		if s.CostUSD != nil {
			r.Croft.CostUSD += *s.CostUSD
		}
	}
	return r
}

func (m *matrix) declaredTags() []string {
	tags := []string{}
	for _, c := range m.opts.suite.Cases() {
		for _, t := range c.Tags {
			if !slices.Contains(tags, t) {
				tags = append(tags, t)
			}
		}
	}
	return tags
}

// writeResults writes results.json: the result, with the executions as they are in
// the journal, one at a time.
func (m *matrix) writeResults(r *Result) error {
	err := atomicfile.WriteTo(filepath.Join(m.runDir, ResultsName), reportFile, func(file io.Writer) error {
		w := bufio.NewWriterSize(file, 1<<16)
		return errors.Join(m.stream(w, r), w.Flush())
	})
	if err != nil {
		return fmt.Errorf("eval: write the results: %w: %w", fault.Of(err), err)
	}
	return nil
}

// stream writes a result whose executions are in the journal.
func (m *matrix) stream(w *bufio.Writer, r *Result) error {
	byCase := map[string][]int{}
	m.mu.Lock()
	for _, e := range m.executions {
		if m.results[e.index] != nil {
			byCase[e.c.key] = append(byCase[e.c.key], e.index)
		}
	}
	spans := slices.Clone(m.spans)
	m.mu.Unlock()
	head := *r
	head.Cases = nil
	frame, err := encodeDocument(&head)
	if err != nil {
		return err
	}
	const hole = `"cases": null`
	before, after, ok := cutBytes(frame, hole)
	if !ok {
		return fmt.Errorf("%w: the frame has no cases", fault.Internal)
	}
	w.Write(before) //nolint:errcheck // bufio keeps the first error for Flush
	fmt.Fprint(w, `"cases": [`)
	n := 0
	for _, c := range m.cases {
		list := byCase[c.key]
		if len(list) == 0 {
			continue
		}
		if n++; n > 1 {
			fmt.Fprint(w, ",")
		}
		if err := m.streamCase(w, c, list, spans); err != nil {
			return err
		}
	}
	fmt.Fprint(w, "\n  ]")
	w.Write(after) //nolint:errcheck // as above
	return nil
}

func (m *matrix) streamCase(w *bufio.Writer, c *plannedCase, list []int, spans []span) error {
	m.mu.Lock()
	cr := m.caseResultLocked(c)
	m.mu.Unlock()
	id, err := json.Marshal(cr.CaseID)
	if err != nil {
		return err
	}
	tags, err := json.Marshal(cr.Tags)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n    {\n      \"caseId\": %s,\n      \"tags\": %s,\n      \"passed\": %t,\n      \"runnerResults\": [", id, tags, cr.Passed && len(list) == c.executions)
	for i, at := range list {
		if i > 0 {
			w.WriteString(",") //nolint:errcheck // bufio keeps the first error for Flush
		}
		full, err := m.recorded(at, spans[at])
		if err != nil {
			return err
		}
		data, err := encodeDocument(full)
		if err != nil {
			return err
		}
		w.WriteString("\n        ")         //nolint:errcheck // as above
		w.Write(indented(data, "        ")) //nolint:errcheck // as above
	}
	w.WriteString("\n      ]\n    }") //nolint:errcheck // as above
	return nil
}

// recorded returns a result as it is in the journal, or without its events where it
// could not be written there.
func (m *matrix) recorded(at int, s span) (*ExecutionResult, error) {
	if s.size == 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.results[at], nil
	}
	d, err := m.journal.read(s)
	if err != nil {
		return nil, err
	}
	return d.Result, nil
}
