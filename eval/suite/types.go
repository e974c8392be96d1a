package suite

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// A Case is one task for an agent, and how to judge what it did.
type Case struct {
	ID           string
	Prompt       string
	Tags         []string      // each once, in the order of the file
	Timeout      time.Duration // 0: the configuration's
	ExpectedFail bool          // an assertion that fails is the wanted outcome
	HasClassify  bool          // it has classifyFailure: see [Suite.Classify]
}

// The modes of a workspace.
const (
	ModeNone     = "none"     // run in an existing directory
	ModeShared   = "shared"   // skillgym 0.8: run in an existing directory; 0.9: one prepared for the whole run
	ModeIsolated = "isolated" // a fresh one for each execution
)

// A Workspace says where agents work. Its paths are absolute.
type Workspace struct {
	Mode        string     `json:"mode"`
	Cwd         string     `json:"cwd,omitempty"`
	TemplateDir string     `json:"templateDir,omitempty"`
	Bootstrap   *Bootstrap `json:"bootstrap,omitempty"`
}

// InPlace reports whether agents work in an existing directory: with none, and
// with shared as skillgym 0.8 means it, which names no template and no bootstrap.
func (w *Workspace) InPlace() bool {
	return w.Mode == ModeNone || w.Mode == ModeShared && w.TemplateDir == "" && w.Bootstrap == nil
}

// A Bootstrap is the command that prepares a workspace before an agent starts. What
// of it looked like a path is absolute.
type Bootstrap struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Timeout time.Duration     `json:"-"` // 0: that of the case
	Env     map[string]string `json:"env,omitempty"`
}

// The origins of what an assertion ends with.
const (
	OriginAssertion = "assertion"   // an AssertionError: what was expected did not hold
	OriginHook      = "assert-hook" // anything else that it threw
)

// An Outcome is how an assertion ended.
type Outcome struct {
	Passed    bool          `json:"passed"`
	Error     *ErrorInfo    `json:"error,omitempty"`
	Origin    string        `json:"origin,omitempty"`    // of Error
	Class     *FailureClass `json:"class,omitempty"`     // what assert.classify says; nil where it said nothing
	Soft      []ErrorInfo   `json:"soft,omitempty"`      // each soft failure, in order; Error sums them up
	Questions []Question    `json:"questions,omitempty"` // what the agent may be asked about the failure
	Logs      []Log         `json:"logs,omitempty"`      // what the assertion wrote to its console
	Judged    []Judgement   `json:"judged,omitempty"`    // what judges answered, also where it passed
}

// ErrorInfo is an error of a suite.
type ErrorInfo struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"` // in the form of Node's, with places of the source
	Frame   *Frame `json:"frame,omitempty"` // the innermost place in the suite
}

// A Frame is a place in a source file.
type Frame struct {
	File   string `json:"file"` // absolute path
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// A FailureClass groups failures that are alike.
type FailureClass struct {
	ID    string `json:"id"`
	Label string `json:"label,omitempty"`
}

// A Question is what to ask an agent about an assertion that failed.
type Question struct {
	Question string   `json:"question"`
	Source   Location `json:"source"`
}

// A Location is a frame as skillgym writes it in explain.json: a URL, and numbers
// as text.
type Location struct {
	FilePath string `json:"filePath"`
	Line     string `json:"line"`
	Column   string `json:"column"`
}

// A Log is one line that a suite wrote to its console.
type Log struct {
	Level string `json:"level"` // log, info, debug, warn or error
	Text  string `json:"text"`
}

// An AssertEnv is what assertions know of the execution beyond its report. Its
// methods are called from any goroutine, and not after Assert returned.
//
// Names of files are slash paths relative to the workspace. A name that leaves it
// is a SandboxViolation, one that is not there NotFound.
type AssertEnv interface {
	// Info describes the execution.
	Info() EnvInfo
	// ReadFile returns the content of a file.
	ReadFile(ctx context.Context, name string) ([]byte, error)
	// Stat describes a file.
	Stat(ctx context.Context, name string) (FileInfo, error)
	// Changes lists what differs from the workspace that the agent was given, sorted
	// by path.
	Changes(ctx context.Context) ([]Change, error)
	// Diff returns the difference to the workspace that the agent was given, as
	// unified text: of all files, or of those at and below the paths.
	Diff(ctx context.Context, paths []string) (string, error)
	// Run runs a command in the workspace. An exit status that is not zero is a
	// result.
	Run(ctx context.Context, cmd Command) (CommandResult, error)
	// Judge asks a model.
	Judge(ctx context.Context, q Judge) (Judgement, error)
}

// Files are the files of a directory. Names are slash paths relative to it.
type Files interface {
	Stat(ctx context.Context, name string, opts *driver.StatOptions) (driver.Info, error)
	ReadDir(ctx context.Context, name string) ([]driver.Info, error)
	Read(ctx context.Context, name string, opts *driver.ReadOptions) (io.ReadCloser, driver.Info, error)
	Write(ctx context.Context, name string, body io.Reader, opts *driver.WriteOptions) (driver.WriteResult, error)
	Mkdir(ctx context.Context, name string, opts *driver.MkdirOptions) error
	Remove(ctx context.Context, name string, opts *driver.RemoveOptions) error
	Rename(ctx context.Context, from, to string, opts *driver.RenameOptions) error
}

// EnvInfo describes an execution.
type EnvInfo struct {
	CaseID      string
	RunnerID    string
	Workspace   string // path in the report and in workspace.json; "" without a workspace
	Root        string // path for programs in the workspace; "" is the same
	Files       Files  // what node:fs finds at these paths; nil are the host's files
	OutputDir   string // of the run
	ArtifactDir string
	Usage       Usage
}

// Usage is what an execution used, for assert.budget. A nil field is unknown, and
// an assertion on it fails saying so.
type Usage struct {
	DurationMs   *float64 `json:"durationMs,omitempty"`
	InputTokens  *float64 `json:"inputTokens,omitempty"`
	OutputTokens *float64 `json:"outputTokens,omitempty"`
	TotalTokens  *float64 `json:"totalTokens,omitempty"`
	CostUSD      *float64 `json:"costUsd,omitempty"`
	Steps        *float64 `json:"steps,omitempty"`
	ToolCalls    *float64 `json:"toolCalls,omitempty"`
	Commands     *float64 `json:"commands,omitempty"`
	PeakMemory   *float64 `json:"peakMemoryBytes,omitempty"`
	Requests     *float64 `json:"requests,omitempty"` // over the network
}

// FileInfo describes a file of a workspace.
type FileInfo struct {
	Size int64  `json:"size"`
	Mode uint32 `json:"mode"` // permission bits
	Dir  bool   `json:"dir"`
}

// The kinds of a change.
const (
	Added    = "added"
	Modified = "modified"
	Deleted  = "deleted"
)

// A Change is one file that an agent changed.
type Change struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// A Command is run in a workspace after the agent is done.
type Command struct {
	Argv    []string          // a program and its arguments; or
	Script  string            // for the shell
	Dir     string            // relative to the workspace
	Env     map[string]string // added
	Stdin   string
	Timeout time.Duration // 0: the environment's own
}

// CommandResult is how a command ended.
type CommandResult struct {
	ExitCode   int    `json:"exitCode"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	DurationMs int64  `json:"durationMs"`
	TimedOut   bool   `json:"timedOut"`
}

// A Judge is a question for a model.
type Judge struct {
	Rubric  string          `json:"rubric"`            // what must hold
	Subject string          `json:"subject,omitempty"` // what is judged; "" is the final output
	Files   []string        `json:"files,omitempty"`   // of the workspace, shown to the judge
	Diff    bool            `json:"diff,omitempty"`    // what the agent changed is shown, too
	Model   string          `json:"model,omitempty"`   // "" is the configuration's
	Report  json.RawMessage `json:"-"`
}

// A Judgement is what a judge answers.
type Judgement struct {
	Rubric string  `json:"rubric,omitempty"`
	Score  float64 `json:"score"` // from 0 to 1
	Pass   bool    `json:"pass"`
	Reason string  `json:"reason"`
	Model  string  `json:"model,omitempty"`
}
