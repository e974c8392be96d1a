package verify

import (
	"cmp"
	"slices"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// A Report is the result of a test run.
type Report struct {
	Language   string        `json:"language"`          // the ecosystem: "go", "node"
	Dir        string        `json:"dir"`               // of the project
	Runner     string        `json:"runner,omitempty"`  // "go test", "vitest", "pytest"; empty where it is not known
	Command    []string      `json:"command"`           // what ran
	Passed     int           `json:"passed"`            //
	Failed     int           `json:"failed"`            // failed tests and other failures, without those that are not finished
	Skipped    int           `json:"skipped,omitempty"` //
	Failures   []Failure     `json:"failures"`          //
	Structured bool          `json:"structured"`        // the runner's report was parsed
	ExitCode   int           `json:"exitCode"`          // the first nonzero one of several commands
	Cause      driver.Cause  `json:"cause,omitempty"`   // why it was ended, if it did not exit by itself
	Duration   time.Duration `json:"duration"`
	Finished   time.Time     `json:"finished"`
	Notes      []string      `json:"notes,omitempty"` // remarks for the reader

	// NotFinished counts the tests that had begun when the run was cut short. They are
	// among the failures, with KindCut.
	NotFinished int `json:"notFinished,omitempty"`

	// Missing are tests that a Rerun should have run and that the runner did not find.
	Missing []string `json:"missing,omitempty"`

	// NotRun are tests that a Rerun did not come to: it was cut short, or had a limit.
	NotRun []string `json:"notRun,omitempty"`

	Output

	open    []Failure // the failures of the earlier run behind Missing and NotRun
	assigns string    // what the command began with, as job.assigns
}

// OK reports whether all that should run ran and passed.
func (r *Report) OK() bool {
	return r.ExitCode == 0 && r.Cause == "" && len(r.Failures)+len(r.Missing)+len(r.NotRun) == 0
}

// unresolved returns what a Rerun of the report runs: the failures of the run, and those of
// the run before that it did not come to. The end of the run itself is none.
func (r *Report) unresolved() []Failure {
	list := slices.DeleteFunc(slices.Clone(r.Failures), func(f Failure) bool { return f.Kind == KindCut && f.Test == "" && f.Package == "" })
	return append(list, r.open...)
}

// Output is the output of a command; head and tail if it is long.
type Output struct {
	Stdout  string `json:"stdout,omitempty"`
	Stderr  string `json:"stderr,omitempty"`
	Dropped int64  `json:"dropped,omitempty"` // bytes that are not in Stdout and Stderr
	Session string `json:"session,omitempty"` // id whose log has the whole output: of a session, or for BashOutput alone
}

// Kind is the kind of a failure.
type Kind string

// Kinds of failures.
const (
	KindTest  Kind = "test"  // a test did not pass
	KindBuild Kind = "build" // code did not compile or load
	KindSetup Kind = "setup" // something around tests broke: a hook, a fixture, the runner
	KindCut   Kind = "cut"   // the run was cut short
)

// A Failure is one failed test or other failure of a run.
type Failure struct {
	Kind     Kind   `json:"kind"`
	Package  string `json:"package,omitempty"`  // container of the test: import path, crate target, class or file
	Test     string `json:"test,omitempty"`     // its name as the runner writes it
	File     string `json:"file,omitempty"`     // relative to the workspace where it is inside
	Line     int    `json:"line,omitempty"`     // 1-based
	Column   int    `json:"column,omitempty"`   // 1-based
	Message  string `json:"message,omitempty"`  //
	Expected string `json:"expected,omitempty"` //
	Actual   string `json:"actual,omitempty"`   //
	Diff     string `json:"diff,omitempty"`     // as the runner shows it, else "-" is expected and "+" is actual
	Output   string `json:"output,omitempty"`   // other output of the test

	// selector is the runner's name of the test, for a rerun.
	selector string
	again    []string // arguments that rerun its target, if the runner prints them
}

// Name returns the name of the test with its container.
func (f *Failure) Name() string {
	switch {
	case f.Test == "":
		return f.Package
	case f.Package == "":
		return f.Test
	default:
		return f.Package + "/" + f.Test
	}
}

// key identifies a failure among those of a project.
func (f *Failure) key() string { return cmp.Or(f.selector, f.Package+" "+f.Test+" "+f.File) }

// A Diagnostic is one finding of a linter, a type checker or a language server.
type Diagnostic struct {
	File     string   `json:"file"`             // relative to the workspace where it is inside
	Line     int      `json:"line,omitempty"`   // 1-based; 0 is the whole file
	Column   int      `json:"column,omitempty"` // 1-based; 0 is the whole line
	Severity Severity `json:"severity,omitempty"`
	Rule     string   `json:"rule,omitempty"`
	Message  string   `json:"message"`
}

// Severity is the severity of a finding.
type Severity string

// Severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Findings are the diagnostics of one command.
type Findings struct {
	Language    string        `json:"language"`
	Dir         string        `json:"dir"`
	Tool        string        `json:"tool,omitempty"` // "eslint"; empty where it is not known
	Command     []string      `json:"command"`
	Diagnostics []Diagnostic  `json:"diagnostics"`
	ExitCode    int           `json:"exitCode"`
	Cause       driver.Cause  `json:"cause,omitempty"`
	Duration    time.Duration `json:"duration"`
	Notes       []string      `json:"notes,omitempty"`
	Output
}

// OK reports whether the command ended well and found nothing.
func (f *Findings) OK() bool { return f.ExitCode == 0 && f.Cause == "" && len(f.Diagnostics) == 0 }

// Progress reports how far a run is.
type Progress struct {
	Done   int    // tests that ended
	Failed int    // failed tests
	Line   string // the last line, or the test that ended
}

// Options are the options of a run. nil is the zero value.
type Options struct {
	// Timeout ends the run; 0 is no limit but that of ctx and the workspace.
	Timeout time.Duration

	// Files restricts a run to these files, relative to the workspace; empty is the whole
	// project. A test run runs the tests that cover them.
	Files []string

	// Choice is what Files mean for the project, of Choose; nil to choose in the project alone.
	Choice *Choice

	// Command is the command line of a test run, instead of the project's. It runs in the
	// project's directory; its output is parsed if it starts a known runner without a shell.
	Command string

	// Limit is the number of failures that a Rerun runs at most; 0 is all. The others are in
	// Report.NotRun.
	Limit int

	// Coverage has the tests that cover files, as measured before. For other files the
	// imports decide.
	Coverage []*Coverage

	// MaxOutput bounds each stream in the report; 0 is DefaultMaxOutput. The session's log
	// has the whole.
	MaxOutput int

	// Progress is called during the run, one call at a time; the run waits for it.
	Progress func(Progress)
}

// DefaultMaxOutput bounds each stream of a report.
const DefaultMaxOutput = 64 << 10

func (o *Options) orZero() *Options {
	if o == nil {
		return new(Options)
	}
	return o
}
