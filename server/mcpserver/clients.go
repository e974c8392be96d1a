package mcpserver

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// textClients are the programs, as they call themselves, that show a model the
// data of an answer in place of its text, although the text is what was written
// for a model: line numbers, findings, what to do next. They get the text alone.
var textClients = []string{"claude-code", "codex-mcp-client"}

// textOnlyMiddleware leaves the data, and the schemas that promise it, out of what such a
// program gets.
func textOnlyMiddleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if err != nil {
			return res, err
		}
		switch r := res.(type) {
		case *mcp.ListToolsResult:
			if list, ok := req.(*mcp.ListToolsRequest); ok && wantsText(list.ClientInfo()) {
				return withoutSchemas(r), nil
			}
		case *mcp.CallToolResult:
			if call, ok := req.(*mcp.CallToolRequest); ok && wantsText(call.ClientInfo()) {
				r.StructuredContent = nil
			}
		}
		return res, nil
	}
}

func wantsText(who *mcp.Implementation) bool {
	return who != nil && slices.Contains(textClients, who.Name)
}

// withoutSchemas copies a list, whose tools belong to all sessions.
func withoutSchemas(r *mcp.ListToolsResult) *mcp.ListToolsResult {
	out := *r
	out.Tools = make([]*mcp.Tool, len(r.Tools))
	for i, t := range r.Tools {
		plain := *t
		plain.OutputSchema = nil
		out.Tools[i] = &plain
	}
	return &out
}
