package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	codePath     = onePath + "/code"
	scriptPath   = onePath + "/script"
	contextsPath = onePath + "/contexts"
	contextPath  = contextsPath + "/{context}"
)

func (s processRoutes) code() {
	code := s.streamOp(codePath, "run-code", "Run code in a context that keeps state, or in a temporary one")
	onWorkspace(s, code, s.runCode((*workspace.Workspace).RunCode))
	script := s.streamOp(scriptPath, "run-script", "Run a script in a temporary isolate")
	onWorkspace(s, script, s.runCode((*workspace.Workspace).RunScript))
	onWorkspace(s, shown(s.op(http.MethodGet, contextsPath, "list-contexts", "Contexts that keep the state of code")), listContexts)
	onWorkspace(s, s.op(http.MethodPost, contextsPath, "create-context", "Make a context"), createContext)
	onWorkspace(s, s.op(http.MethodDelete, contextPath, "delete-context", "End a context"), contextRoute((*workspace.Workspace).DeleteContext))
	onWorkspace(s, s.op(http.MethodPost, contextPath+"/restart", "restart-context", "Give a context a fresh state"), contextRoute((*workspace.Workspace).RestartContext))
	onWorkspace(s, s.op(http.MethodPost, contextPath+"/interrupt", "interrupt-context", "Interrupt the code of a context, and keep its state"), contextRoute((*workspace.Workspace).InterruptContext))
}

// streamOp is an operation whose answer is a stream of CodeEvents.
func (s processRoutes) streamOp(path, id, summary string) huma.Operation {
	op := s.op(http.MethodPost, path, id, summary)
	op.Description = "The answer is a stream of JSON objects, one per line (CodeEvent). It begins with the first output or with the end: " +
		"code that can't be run is an ordinary error; an exception in it is a result. If the client disconnects, the code is interrupted."
	op.Responses["200"] = &huma.Response{Description: "a stream of events", Content: map[string]*huma.MediaType{
		"application/x-ndjson": {Schema: s.schemaOf(CodeEvent{})},
	}}
	return op
}

// Code is a piece of code to run.
type Code struct {
	Language string             `json:"language,omitempty" doc:"default that of the context, or the first language of the workspace"`
	Source   string             `json:"source"`
	Context  string             `json:"context,omitempty" doc:"id of a context; default a temporary one"`
	Dir      string             `json:"dir,omitempty" doc:"working directory, without a context"`
	Env      map[string]string  `json:"env,omitempty" doc:"further variables, without a context"`
	Timeout  shellwire.Duration `json:"timeout,omitempty" doc:"after which it is interrupted; such as \"1m30s\", or nanoseconds"`
}

// A CodeEvent is a line of the answer to code: an output, or the end.
type CodeEvent struct {
	Event  string             `json:"event" enum:"output,end,error"`
	Output *driver.Output     `json:"output,omitempty"`
	Result *driver.CodeResult `json:"result,omitempty" doc:"of end; without the outputs, which came before"`
	Error  *fault.Wire        `json:"error,omitempty" doc:"of error: why there is no result"`
}

type codeInput struct {
	Target
	Body Code
}

type codeRunner func(*workspace.Workspace, context.Context, driver.Code) (driver.CodeResult, error)

func (s processRoutes) runCode(run codeRunner) func(context.Context, *workspace.Workspace, *codeInput) (*huma.StreamResponse, error) {
	return func(ctx context.Context, ws *workspace.Workspace, in *codeInput) (*huma.StreamResponse, error) {
		b := in.Body
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			lines := &lineWriter{w: w, flush: http.NewResponseController(w), broken: cancel}
			res, err := run(ws, ctx, driver.Code{
				Language: b.Language, Source: b.Source, Context: b.Context, Dir: b.Dir, Env: b.Env, Timeout: time.Duration(b.Timeout),
				OnOutput: func(o driver.Output) error { return lines.send(CodeEvent{Event: "output", Output: &o}) },
			})
			switch {
			case err == nil:
				res.Outputs = nil
				lines.send(CodeEvent{Event: "end", Result: &res}) //nolint:errcheck // the client is gone
			case !lines.begun:
				s.writeError(w, r, err)
			default:
				wire := s.newProblem(r.Context(), requestInfo{r.Method, r.URL.Path}, err).Wire
				lines.send(CodeEvent{Event: "error", Error: &wire}) //nolint:errcheck // the client is gone
			}
		}}, nil
	}
}

// Contexts is the answer of GET .../contexts.
type Contexts struct {
	Contexts []driver.CodeContext `json:"contexts"`
}

func listContexts(ctx context.Context, ws *workspace.Workspace, _ *Target) (*body[Contexts], error) {
	list, err := ws.Contexts(ctx)
	return &body[Contexts]{Contexts{list}}, err
}

// NewContext is the body of a request for a context.
type NewContext struct {
	Language string            `json:"language,omitempty" doc:"default the first language of the workspace"`
	Dir      string            `json:"dir,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
}

type createContextInput struct {
	Target
	Body NewContext
}

func createContext(ctx context.Context, ws *workspace.Workspace, in *createContextInput) (*body[driver.CodeContext], error) {
	return reply(ws.CreateContext(ctx, in.Body.Language, &driver.ContextOptions{Dir: in.Body.Dir, Env: in.Body.Env}))
}

// ContextTarget addresses a context.
type ContextTarget struct {
	Target
	Context string `path:"context" doc:"id of the context"`
}

// contextRoute returns the handler of a route that calls do with the id of a context.
func contextRoute(do func(*workspace.Workspace, context.Context, string) error) func(context.Context, *workspace.Workspace, *ContextTarget) (*none, error) {
	return func(ctx context.Context, ws *workspace.Workspace, in *ContextTarget) (*none, error) {
		return nil, do(ws, ctx, in.Context)
	}
}
