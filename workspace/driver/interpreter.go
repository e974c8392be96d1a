package driver

import (
	"context"
	"time"
)

// An Interpreter is the module that runs code: with contexts that keep state
// between runs (Workspace.Code), or in an isolate thrown away after each
// (Workspace.Script). The functions for contexts are all set or all nil.
type Interpreter struct {
	Coder

	// Languages are those that it runs, the default first. OtherLanguages as the
	// last says that there may be more, which are only known when asked for.
	Languages []string

	// CreateContext makes a context, which keeps state until it is deleted.
	CreateContext func(ctx context.Context, language string, opts *ContextOptions) (CodeContext, error)

	// Contexts lists them.
	Contexts func(ctx context.Context) ([]CodeContext, error)

	// Restart gives a context a fresh state.
	Restart func(ctx context.Context, id string) error

	// Interrupt stops what a context runs, and keeps its state.
	Interrupt func(ctx context.Context, id string) error

	// DeleteContext ends a context.
	DeleteContext func(ctx context.Context, id string) error
}

// OtherLanguages ends a list of languages that is not complete.
const OtherLanguages = "*"

func (i *Interpreter) core() any {
	if i == nil {
		return nil
	}
	return i.Coder
}

// Stateful reports whether contexts keep state.
func (i *Interpreter) Stateful() bool { return i != nil && i.CreateContext != nil }

// A Coder runs code.
type Coder interface {
	// RunCode runs code. An exception in the code is a result, not an error.
	RunCode(ctx context.Context, code Code) (CodeResult, error)
}

// Code is a piece of code to run.
type Code struct {
	Language string            // "" is the context's, or the first of Languages
	Source   string            //
	Context  string            // id of a context; "" is a fresh one
	Dir      string            // working directory of a fresh one; "" is the workspace
	Env      map[string]string // of a fresh one
	Timeout  time.Duration     // interrupts; 0 is the provider's default

	// OnOutput is called with each output as it comes; the code waits while it
	// runs. What it returns is in CodeResult.CallbackErrors.
	OnOutput func(Output) error
}

// ContextOptions are the options of CreateContext.
type ContextOptions struct {
	Dir string
	Env map[string]string
}

// CodeContext describes a context.
type CodeContext struct {
	ID       string    `json:"id"`
	Language string    `json:"language"`
	Dir      string    `json:"dir,omitempty"`
	Created  time.Time `json:"created"`
}

// CodeResult says how code ran.
type CodeResult struct {
	Outputs  []Output      `json:"outputs"` // in the order in which they came
	ExitCode int           `json:"exitCode"`
	Error    *CodeError    `json:"error,omitempty"`
	Cause    Cause         `json:"cause,omitempty"`
	Count    int           `json:"executionCount,omitempty"`
	Duration time.Duration `json:"duration"`
	Dropped  int64         `json:"dropped,omitempty"` // bytes of output left out

	CallbackErrors []string `json:"callbackErrors,omitempty"`
}

// An Output is one thing that code put out.
type Output struct {
	Kind OutputKind        `json:"kind"`
	Text string            `json:"text,omitempty"` // of stdout and stderr
	Data map[string][]byte `json:"data,omitempty"` // of display and result, by MIME type
}

// OutputKind says what an output is.
type OutputKind string

// Kinds of output.
const (
	OutputStdout  OutputKind = "stdout"
	OutputStderr  OutputKind = "stderr"
	OutputDisplay OutputKind = "display" // shown by the code: a plot
	OutputResult  OutputKind = "result"  // the value of the last expression
)

// A CodeError is an exception that code did not catch.
type CodeError struct {
	Name      string   `json:"name"`
	Value     string   `json:"value"`
	Traceback []string `json:"traceback,omitempty"`
}
