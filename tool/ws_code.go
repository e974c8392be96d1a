package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

var (
	codeOnly   = []workspace.Capability{driver.CapCode}
	scriptOnly = []workspace.Capability{driver.CapScript}
)

type wsRunCodeInput struct {
	Code      string            `json:"code" jsonschema:"code to run"`
	Language  string            `json:"language,omitempty" jsonschema:"default python, or the language of the context"`
	ContextID string            `json:"context_id,omitempty" jsonschema:"context from workspace_create_context, which keeps state between runs; default a new one"`
	Cwd       string            `json:"cwd,omitempty" jsonschema:"working directory, without a context; default the workspace" croft:"path"`
	Env       map[string]string `json:"env,omitempty" jsonschema:"additional environment variables, without a context"`
	TimeoutMS int64             `json:"timeout_ms,omitempty" jsonschema:"time limit in milliseconds; default 120000"`
}

type wsRunScriptInput struct {
	Code      string            `json:"code" jsonschema:"code to run; the last value is the result. Available are console, fs (readFileSync, writeFileSync, ...), top-level await and timers; there is no network"`
	Language  string            `json:"language,omitempty" jsonschema:"javascript or typescript; default javascript"`
	Cwd       string            `json:"cwd,omitempty" jsonschema:"base of relative paths; default the workspace" croft:"path"`
	Env       map[string]string `json:"env,omitempty" jsonschema:"content of process.env"`
	TimeoutMS int64             `json:"timeout_ms,omitempty" jsonschema:"time limit in milliseconds; default 10000"`
}

// codeOutput is the output of code, in order.
type codeOutput struct {
	Outputs    []codePart `json:"outputs"`
	ExitCode   int        `json:"exit_code"`
	Error      *codeError `json:"error,omitempty" jsonschema:"the exception that ended it"`
	Cause      string     `json:"cause,omitempty" jsonschema:"why it was ended, if it did not end by itself: timeout, oom, lost, ..."`
	DurationMS int64      `json:"duration_ms"`
	Dropped    int64      `json:"dropped,omitempty" jsonschema:"bytes of output that were dropped"`
}

type codePart struct {
	Kind string            `json:"kind" jsonschema:"stdout, stderr, display or result"`
	Text string            `json:"text,omitempty" jsonschema:"text of stdout and stderr, plain text of other kinds"`
	Data map[string][]byte `json:"data,omitempty" jsonschema:"other forms by MIME type, in base64"`
}

type codeError struct {
	Name      string   `json:"name"`
	Value     string   `json:"value"`
	Traceback []string `json:"traceback,omitempty"`
}

func newCodeOutput(res driver.CodeResult) codeOutput {
	out := codeOutput{Outputs: []codePart{}, ExitCode: res.ExitCode, Cause: string(res.Cause), DurationMS: res.Duration.Milliseconds(), Dropped: res.Dropped}
	for _, o := range res.Outputs {
		part := codePart{Kind: string(o.Kind), Text: o.Text}
		for mime, data := range o.Data {
			if mime == "text/plain" {
				part.Text = string(data)
				continue
			}
			if part.Data == nil {
				part.Data = map[string][]byte{}
			}
			part.Data[mime] = data
		}
		out.Outputs = append(out.Outputs, part)
	}
	if e := res.Error; e != nil {
		out.Error = &codeError{Name: e.Name, Value: e.Value, Traceback: e.Traceback}
	}
	return out
}

func (o codeOutput) Text() string {
	var b strings.Builder
	for _, p := range o.Outputs {
		text := strings.TrimSuffix(p.Text, "\n")
		switch {
		case p.Kind == string(driver.OutputStdout):
			fmt.Fprintf(&b, "%s\n", text)
		default:
			fmt.Fprintf(&b, "%s: %s\n", p.Kind, text)
		}
		for _, mime := range slices.Sorted(maps.Keys(p.Data)) {
			fmt.Fprintf(&b, "(%s: %d bytes)\n", mime, len(p.Data[mime]))
		}
	}
	if o.Error != nil {
		fmt.Fprintf(&b, "%s: %s\n", o.Error.Name, o.Error.Value)
		if len(o.Error.Traceback) > 0 {
			fmt.Fprintf(&b, "%s\n", strings.Join(o.Error.Traceback, "\n"))
		}
	}
	if o.Cause != "" {
		fmt.Fprintf(&b, "cause=%s\n", o.Cause)
	}
	if o.Dropped > 0 {
		fmt.Fprintf(&b, "dropped=%d bytes of output\n", o.Dropped)
	}
	if b.Len() == 0 {
		return "(no output)\n"
	}
	return b.String()
}

func wsRunCodeTool() *Tool {
	return New(Spec{
		Name: "workspace_run_code", Family: Code, Needs: codeOnly, Destructive: true, OpenWorld: true,
		Description: "Run code in a Jupyter kernel inside the workspace, with its isolation. Returns outputs, displays, the last value, or the exception. With context_id it has the state of earlier runs in that context.",
	}, func(ctx context.Context, c *Call, in wsRunCodeInput) (codeOutput, error) {
		limit, err := codeTime(in.Code, in.TimeoutMS)
		if err != nil {
			return codeOutput{}, err
		}
		return newCodeResult(c.Workspace.RunCode(ctx, driver.Code{Language: in.Language, Source: in.Code, Context: in.ContextID, Dir: in.Cwd, Env: in.Env, Timeout: limit}))
	})
}

func wsRunScriptTool() *Tool {
	return New(Spec{
		Name: "workspace_run_script", Family: Code, Needs: scriptOnly, Destructive: true,
		Description: "Run JavaScript or TypeScript over the files of the workspace, in an isolate without network or processes. It starts in a millisecond and suits many small reads and edits in one call.",
	}, func(ctx context.Context, c *Call, in wsRunScriptInput) (codeOutput, error) {
		limit, err := codeTime(in.Code, in.TimeoutMS)
		if err != nil {
			return codeOutput{}, err
		}
		return newCodeResult(c.Workspace.RunScript(ctx, driver.Code{Language: in.Language, Source: in.Code, Dir: in.Cwd, Env: in.Env, Timeout: limit}))
	})
}

func codeTime(code string, ms int64) (time.Duration, error) {
	if err := requireArgument("code", code); err != nil {
		return 0, err
	}
	limit := time.Duration(ms) * time.Millisecond
	if limit < 0 || limit > maxRunTime {
		return 0, Errorf(fault.InvalidArgument, "timeout_ms must be between 1 and %d", maxRunTime.Milliseconds())
	}
	return limit, nil
}

func newCodeResult(res driver.CodeResult, err error) (codeOutput, error) {
	if err == nil && res.Cause == driver.CauseCanceled {
		err = fmt.Errorf("run code: %w", fault.Canceled)
	}
	if err != nil {
		return codeOutput{}, err
	}
	return newCodeOutput(res), nil
}

type wsCreateContextInput struct {
	Language string            `json:"language,omitempty" jsonschema:"default python; any language with an installed Jupyter kernel"`
	Cwd      string            `json:"cwd,omitempty" jsonschema:"working directory; default the workspace" croft:"path"`
	Env      map[string]string `json:"env,omitempty" jsonschema:"additional environment variables"`
}

type wsContextOutput struct {
	ContextID string `json:"context_id"`
	Language  string `json:"language,omitempty"`
	Deleted   bool   `json:"deleted,omitempty"`
}

func (o wsContextOutput) Text() string {
	if o.Deleted {
		return "deleted " + o.ContextID + "\n"
	}
	return fmt.Sprintf("context_id: %s\nlanguage: %s\n", o.ContextID, o.Language)
}

func wsCreateContextTool() *Tool {
	return New(Spec{
		Name: "workspace_create_context", Family: Code, Needs: codeOnly, OpenWorld: true,
		Description: "Create a context for workspace_run_code. It keeps variables and imports between runs until it is deleted or unused for long.",
	}, func(ctx context.Context, c *Call, in wsCreateContextInput) (wsContextOutput, error) {
		made, err := c.Workspace.CreateContext(ctx, in.Language, &driver.ContextOptions{Dir: in.Cwd, Env: in.Env})
		if err != nil {
			return wsContextOutput{}, err
		}
		return wsContextOutput{ContextID: made.ID, Language: made.Language}, nil
	})
}

type wsDeleteContextInput struct {
	ContextID string `json:"context_id" jsonschema:"that workspace_create_context returned"`
}

func wsDeleteContextTool() *Tool {
	return New(Spec{
		Name: "workspace_delete_context", Family: Code, Needs: codeOnly, Destructive: true,
		Description: "Delete a context with its state.",
	}, func(ctx context.Context, c *Call, in wsDeleteContextInput) (wsContextOutput, error) {
		if err := requireArgument("context_id", in.ContextID); err != nil {
			return wsContextOutput{}, err
		}
		return wsContextOutput{ContextID: in.ContextID, Deleted: true}, c.Workspace.DeleteContext(ctx, in.ContextID)
	})
}
