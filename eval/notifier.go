package eval

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/eval/suite"
)

// A notifier sends the events of a run to its reporters, and notes to the user.
type notifier struct {
	reporters []Reporter
	notes     func(format string, args ...any)
	context   *Context
	total     int // cases

	mu sync.Mutex // held while a reporter is called
}

func newNotifier(p *plan) *notifier {
	c := &Context{
		IsInteractive: p.Interactive, Cwd: p.Dir, WorkspaceMode: p.workspace.Mode, SuitePath: p.suite.Path(), ArtifactDir: p.runDir,
		SelectedCaseCount: len(p.cases), SelectedRunnerCount: len(p.runners), SelectedExecutionCount: len(p.executions), Repeat: p.Repeat,
		ScheduleMode: p.Schedule, MaxParallel: p.workers(), CaseFilter: strings.Join(p.Cases, ","), RunnerFilter: strings.Join(p.Runners, ","),
		TagFilter: p.Tags, DeclaredTags: p.declaredTags(), Provider: p.Envs.Kind(), Notices: p.notices,
	}
	if p.workspace.InPlace() {
		c.Cwd, c.worksInCwd = p.cwd, true
	}
	return &notifier{reporters: p.Reporters, notes: p.Note, context: c, total: len(p.cases)}
}

// note prints a message for the user that is in no result.
func (n *notifier) note(format string, args ...any) {
	if n.notes != nil {
		n.notes(format, args...)
	}
}

// sendEvent sends an event to all reporters, one after the other.
func (n *notifier) sendEvent(e Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sendEventLocked(e)
}

// sendEventLocked is sendEvent for a caller that holds n.mu.
func (n *notifier) sendEventLocked(e Event) {
	e.Context = n.context
	for _, r := range n.reporters {
		if err := r.Report(e); err != nil {
			n.note("eval: reporter: %v", err)
		}
	}
}

// sendError reports an error that ends the run, or kept it from starting.
func (n *notifier) sendError(err error) {
	n.sendEvent(Event{Hook: OnError, Error: &ErrorInfo{Name: "Error", Message: err.Error()}})
}

// hasModule reports whether a reporter is a module of the user.
func (n *notifier) hasModule() bool {
	return slices.ContainsFunc(n.reporters, func(r Reporter) bool { _, ok := r.(*Module); return ok })
}

// caseEvent is an event about a case.
func (n *notifier) caseEvent(h Hook, c *plannedCase) Event {
	return Event{Hook: h, Case: new(c.caseInfo()), CaseIndex: c.index + 1, TotalCases: n.total}
}

func (c *plannedCase) caseInfo() CaseInfo {
	return CaseInfo{ID: c.ID, Prompt: c.Prompt, Tags: append([]string{}, c.Tags...), ExpectedFail: c.ExpectedFail}
}

// startRun reports the start of the run, and prints what the suite logged while it was
// loaded.
func (n *notifier) startRun(p *plan) {
	e := Event{Hook: OnSuiteStart, StartedAt: p.startedAt}
	for _, c := range p.cases {
		e.Cases = append(e.Cases, c.caseInfo())
	}
	for _, r := range p.runners {
		e.Runners = append(e.Runners, r.info)
	}
	n.sendEvent(e)
	if f, ok := p.suite.(fileSuite); ok {
		n.printConsole("", f.Logs)
	}
}

// startExecution reports the start of an execution, and of its case before the first one.
func (n *notifier) startExecution(e *execution) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !e.c.begun {
		e.c.begun = true
		n.sendEventLocked(n.caseEvent(OnCaseStart, e.c))
	}
	start := n.caseEvent(OnRunnerStart, e.c)
	start.Runner = &e.runner.info
	n.sendEventLocked(start)
}

// A consoleReporter can print what suites log. showConsole reports whether it did.
type consoleReporter interface {
	showConsole(lines []byte) bool
}

// printConsole prints what the code of a suite logged, each line with the name of its
// execution: by the reporters that can, else as a note.
func (n *notifier) printConsole(name string, logs []suite.Log) {
	if len(logs) == 0 {
		return
	}
	lines := consoleLines(name, logs)
	shown := false
	for _, r := range n.reporters {
		if c, ok := r.(consoleReporter); ok && c.showConsole(lines) {
			shown = true
		}
	}
	if !shown {
		n.note("%s", strings.TrimSuffix(string(lines), "\n"))
	}
}

// consoleLines formats logs, each line after the name.
func consoleLines(name string, logs []suite.Log) []byte {
	if name != "" {
		name = oneLine(name) + ": "
	}
	var b bytes.Buffer
	for _, l := range logs {
		for line := range strings.SplitSeq(strings.TrimSuffix(l.Text, "\n"), "\n") {
			fmt.Fprintf(&b, "%s%s\n", name, PlainText(line))
		}
	}
	return b.Bytes()
}

// showConsole prints lines above the live view.
func (s *standardReporter) showConsole(lines []byte) bool {
	s.updateView(string(lines), nil)
	return true
}

func (g *githubReporter) showConsole(lines []byte) bool { return g.standard.showConsole(lines) }

func (h *htmlReporter) showConsole(lines []byte) bool {
	return h.standard != nil && h.standard.showConsole(lines)
}
