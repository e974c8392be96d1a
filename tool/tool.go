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

// A Family groups related tools.
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
	Extra    Family = "extra" // tools of extra capabilities
)

// A Spec describes a tool.
type Spec struct {
	Name        string
	Family      Family
	Description string
	Needs       []workspace.Capability // that a workspace must have

	ReadOnly    bool // changes nothing
	Destructive bool // may lose data that can't be recovered
	Idempotent  bool // repeating it with the same arguments has no further effect
	OpenWorld   bool // reaches beyond the workspace

	// TextOnly marks a tool whose text is nearly all of its data. A server that would send
	// both the text and the data sends the text and Result.DataOnly.
	TextOnly bool

	// Aliases are other names of arguments, which models know from other tools. "" drops the
	// argument.
	Aliases map[string]string

	Program    string // that the tool runs and can't do without; "" is none
	FanOut     bool   // takes workspace "all"
	BuiltIn    bool   // with Family Extra: of a Source of Croft, not of a provider
	Unscrubbed bool   // the answer may contain secrets, and is not scrubbed
}

// A Tool is one operation that an agent may call.
type Tool struct {
	Spec
	Input  *jsonschema.Schema // an object with "workspace"
	Output *jsonschema.Schema // of Result.Structured; may be nil

	// Arguments has the kind of each argument, by its name, for approval rules and audit
	// events. A nested argument has a dotted name, such as "inputs.from". It is nil for a
	// tool of a provider that does not declare kinds: then approval rules are checked
	// against each string in the arguments.
	Arguments map[string]driver.ArgumentKind

	args     arguments
	decode   func(args map[string]json.RawMessage) (in any, err error) // with an error, in is decoded in part
	subjects func(in any) []subject
	call     func(ctx context.Context, c *Call, in any) (answer, error)
}

// A Texter is an answer with a text for the model. Other answers are shown as JSON.
type Texter interface{ Text() string }

// answer is the return value of a tool's function: a value or, for a tool of the
// workspace's own sources, encoded data.
type answer struct {
	text       string
	texter     bool // text is set; else the data is the text
	value      any
	structured json.RawMessage
	image      *Image
}

// New makes a tool of a function. It panics if In or Out have no schema, since that is a
// bug.
func New[In, Out any](spec Spec, f func(ctx context.Context, c *Call, in In) (Out, error)) *Tool {
	t := &Tool{Spec: spec, Input: inputSchema[In](spec), Output: outputSchema[Out](spec)}
	if _, ok := any(*new(Out)).(contentSplitter); ok != spec.TextOnly {
		panic(fmt.Errorf("tool: %s: TextOnly needs an answer with the method splitContent", spec.Name))
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
		if has, ok := any(out).(interface{ answerImage() *Image }); ok {
			a.image = has.answerImage()
		}
		return a, nil
	}
	return t
}

// Message is an answer that is only a text.
type Message struct {
	Message string `json:"message"`
}

// Text returns the message.
func (m Message) Text() string { return m.Message }
