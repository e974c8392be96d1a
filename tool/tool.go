package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Family groups tools that belong together.
type Family string

// The families.
const (
	Files    Family = "files"
	Search   Family = "search"
	Shell    Family = "shell"
	Verify   Family = "verify"
	LSP      Family = "lsp"
	AST      Family = "ast"
	Render   Family = "render"
	Secrets  Family = "secrets"
	Project  Family = "project"
	Code     Family = "code"
	Snapshot Family = "snapshot"
	Extra    Family = "extra" // of a capability that the core does not know
)

// A Spec says what a tool is.
type Spec struct {
	Name        string
	Family      Family
	Description string
	Needs       []workspace.Capability // that a workspace must have; empty is none

	ReadOnly    bool // changes nothing
	Destructive bool // may lose what can't be got back
	Idempotent  bool // again with the same arguments is once
	OpenWorld   bool // reaches beyond the workspace

	// TextOnly is a tool whose text is nearly all of its data. Who would send both
	// sends the text, once, and Result.Beside with it.
	TextOnly bool

	FanOut     bool // takes workspace "all"
	Unscrubbed bool // its answer is a secret that was asked for
}

// A Tool is one operation that an agent may call.
type Tool struct {
	Spec
	Input  *jsonschema.Schema // an object with "workspace"
	Output *jsonschema.Schema // of Result.Structured; nil is none

	// Arguments says what arguments are to rules of approval and to the audit, by
	// name; within an object or a list of them as in "inputs.from". Nil is a tool of
	// a workspace that does not say: each of its strings is asked about.
	Arguments map[string]driver.ArgumentKind

	args     arguments
	decode   func(args map[string]json.RawMessage) (in any, err error) // with an error, in as far as it goes
	subjects func(in any) []subject
	call     func(ctx context.Context, c *Call, in any) (answer, error)
}

// A Texter is an answer that has a form for the model. One that is not is shown
// as JSON.
type Texter interface{ Text() string }

// answer is what the function of a tool returned: a value, or for a tool of the
// workspace itself data that is encoded already.
type answer struct {
	text       string
	texter     bool // text is the answer's own; else it is the data
	value      any
	structured json.RawMessage
}

// New makes a tool of a function. It panics where In or Out have no schema, since
// that is a mistake of the program.
func New[In, Out any](spec Spec, f func(ctx context.Context, c *Call, in In) (Out, error)) *Tool {
	t := &Tool{Spec: spec, Input: inputSchema[In](spec), Output: outputSchema[Out](spec)}
	if _, ok := any(*new(Out)).(contentSplitter); ok != spec.TextOnly {
		panic(fmt.Errorf("tool: %s: TextOnly is for answers that can be divided", spec.Name))
	}
	t.args = newArguments(reflect.TypeFor[In](), t.Input)
	t.Arguments = map[string]driver.ArgumentKind{}
	addKinds(t.Arguments, "", reflect.TypeFor[In]())
	t.decode = func(args map[string]json.RawMessage) (any, error) {
		var in In
		err := t.args.decode(args, reflect.ValueOf(&in).Elem())
		return in, err
	}
	t.subjects = func(in any) []subject { return fieldSubjects(nil, reflect.ValueOf(in)) }
	t.call = func(ctx context.Context, c *Call, in any) (answer, error) {
		out, err := f(ctx, c, in.(In))
		if err != nil {
			return answer{}, err
		}
		a := answer{value: out}
		if texter, ok := any(out).(Texter); ok {
			a.text, a.texter = texter.Text(), true
		}
		return a, nil
	}
	return t
}

// Message is an answer that is a text and nothing else.
type Message struct {
	Message string `json:"message"`
}

// Text returns the message.
func (m Message) Text() string { return m.Message }
