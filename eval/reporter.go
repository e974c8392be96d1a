package eval

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
)

// A Reporter gets the events of a run, one at a time. An error that it returns is noted
// and does not stop the run.
type Reporter interface {
	Report(e Event) error
}

// A Hook names an event as reporter modules do.
type Hook string

// Hooks.
const (
	OnSuiteStart   Hook = "onSuiteStart"
	OnCaseStart    Hook = "onCaseStart"
	OnRunnerStart  Hook = "onRunnerStart"
	OnRunnerFinish Hook = "onRunnerFinish"
	OnCaseFinish   Hook = "onCaseFinish"
	OnSuiteFinish  Hook = "onSuiteFinish"
	OnError        Hook = "onError"
)

// An Event is something that happened in a run. Which fields are set depends on
// the hook.
type Event struct {
	Hook       Hook             `json:"-"`
	Context    *Context         `json:"context"`
	Cases      []CaseInfo       `json:"cases,omitempty"`   // of onSuiteStart
	Runners    []session.Runner `json:"runners,omitempty"` // of onSuiteStart
	StartedAt  string           `json:"startedAt,omitempty"`
	Case       *CaseInfo        `json:"case,omitempty"`
	Runner     *session.Runner  `json:"runner,omitempty"`
	CaseIndex  int              `json:"caseIndex,omitempty"` // from 1
	TotalCases int              `json:"totalCases,omitempty"`
	Result     any              `json:"result,omitempty"` // *ExecutionResult, *CaseResult or *Result
	Error      *ErrorInfo       `json:"error,omitempty"`
}

// A CaseInfo is a case as reporters see it.
type CaseInfo struct {
	ID           string   `json:"id"`
	Prompt       string   `json:"prompt"`
	Tags         []string `json:"tags"`
	ExpectedFail bool     `json:"expectedFail,omitempty"`
}

// A Context describes a run to reporters.
type Context struct {
	IsInteractive          bool     `json:"isInteractive"`
	Cwd                    string   `json:"cwd"`
	WorkspaceMode          string   `json:"workspaceMode"`
	SuitePath              string   `json:"suitePath"`
	ArtifactDir            string   `json:"suiteRunArtifactDir"`
	SelectedCaseCount      int      `json:"selectedCaseCount"`
	SelectedRunnerCount    int      `json:"selectedRunnerCount"`
	SelectedExecutionCount int      `json:"selectedExecutionCount"`
	Repeat                 int      `json:"repeat"`
	ScheduleMode           Schedule `json:"scheduleMode"`
	MaxParallel            int      `json:"maxParallel"`
	CaseFilter             string   `json:"caseFilter,omitempty"`
	RunnerFilter           string   `json:"runnerFilter,omitempty"`
	TagFilter              []string `json:"tagFilter,omitempty"`
	DeclaredTags           []string `json:"declaredTags"`

	// What Croft adds.
	Provider string   `json:"provider"`
	Notices  []string `json:"notices,omitempty"`
	Done     int      `json:"done,omitempty"` // executions that were done before the run was resumed

	worksInCwd bool // agents work in place, in Cwd
}

// ReporterNames are the built-in reporters.
var ReporterNames = suite.Reporters

// A ReporterConfig says how a built-in reporter writes.
type ReporterConfig struct {
	Out         io.Writer // the report
	File        bool      // Out is a file with only this report
	Interactive bool      // Out is a terminal
	Colour      bool      // Out shows colours
	Width       int       // of the terminal; 0 is 80
	Summary     string    // file of GitHub's job summary; "" for none
}

// NewReporter returns a built-in reporter.
func NewReporter(name string, cfg ReporterConfig) (Reporter, error) {
	switch name {
	case "", "standard":
		return newStandard(cfg), nil
	case "json":
		return finalReporter(func(r *Result) error { return copyResults(cfg.Out, r) }), nil
	case "json-summary":
		return finalReporter(func(r *Result) error { return writeSummary(cfg.Out, r) }), nil
	case "github-actions":
		return &githubReporter{standard: newStandard(ReporterConfig{Out: githubLog{cfg.Out}}), out: cfg.Out, summary: cfg.Summary}, nil
	case "html":
		if cfg.File {
			return &htmlReporter{file: cfg.Out}, nil
		}
		return &htmlReporter{standard: newStandard(cfg)}, nil
	case "junit":
		return finalReporter(func(r *Result) error { return writeJUnit(cfg.Out, r) }), nil
	case "markdown":
		return finalReporter(func(r *Result) error {
			var b bytes.Buffer
			writeMarkdown(&b, r, 0)
			_, err := cfg.Out.Write(b.Bytes())
			return err
		}), nil
	}
	return nil, fmt.Errorf("eval: reporter %q: %w: expected one of %s, or the path of a module", name, fault.InvalidArgument, strings.Join(ReporterNames, ", "))
}
