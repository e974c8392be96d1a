package mcpserver

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// textClients are the names of clients that show a model the structured data of an
// answer instead of its text, although the text is written for the model. They get
// only the text.
var textClients = []string{"claude-code", "codex-mcp-client"}

// textOnlyMiddleware removes structured data and output schemas for textClients.
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

func wantsText(client *mcp.Implementation) bool {
	return client != nil && slices.Contains(textClients, client.Name)
}

// withoutSchemas returns a copy without output schemas; the tools of r are shared by
// all sessions.
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
