package eval

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/live"
)

// standardReporter prints for people. On a terminal it shows the running executions and
// the progress; elsewhere it prints a line per case.
type standardReporter struct {
	out    io.Writer
	live   bool
	colour bool
	width  int

	mu      sync.Mutex
	view    *live.View // nil unless on a terminal, once the run has begun
	began   time.Time
	total   int
	done    int
	failed  int
	running []*running // in the order in which they began
}

// running is an execution under way.
type running struct {
	name  string
	since time.Time
}

func newStandard(cfg ReporterConfig) *standardReporter {
	s := &standardReporter{out: cfg.Out, live: cfg.Interactive, colour: cfg.Colour, width: cfg.Width}
	if s.width <= 0 {
		s.width = 80
	}
	return s
}

// Report prints an event.
func (s *standardReporter) Report(e Event) error {
	switch e.Hook {
	case OnSuiteStart:
		return s.printHeader(e)
	case OnRunnerStart:
		s.updateView("", func() { s.running = append(s.running, &running{e.Case.ID + " > " + e.Runner.ID, time.Now()}) })
	case OnRunnerFinish:
		name := e.Case.ID + " > " + e.Runner.ID
		s.updateView("", func() {
			s.done++
			s.running = slices.DeleteFunc(s.running, func(r *running) bool { return r.name == name })
			if res, ok := e.Result.(*ExecutionResult); ok && !res.Passed {
				s.failed++
			}
		})
	case OnCaseFinish:
		if c, ok := e.Result.(*CaseResult); ok {
			s.updateView(s.paintVerdicts(caseLine(c)), nil)
		}
	case OnSuiteFinish:
		if s.view != nil {
			s.view.Stop()
		}
		if r, ok := e.Result.(*Result); ok {
			return s.printSummary(r)
		}
	}
	return nil
}

func (s *standardReporter) printHeader(e Event) error {
	c := e.Context
	s.began, s.total, s.done = time.Now(), c.SelectedExecutionCount, c.Done
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "Suite\t%s\nWorkspace\t%s, %s\nCases\t%d\nRunners\t%d\nExecutions\t%d\nParallel\t%d\n", c.SuitePath, modeText(c), c.Provider,
		c.SelectedCaseCount, c.SelectedRunnerCount, c.SelectedExecutionCount, c.MaxParallel)
	if c.Repeat > 1 {
		fmt.Fprintf(w, "Repeat\t%d\n", c.Repeat)
	}
	if c.Done > 0 {
		fmt.Fprintf(w, "Resumed\t%d of %d are done\n", c.Done, c.SelectedExecutionCount)
	}
	w.Flush() //nolint:errcheck // to memory
	for _, n := range c.Notices {
		fmt.Fprintf(&b, "Note: %s\n", n)
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(s.out, PlainText(b.String())); err != nil {
		return err
	}
	if s.live {
		s.mu.Lock()
		s.view = live.Start(s.out, s.width, s.statusLines)
		s.mu.Unlock()
	}
	return nil
}

func modeText(c *Context) string {
	switch c.WorkspaceMode {
	case "isolated":
		return "isolated per execution"
	case "shared":
		if !c.worksInCwd {
			return "shared"
		}
		return "shared, in place (" + c.Cwd + ")"
	}
	return "in place (" + c.Cwd + ")"
}

// updateView changes the running executions by f, and prints a line above them.
func (s *standardReporter) updateView(stays string, f func()) {
	s.mu.Lock()
	if f != nil {
		f()
	}
	view := s.view
	if view == nil {
		io.WriteString(s.out, stays) //nolint:errcheck // as live does
	}
	s.mu.Unlock()
	if view != nil {
		view.Print(stays)
	}
}

// statusLines returns a line per running execution, the longest running first.
func (s *standardReporter) statusLines() []string {
	const most = 12
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := []string{fmt.Sprintf("%d of %d done, %d failed, %s", s.done, s.total, s.failed, time.Since(s.began).Round(time.Second))}
	for i, r := range s.running {
		if i == most {
			return append(lines, fmt.Sprintf("  and %d more", len(s.running)-most))
		}
		lines = append(lines, fmt.Sprintf("  %6s  %s", time.Since(r.since).Round(time.Second), oneLine(r.name)))
	}
	return lines
}

func caseLine(c *CaseResult) string {
	passed := 0
	for _, r := range c.RunnerResults {
		if r.Passed {
			passed++
		}
	}
	return fmt.Sprintf("%-4s  %-40s  %d/%d\n", verdictText(c.Passed), oneLine(c.CaseID), passed, len(c.RunnerResults))
}

func verdictText(passed bool) string {
	if passed {
		return "ok"
	}
	return "FAIL"
}

// printSummary prints a table per runner, the failures by class and one by one, and the
// totals.
func (s *standardReporter) printSummary(r *Result) error {
	var tables, rest bytes.Buffer
	for _, sum := range r.Runners {
		writeRunnerTable(&tables, r, sum)
	}
	writeClassTable(&rest, r)
	writeFailures(&rest, r)
	writeTotals(&rest, r)
	_, err := io.WriteString(s.out, s.paintVerdicts(PlainText(tables.String()))+s.paintHeadings(PlainText(rest.String())))
	return err
}

// verdictMarks are the marks of verdicts on a terminal with colours, as wide as their words.
var verdictMarks = map[string]string{"ok  ": "\x1b[32m✓\x1b[m   ", "FAIL": "\x1b[31m✗\x1b[m   "}

// paintVerdicts puts a mark in the place of the verdict that a line begins with.
func (s *standardReporter) paintVerdicts(text string) string {
	if !s.colour {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if mark, ok := verdictMarks[line[:min(4, len(line))]]; ok {
			line = mark + line[4:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// paintHeadings makes the headings of the summary bold, and its failed counts red.
func (s *standardReporter) paintHeadings(text string) string {
	if !s.colour {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		switch head := strings.TrimSuffix(line, "\n"); head {
		case "Failure classes", "Failures", "Summary":
			line = "\x1b[1m" + head + "\x1b[m\n"
		}
		b.WriteString(failedCount.ReplaceAllString(line, "$1\x1b[31m$2 failed\x1b[m"))
	}
	return b.String()
}

// failedCount matches a count of failures in the totals that is not 0.
var failedCount = lazyregexp.New(`^((?:Cases|Executions) +)([1-9]\d*) failed`)

func writeRunnerTable(b *bytes.Buffer, r *Result, sum RunnerSummary) {
	fmt.Fprintf(b, "\nRunner: %s (%s)\n", sum.Runner.ID, agentName(sum.Runner.Agent))
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\tcase\ttime\ttokens in / out / reason / cache / billable\t")
	for _, c := range r.Cases {
		for _, e := range c.RunnerResults {
			if e.Runner.ID == sum.Runner.ID {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", verdictText(e.Passed), oneLine(c.CaseID), formatDuration(e.DurationMs), tokensText(e.Report), statusRemark(e))
			}
		}
	}
	w.Flush() //nolint:errcheck // to memory
	line := fmt.Sprintf("passed %d of %d (%.0f %%)", sum.PassedCases, sum.TotalCases, 100*sum.SuccessRate)
	if len(sum.PassAtK) > 1 {
		for _, k := range sortedKs(sum.PassAtK) {
			line += fmt.Sprintf(", pass@%s %.0f %%", k, 100*sum.PassAtK[k])
		}
	}
	if sum.CostUSD != nil {
		line += fmt.Sprintf(", %.4f USD", *sum.CostUSD)
	}
	fmt.Fprintln(b, line)
}

func sortedKs(m map[string]float64) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.SortFunc(ks, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return ks
}

// statusRemark explains a status beyond passed and failed.
func statusRemark(e *ExecutionResult) string {
	text := ""
	switch e.Status {
	case StatusExpectedFailed:
		text = "expected failure"
	case StatusUnexpectedPassed:
		text = "unexpected pass"
	case StatusFailed:
		text = "unexpected failure"
	}
	if e.RepeatTarget > 1 && e.SuccessfulRepetitions != nil {
		text = strings.TrimSpace(fmt.Sprintf("%d/%d repetitions %s", *e.SuccessfulRepetitions, e.RepeatTarget, text))
	}
	return text
}

func formatDuration(ms float64) string {
	return (time.Duration(ms) * time.Millisecond).Round(time.Millisecond).String()
}

// tokensText formats the five token counts, "-" for an unknown one.
func tokensText(r *session.Report) string {
	var parts []string
	for _, n := range tokenCounts(r) {
		if n == nil {
			parts = append(parts, "-")
		} else {
			parts = append(parts, fmt.Sprintf("%.0f", *n))
		}
	}
	return strings.Join(parts, " / ")
}

// failedExecutions lists the failed executions, in order.
func (r *Result) failedExecutions() (list []failedExecution) {
	for _, c := range r.Cases {
		for _, e := range c.RunnerResults {
			if !e.Passed {
				list = append(list, failedExecution{c.CaseID, e})
			}
		}
	}
	return list
}

type failedExecution struct {
	caseID string
	*ExecutionResult
}

// failureClass is the class of a failure, "unknown" without one.
func (f failedExecution) failureClass() Class {
	if f.FailureClass == nil {
		return Class{ID: "unknown", Label: "Unclassified"}
	}
	return *f.FailureClass
}

// classText names a class: a class need not have a label.
func classText(c Class) string { return strings.TrimSpace(c.Label + " [" + c.ID + "]") }

func writeClassTable(b *bytes.Buffer, r *Result) {
	byClass := map[string][]failedExecution{}
	var order []string
	for _, f := range r.failedExecutions() {
		id := f.failureClass().ID
		if byClass[id] == nil {
			order = append(order, id)
		}
		byClass[id] = append(byClass[id], f)
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("\nFailure classes\n")
	for _, id := range order {
		fmt.Fprintf(b, "\n%s (%d)\n", classText(byClass[id][0].failureClass()), len(byClass[id]))
		for _, f := range byClass[id] {
			fmt.Fprintf(b, "- %s > %s\n", oneLine(f.caseID), f.Runner.ID)
		}
	}
}

// originText explains an origin that the error alone does not explain.
var originText = map[Origin]string{
	OriginRunner: "The run did not complete because the agent failed.", OriginAssertHook: "The run finished, but the case's own code crashed.",
	OriginBootstrap: "The workspace could not be prepared: its bootstrap command failed.", OriginWorkspace: "The workspace could not be prepared.",
	OriginCollection: "The run finished, but what the agent left could not be collected.", OriginNormalization: "The run finished, but what the agent left could not be read.",
	OriginSnapshot: "The run finished, but it used more tokens than the snapshot allows.", OriginMaxSteps: "The agent took too many steps and was stopped.",
	OriginModelRejected: "The configured model is not available.",
}

func writeFailures(b *bytes.Buffer, r *Result) {
	list := r.failedExecutions()
	if len(list) == 0 {
		return
	}
	b.WriteString("\nFailures\n")
	for _, f := range list {
		fmt.Fprintf(b, "\n%s > %s (%s)\n", oneLine(f.caseID), f.Runner.ID, agentName(f.Runner.Agent))
		if text := originText[f.FailureOrigin]; text != "" {
			fmt.Fprintln(b, text)
		}
		if f.Status == StatusUnexpectedPassed {
			fmt.Fprintln(b, "It was expected to fail, and passed.")
		}
		if f.Error != nil {
			fmt.Fprintf(b, "%s: %s\n", f.Error.Name, f.Error.Message)
			if at, ok := innermostFrame(f.Error.Stack); ok {
				fmt.Fprintf(b, "at %s:%d:%d\n", at.file, at.line, at.column)
			}
		}
		if log, tail := f.failureTail(); log != "" {
			fmt.Fprintf(b, "Log: %s\n", log)
			for line := range strings.Lines(tail) {
				fmt.Fprintf(b, "  | %s\n", strings.TrimSuffix(line, "\n"))
			}
		}
		if f.WorkspacePath != "" {
			fmt.Fprintf(b, "Workspace: %s\n", f.WorkspacePath)
		}
		if _, err := os.Stat(filepath.Join(f.ArtifactDir, explainName)); err == nil {
			fmt.Fprintf(b, "Ask the agent why: croft eval explain %s\n", f.ArtifactDir)
		}
		if f.WorkspaceError != "" {
			fmt.Fprintf(b, "Workspace was not kept whole: %s\n", f.WorkspaceError)
		}
	}
}

func writeTotals(b *bytes.Buffer, r *Result) {
	cases, executions, failedCases, failedExecutions, expected, unexpected := 0, 0, 0, 0, 0, 0
	for _, c := range r.Cases {
		cases++
		if !c.Passed {
			failedCases++
		}
		for _, e := range c.RunnerResults {
			executions++
			if !e.Passed {
				failedExecutions++
			}
			switch e.Status {
			case StatusExpectedFailed:
				expected++
			case StatusUnexpectedPassed:
				unexpected++
			}
		}
	}
	b.WriteString("\nSummary\n\n")
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "Cases\t%d failed | %d passed (%d)\n", failedCases, cases-failedCases, cases)
	fmt.Fprintf(w, "Executions\t%d failed | %d passed (%d)\n", failedExecutions, executions-failedExecutions, executions)
	fmt.Fprintf(w, "Statuses\t%d expected failures | %d unexpected passes\n", expected, unexpected)
	fmt.Fprintf(w, "Duration\t%s\n", formatDuration(r.DurationMs))
	if text := totalTokens(r); text != "" {
		fmt.Fprintf(w, "Tokens\t%s\n", text)
	}
	if r.Croft != nil && r.Croft.CostUSD > 0 {
		fmt.Fprintf(w, "Cost\t%.4f USD\n", r.Croft.CostUSD)
	}
	fmt.Fprintf(w, "Output\t%s\n", r.ArtifactDir)
	if r.Croft != nil && r.Croft.Interrupted {
		fmt.Fprintf(w, "Interrupted\tgo on with: croft eval run --resume %s\n", r.ArtifactDir)
	}
	w.Flush() //nolint:errcheck // to memory
}

// totalTokens sums up the tokens of all sessions, "" if none are known.
func totalTokens(r *Result) string {
	var sums [5]*float64
	for _, c := range r.Cases {
		for _, e := range c.RunnerResults {
			for _, one := range e.allSessions() {
				for i, n := range tokenCounts(one.Report) {
					if n == nil {
						continue
					}
					if sums[i] == nil {
						sums[i] = new(float64)
					}
					*sums[i] += *n
				}
			}
		}
	}
	var parts []string
	for i, name := range []string{"in", "out", "reasoning", "cache", "billable"} {
		if sums[i] != nil {
			parts = append(parts, fmt.Sprintf("%.0f %s", *sums[i], name))
		}
	}
	return strings.Join(parts, " | ")
}

// agentName is the type of an agent, and its model if it has one.
func agentName(a session.Agent) string {
	if a.Model == "" {
		return a.Type
	}
	return a.Type + ", " + a.Model
}
