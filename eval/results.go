package eval

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
)

// runResults holds the results of a run: a summary of each execution in memory, and the
// whole in the journal.
type runResults struct {
	plan    *plan
	journal *journal

	mu    sync.Mutex
	list  []*ExecutionResult // guarded by mu; by execution, summaries
	spans []lineSpan         // guarded by mu; positions in the journal
}

// openResults makes the directory of the run and its journal, or opens those of the run
// to resume.
func openResults(p *plan) (*runResults, error) {
	r := &runResults{plan: p}
	if p.Resume != "" {
		return r, r.resumeRun(p)
	}
	dir, err := newRunDir(p.OutputDir, p.started)
	if err != nil {
		return nil, err
	}
	p.addExecutions(dir)
	r.allocate()
	r.journal, err = newJournal(dir, p.header())
	return r, err
}

func (r *runResults) allocate() {
	n := len(r.plan.executions)
	r.list, r.spans = make([]*ExecutionResult, n), make([]lineSpan, n)
}

// hasResult reports whether an execution has a result.
func (r *runResults) hasResult(e *execution) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[e.index] != nil
}

// count is the number of executions that have a result.
func (r *runResults) count() (n int) {
	for _, e := range r.plan.executions {
		if r.hasResult(e) {
			n++
		}
	}
	return n
}

// recordResult appends a result to the journal, and returns its position.
func (r *runResults) recordResult(e *execution, res *ExecutionResult) (lineSpan, error) {
	return r.journal.add(journalEntry{Case: e.c.ID, Runner: e.runner.info.ID, Result: compactResult(res)})
}

// storeResult stores the summary of a result. After the last execution of a case it
// returns the result of the case, else nil.
func (r *runResults) storeResult(e *execution, res *ExecutionResult, at lineSpan) *CaseResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list[e.index], r.spans[e.index] = resultSummary(res), at
	if c := r.caseResultLocked(e.c); len(c.RunnerResults) == e.c.executions {
		return &c
	}
	return nil
}

// caseResultLocked is what is known of a case.
// The caller holds r.mu.
func (r *runResults) caseResultLocked(c *plannedCase) CaseResult {
	cr := CaseResult{CaseID: c.ID, Tags: append([]string{}, c.Tags...), Passed: true, RunnerResults: []*ExecutionResult{}}
	for _, e := range r.plan.executions {
		if res := r.list[e.index]; e.c == c && res != nil {
			cr.RunnerResults = append(cr.RunnerResults, res)
			cr.Passed = cr.Passed && res.Passed
		}
	}
	return cr
}

// buildResult makes the result of the run from the summaries.
func (r *runResults) buildResult(interrupted bool) *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ended := r.plan, time.Now()
	out := &Result{SuitePath: p.suite.Path(), StartedAt: p.startedAt, EndedAt: session.Time(ended), DurationMs: millis(ended.Sub(p.started)),
		ArtifactDir: p.runDir, DeclaredTags: p.declaredTags(), SelectedTags: append([]string{}, p.Tags...), Cases: []CaseResult{}}
	for _, c := range p.cases {
		cr := r.caseResultLocked(c)
		if len(cr.RunnerResults) < c.executions {
			interrupted = true
			cr.Passed = false
		}
		if len(cr.RunnerResults) > 0 {
			out.Cases = append(out.Cases, cr)
		}
	}
	var runners []session.Runner
	for _, x := range p.runners {
		runners = append(runners, x.info)
	}
	out.Runners = summarizeRunners(out.Cases, runners)
	out.Croft = &About{Provider: p.Envs.Kind(), Workspace: p.workspace.Mode, Schedule: string(p.Schedule),
		MaxParallel: p.workers(), Repeat: p.Repeat, Interrupted: interrupted, Notices: p.notices}
	for _, s := range out.Runners {
		if s.CostUSD != nil {
			out.Croft.CostUSD += *s.CostUSD
		}
	}
	return out
}

// writeResults writes results.json: the result of the run, with each execution read from
// the journal, one at a time.
func (r *runResults) writeResults(sum *Result) error {
	err := atomicfile.WriteTo(filepath.Join(r.plan.runDir, ResultsName), reportFileOptions, func(file io.Writer) error {
		w := bufio.NewWriterSize(file, 1<<16)
		return errors.Join(r.streamResults(w, sum), w.Flush())
	})
	if err != nil {
		return fmt.Errorf("eval: write the results: %w: %w", fault.Of(err), err)
	}
	return nil
}

// streamResults writes a result whose executions are in the journal.
func (r *runResults) streamResults(w *bufio.Writer, sum *Result) error {
	var cases []*plannedCase // those of sum
	byCase := map[*plannedCase][]*execution{}
	for _, e := range r.plan.executions {
		if !r.hasResult(e) {
			continue
		}
		if byCase[e.c] == nil {
			cases = append(cases, e.c)
		}
		byCase[e.c] = append(byCase[e.c], e)
	}
	head := *sum
	head.Cases = nil
	err := streamList(w, head, "cases", "", len(cases), func(i int, indent string) error {
		list, c := byCase[cases[i]], sum.Cases[i]
		c.RunnerResults = nil
		return streamList(w, c, "runnerResults", indent, len(list), func(i int, indent string) error {
			full, err := r.readRecorded(list[i])
			if err != nil {
				return err
			}
			data, err := encodeDocument(full)
			fmt.Fprintf(w, "%s", indentLines(data, indent))
			return err
		})
	})
	fmt.Fprintln(w)
	return err
}

// streamList writes a document whose field key, which is null, is replaced by a list.
// each writes one of the n elements. Write errors are returned by w.Flush.
func streamList(w *bufio.Writer, doc any, key, indent string, n int, each func(i int, indent string) error) error {
	data, err := encodeDocument(doc)
	if err != nil {
		return err
	}
	before, after, ok := bytes.Cut(indentLines(data, indent), []byte(`"`+key+`": null`))
	if !ok {
		return fmt.Errorf("%w: the document has no %s", fault.Internal, key)
	}
	fmt.Fprintf(w, `%s"%s": [`, before, key)
	for i := range n {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, "\n", indent, "    ")
		if err := each(i, indent+"    "); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n%s  ]%s", indent, after)
	return nil
}

// indentLines indents each line of a document but the first.
func indentLines(data []byte, indent string) []byte {
	return bytes.ReplaceAll(bytes.TrimRight(data, "\n"), []byte("\n"), []byte("\n"+indent))
}

// readCase returns the result of a case with its executions from the journal.
func (r *runResults) readCase(sum *CaseResult, c *plannedCase) (*CaseResult, error) {
	full := *sum
	full.RunnerResults = nil
	for _, e := range r.plan.executions {
		if e.c != c {
			continue
		}
		res, err := r.readRecorded(e)
		if err != nil {
			return nil, err
		}
		full.RunnerResults = append(full.RunnerResults, res)
	}
	return &full, nil
}

// readRecorded returns a result from the journal, or its summary if it could not be
// written there.
func (r *runResults) readRecorded(e *execution) (*ExecutionResult, error) {
	r.mu.Lock()
	res, at := r.list[e.index], r.spans[e.index]
	r.mu.Unlock()
	if at.size == 0 {
		return res, nil
	}
	d, err := r.journal.read(at)
	if err != nil {
		return nil, err
	}
	return d.Result, nil
}
