package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// DataCapability is the experimental capability of a client that reads the structured data
// of answers. Others get the text alone: most clients show a model both, or the data instead
// of the text, although the text is written for the model.
const DataCapability = "croft.run/data"

// textOnlyMiddleware removes structured data and output schemas for clients without
// DataCapability.
func textOnlyMiddleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if err != nil {
			return res, err
		}
		switch r := res.(type) {
		case *mcp.ListToolsResult:
			if list, ok := req.(*mcp.ListToolsRequest); ok && !wantsData(list.ClientCapabilities()) {
				return withoutSchemas(r), nil
			}
		case *mcp.CallToolResult:
			if call, ok := req.(*mcp.CallToolRequest); ok && !wantsData(call.ClientCapabilities()) {
				r.StructuredContent = nil
			}
		}
		return res, nil
	}
}

func wantsData(caps *mcp.ClientCapabilities) bool {
	return caps != nil && caps.Experimental[DataCapability] != nil
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
