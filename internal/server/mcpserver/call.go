package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/advice"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/tool"
)

// toolHandler returns the handler of a tool. If the call needs approval, the result is
// a question to the user.
func (s *Server) toolHandler(t *tool.Tool, v view) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, done, err := s.calls.beginCall(ctx, req.Session.ID())
		if err != nil {
			return toolResult(tool.Result{}, err)
		}
		defer done()
		start := time.Now()
		if !t.ReadOnly {
			defer func() { s.auditCall(ctx, req, t, v, err) }()
		}
		if p, ok := auth.From(ctx); ok {
			if err = p.Require(toolScope(t)); err != nil {
				return toolResult(tool.Result{}, err)
			}
		}
		ask := newAsker(req)
		var res tool.Result
		client := quirkOf(req.ClientInfo())
		res, err = s.opts.Env.Run(ctx, tool.Request{
			Tool: t.Name, Args: req.Params.Arguments, Session: sessionName(ctx, req), Only: v.only,
			MaxText: client.maxText, Progress: progressFunc(ctx, req), Ask: ask.askFunc(),
		})
		if ask.question != "" && err != nil {
			return ask.askResult(), nil
		}
		if t.Family == tool.Snapshot && !t.ReadOnly && err == nil {
			// It may have opened a workspace: update all clients.
			if rerr := s.Refresh(ctx); rerr != nil {
				s.log.Warn("update clients", "error", rerr)
			}
		}
		logCall(ctx, req, t.Name, time.Since(start), err)
		return toolResult(client.adapt(res), err)
	}
}

// auditCall emits the audit event of a call. A question to the user is not yet the call.
func (s *Server) auditCall(ctx context.Context, req *mcp.CallToolRequest, t *tool.Tool, v view, err error) {
	if errors.Is(err, tool.ErrPending) {
		return
	}
	var args struct {
		Workspace string `json:"workspace"`
	}
	_ = json.Unmarshal(req.Params.Arguments, &args) // of another type: the call was refused
	httpguard.Audit(ctx, s.opts.Audit, httpguard.Call{Method: t.Name, Route: Path, Target: cmp.Or(args.Workspace, v.only), Status: fault.Of(err).Status()})
}

// sessionName identifies a client in events and in the read tracker.
func sessionName(ctx context.Context, req *mcp.CallToolRequest) string {
	if id := req.Session.ID(); id != "" {
		return id
	}
	if s, ok := ctx.Value(streamKey{}).(stream); ok {
		return s.id
	}
	return "stdio"
}

// dataMeta is the key in _meta of data-only results: data without the text, which
// would otherwise be sent twice.
const dataMeta = "croft.run/data"

// toolResult converts a result to MCP. An error that the model can act on becomes a
// result; an internal error becomes a JSON-RPC error.
func toolResult(res tool.Result, err error) (*mcp.CallToolResult, error) {
	if err == nil {
		out := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: res.Text}}}
		switch {
		case res.DataOnly != nil:
			out.Meta = mcp.Meta{dataMeta: res.DataOnly}
		case res.Structured != nil:
			out.StructuredContent = res.Structured
		}
		if res.Image != nil {
			out.Content = append(out.Content, &mcp.ImageContent{MIMEType: res.Image.MIMEType, Data: res.Image.Data})
		}
		if res.Handle != "" {
			out.Content = append(out.Content, &mcp.ResourceLink{
				URI: resultScheme + res.Handle, Name: res.Handle, MIMEType: "text/plain", Description: "the whole answer, which was too long",
			})
		}
		return out, nil
	}
	code := fault.Of(err)
	wire := fault.Encode(err)
	wire.Message = tool.ErrorText(err)
	advice.Append(&wire)
	if !code.ToolError() {
		data, merr := json.Marshal(wire)
		if merr != nil {
			return nil, merr
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: wire.Message, Data: data}
	}
	out := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: wire.Message}}}
	out.Meta = mcp.Meta{"croft.run/error": wire}
	return out, nil
}

// progressFunc returns the function that sends progress notifications, nil if the
// client did not request them.
func progressFunc(ctx context.Context, req *mcp.CallToolRequest) func(tool.Progress) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	var mu sync.Mutex
	last := -1.0
	return func(p tool.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if p.Done <= last {
			p.Done = last + 0.001 // the protocol requires growing values
		}
		last = p.Done
		// Progress is optional, so an error is ignored.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: p.Done, Total: p.Total, Message: p.Message})
	}
}

// logCall sends a log notification of a call to a client that requested logging.
func logCall(ctx context.Context, req *mcp.CallToolRequest, name string, took time.Duration, err error) {
	p := &mcp.LoggingMessageParams{Level: "debug", Logger: "croft"} //nolint:staticcheck // deprecated in the latest protocol; clients of today read it
	data := map[string]any{"tool": name, "duration_ms": took.Milliseconds()}
	if err != nil {
		p.Level, data["error"] = "warning", fault.Of(err).Wire()
	}
	p.Data = data
	_ = req.Session.Log(ctx, p) //nolint:staticcheck // as above
}

// A callResult is a [mcp.CallToolResult] that encoding/json writes in one pass. The
// SDK's type nests MarshalJSON methods, and encoding/json scans the result of each
// again, which takes several times as long for a large text.
type callResult struct {
	mcp.ResultBase
	ResultType        string `json:"resultType,omitempty"`
	Content           []any  `json:"content"`
	StructuredContent any    `json:"structuredContent,omitempty"`
	IsError           bool   `json:"isError,omitempty"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// encodeMiddleware replaces the result of a tool by a callResult.
func encodeMiddleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		r, ok := res.(*mcp.CallToolResult)
		if err != nil || !ok || r.InputRequests != nil {
			return res, err
		}
		out := &callResult{ResultBase: mcp.ResultBase{Meta: r.Meta}, Content: []any{}, StructuredContent: r.StructuredContent, IsError: r.IsError}
		for _, c := range r.Content {
			if text, ok := c.(*mcp.TextContent); ok {
				out.Content = append(out.Content, textContent{"text", text.Text})
			} else {
				out.Content = append(out.Content, c)
			}
		}
		// The SDK does not export the type of a result: it is read from the rest's JSON.
		rest := *r
		rest.Meta, rest.Content, rest.StructuredContent = nil, nil, nil
		data, err := rest.MarshalJSON()
		if err != nil {
			return nil, err
		}
		return out, json.Unmarshal(data, &struct{ ResultType *string }{&out.ResultType})
	}
}

// An asker asks the user, by elicitation, whether a call is approved. The client sends
// the answer with a second try of the call.
type asker struct {
	req      *mcp.CallToolRequest
	question string // of this try
}

const approval = "approval"

func newAsker(req *mcp.CallToolRequest) *asker { return &asker{req: req} }

func (a *asker) askFunc() func(context.Context, string) (bool, error) {
	if caps := a.req.ClientCapabilities(); caps == nil || caps.Elicitation == nil {
		return nil
	}
	return func(_ context.Context, question string) (bool, error) {
		answer, ok := a.req.Params.InputResponses[approval].(*mcp.ElicitResult)
		if !ok {
			a.question = question
			return false, fmt.Errorf("mcpserver: %w", tool.ErrPending)
		}
		// Clients that show only the question accept without content.
		no := answer.Content["allow"] != nil && answer.Content["allow"] != true
		return answer.Action == "accept" && !no, nil
	}
}

func (a *asker) askResult() *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{approval: &mcp.ElicitParams{
		Mode: "form", Message: a.question,
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"allow":{"type":"boolean","title":"Allow it","default":true}}}`),
	}}}
}
