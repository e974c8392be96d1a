package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
)

// call returns the handler of a tool. Where the user must be asked first, the
// result asks instead.
func (s *Server) call(t *tool.Tool, v view) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, done, err := s.calls.begin(ctx, req.Session.ID())
		if err != nil {
			return result(tool.Result{}, err)
		}
		defer done()
		start := time.Now()
		ask := newAsker(req)
		res, err := s.opts.Env.Run(ctx, tool.Request{
			Tool: t.Name, Args: req.Params.Arguments, Session: sessionName(ctx, req), Only: v.only,
			Progress: progress(ctx, req), Ask: ask.function(),
		})
		if ask.question != "" && err != nil {
			return ask.result(), nil
		}
		if t.Family == tool.Snapshot && !t.ReadOnly && err == nil {
			// It may have opened a workspace, of which all clients are told.
			if rerr := s.Refresh(ctx); rerr != nil {
				s.log.Warn("tell clients of workspaces", "error", rerr)
			}
		}
		note(ctx, req, t.Name, time.Since(start), err)
		return result(res, err)
	}
}

// sessionName is what events and the read tracker call a client.
func sessionName(ctx context.Context, req *mcp.CallToolRequest) string {
	if id := req.Session.ID(); id != "" {
		return id
	}
	if s, ok := ctx.Value(streamKey{}).(stream); ok {
		return s.id
	}
	return "stdio"
}

// dataMeta is where the data of an answer is, but for its text, of a tool that
// would otherwise send its text twice.
const dataMeta = "croft.run/data"

// result is an answer in the words of the protocol. What the model can act on is
// a result; a defect of the server ends the exchange.
func result(res tool.Result, err error) (*mcp.CallToolResult, error) {
	if err == nil {
		out := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: res.Text}}}
		switch {
		case res.DataOnly != nil:
			out.Meta = mcp.Meta{dataMeta: res.DataOnly}
		case res.Structured != nil:
			out.StructuredContent = res.Structured
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

// progress tells a client how a call goes, if it asked to be told.
func progress(ctx context.Context, req *mcp.CallToolRequest) func(tool.Progress) {
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
			p.Done = last + 1 // it must grow
		}
		last = p.Done
		// A client that does not hear it misses nothing that it needs.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: p.Done, Total: p.Total, Message: p.Message})
	}
}

// note writes to the log of a client that wants one.
func note(ctx context.Context, req *mcp.CallToolRequest, name string, took time.Duration, err error) {
	p := &mcp.LoggingMessageParams{Level: "debug", Logger: "croft"} //nolint:staticcheck // deprecated in the latest protocol; clients of today read it
	data := map[string]any{"tool": name, "duration_ms": took.Milliseconds()}
	if err != nil {
		p.Level, data["error"] = "warning", fault.Of(err).Wire()
	}
	p.Data = data
	_ = req.Session.Log(ctx, p) //nolint:staticcheck // as above
}

// A callResult is a [mcp.CallToolResult] that encoding/json writes in one pass. In
// the SDK's type a MarshalJSON is within another, and encoding/json scans what each
// returns again, which takes several times as long as to encode a large text.
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

// encodeOnce makes a callResult of what a tool answered.
func encodeOnce(next mcp.MethodHandler) mcp.MethodHandler {
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

// An asker asks the user whether a call may go on. The answer comes with another
// try of the call, whichever version of the protocol the client speaks.
type asker struct {
	req      *mcp.CallToolRequest
	question string // that was asked now
}

const approval = "approval"

func newAsker(req *mcp.CallToolRequest) *asker { return &asker{req: req} }

func (a *asker) function() func(context.Context, string) (bool, error) {
	if caps := a.req.ClientCapabilities(); caps == nil || caps.Elicitation == nil {
		return nil
	}
	return func(_ context.Context, question string) (bool, error) {
		answer, ok := a.req.Params.InputResponses[approval].(*mcp.ElicitResult)
		if !ok {
			a.question = question
			return false, fmt.Errorf("mcpserver: %w", tool.ErrPending)
		}
		// Clients that show no more than a question accept it without a content.
		no := answer.Content["allow"] != nil && answer.Content["allow"] != true
		return answer.Action == "accept" && !no, nil
	}
}

func (a *asker) result() *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{approval: &mcp.ElicitParams{
		Mode: "form", Message: a.question,
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"allow":{"type":"boolean","title":"Allow it","default":true}}}`),
	}}}
}
