package driver

import (
	"context"
	"time"
)

// An Interpreter is the module that runs code: with contexts that keep state between
// runs (Workspace.Code), or in an isolate that is discarded after each run
// (Workspace.Script). The functions for contexts are all set or all nil.
type Interpreter struct {
	Coder

	// Languages are the languages that it runs, the default first. OtherLanguages as
	// the last element means that there may be more, which are known only when
	// requested.
	Languages []string

	// CreateContext creates a context, which keeps state until it is deleted.
	CreateContext func(ctx context.Context, language string, opts *ContextOptions) (CodeContext, error)

	// Contexts lists the contexts.
	Contexts func(ctx context.Context) ([]CodeContext, error)

	// Restart gives a context a fresh state.
	Restart func(ctx context.Context, id string) error

	// Interrupt stops the code that a context runs, and keeps the state of the
	// context.
	Interrupt func(ctx context.Context, id string) error

	// DeleteContext removes a context.
	DeleteContext func(ctx context.Context, id string) error
}

// OtherLanguages is the last element of a list of languages that is not complete.
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
	Language string // "" is the language of the context, or the first of Languages
	Source   string
	Context  string            // id of a context; "" is a new one
	Dir      string            // working directory of a new context; "" is the workspace
	Env      map[string]string // environment of a new context
	Timeout  time.Duration     // interrupts the code; 0 is the default of the provider

	// OnOutput is called with each output as it arrives; the code waits while
	// OnOutput runs. Errors of OnOutput are in CodeResult.CallbackErrors.
	OnOutput func(Output) error
}

// ContextOptions are the options of CreateContext.
type ContextOptions struct {
	Dir string
	Env map[string]string

	// Labels are those of the session that keeps the state, where one does.
	Labels map[string]string
}

// ContextLabel is the label of the session that keeps the state of a context, with the id of the
// context.
const ContextLabel = "croft.context"

// CodeContext describes a context.
type CodeContext struct {
	ID       string    `json:"id"`
	Language string    `json:"language"`
	Dir      string    `json:"dir,omitempty"`
	Created  time.Time `json:"created"`
}

// CodeResult says how code ran.
type CodeResult struct {
	Outputs  []Output      `json:"outputs"` // in the order in which they arrived
	ExitCode int           `json:"exitCode"`
	Error    *CodeError    `json:"error,omitempty"`
	Cause    Cause         `json:"cause,omitempty"`
	Count    int           `json:"executionCount,omitempty"`
	Duration time.Duration `json:"duration"`
	Dropped  int64         `json:"dropped,omitempty"` // bytes of output left out

	CallbackErrors []string `json:"callbackErrors,omitempty"`
}

// An Output is one piece of output of code.
type Output struct {
	Kind OutputKind        `json:"kind"`
	Text string            `json:"text,omitempty"` // of stdout and stderr
	Data map[string][]byte `json:"data,omitempty"` // of display and result, by MIME type
}

// OutputKind is the kind of an output.
type OutputKind string

// Kinds of output.
const (
	OutputStdout  OutputKind = "stdout"
	OutputStderr  OutputKind = "stderr"
	OutputDisplay OutputKind = "display" // shown by the code, such as a chart
	OutputResult  OutputKind = "result"  // the value of the last expression
)

// A CodeError is an exception that code did not catch.
type CodeError struct {
	Name      string   `json:"name"`
	Value     string   `json:"value"`
	Traceback []string `json:"traceback,omitempty"`
}
