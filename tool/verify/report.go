package verify

import (
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// A Report says how a run of tests went.
type Report struct {
	Language   string        `json:"language"`          // the ecosystem: "go", "node"
	Dir        string        `json:"dir"`               // of the project
	Runner     string        `json:"runner,omitempty"`  // "go test", "vitest", "pytest"; empty where it is not known
	Command    []string      `json:"command"`           // what ran
	Passed     int           `json:"passed"`            //
	Failed     int           `json:"failed"`            // tests that failed, and all else that kept tests from running
	Skipped    int           `json:"skipped,omitempty"` //
	Failures   []Failure     `json:"failures"`          //
	Structured bool          `json:"structured"`        // whether the runner's own report was understood
	ExitCode   int           `json:"exitCode"`          // the first that is not 0 where several commands ran
	Cause      driver.Cause  `json:"cause,omitempty"`   // why it ended other than by itself
	Duration   time.Duration `json:"duration"`
	Finished   time.Time     `json:"finished"`
	Notes      []string      `json:"notes,omitempty"` // what whoever reads this should know

	// Missing are failures that a Rerun was to run again and that did not run.
	Missing []string `json:"missing,omitempty"`

	Output
}

// OK reports whether all that ran passed.
func (r *Report) OK() bool { return r.ExitCode == 0 && r.Cause == "" && len(r.Failures) == 0 }

// Output is what a command wrote, as people read it: head and tail where it was
// long.
type Output struct {
	Stdout  string `json:"stdout,omitempty"`
	Stderr  string `json:"stderr,omitempty"`
	Dropped int64  `json:"dropped,omitempty"` // bytes that are not in Stdout and Stderr
	Session string `json:"session,omitempty"` // whose log has the whole
}

// Kind says what sort of failure it is.
type Kind string

// Kinds of failures.
const (
	KindTest  Kind = "test"  // a test did not pass
	KindBuild Kind = "build" // code did not compile or load
	KindSetup Kind = "setup" // something around tests broke: a hook, a fixture, the runner
	KindCut   Kind = "cut"   // the run was cut short
)

// A Failure is one thing that went wrong.
type Failure struct {
	Kind     Kind   `json:"kind"`
	Package  string `json:"package,omitempty"`  // what holds the test: an import path, a crate's target, a class, a file
	Test     string `json:"test,omitempty"`     // its name as the runner writes it
	File     string `json:"file,omitempty"`     // relative to the workspace where it is inside
	Line     int    `json:"line,omitempty"`     // 1-based
	Column   int    `json:"column,omitempty"`   // 1-based
	Message  string `json:"message,omitempty"`  //
	Expected string `json:"expected,omitempty"` //
	Actual   string `json:"actual,omitempty"`   //
	Diff     string `json:"diff,omitempty"`     // as the runner shows it, else "-" is expected and "+" is actual
	Output   string `json:"output,omitempty"`   // what else the test wrote

	// selector is how the runner is told to run it again.
	selector string
	again    []string // arguments that run what holds it, where the runner names them
}

// Name returns the test with what holds it, as it is listed.
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

// A Diagnostic is one finding of a linter, a type checker or a language server.
type Diagnostic struct {
	File     string   `json:"file"`             // relative to the workspace where it is inside
	Line     int      `json:"line,omitempty"`   // 1-based; 0 is the whole file
	Column   int      `json:"column,omitempty"` // 1-based; 0 is the whole line
	Severity Severity `json:"severity,omitempty"`
	Rule     string   `json:"rule,omitempty"`
	Message  string   `json:"message"`
}

// Severity says how bad a finding is.
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

// Progress tells how far a run is.
type Progress struct {
	Done   int    // tests that ended
	Failed int    // of these
	Line   string // the last line, or the test that ended
}

// Options say how to run. nil is the zero value.
type Options struct {
	// Timeout ends the run; 0 is no limit but that of ctx and the workspace.
	Timeout time.Duration

	// Files narrows a run to what these files, relative to the workspace, are
	// about; empty is the whole project.
	Files []string

	// MaxOutput bounds each stream in the report; 0 is DefaultMaxOutput. The
	// session's log has the whole.
	MaxOutput int

	// Progress is called as the run goes on, one call at a time; the run waits
	// while it is called.
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
