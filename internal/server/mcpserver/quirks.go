package mcpserver

import (
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/tool"
)

// A quirk is what a client does with answers that others do not.
type quirk struct {
	client  string // beginning of the name that the client gives at initialize
	maxText int    // bytes of a text that it shows a model as they are; 0 is no limit of its own
	asJSON  bool   // takes a text that is JSON, but no object, for an invalid answer
}

// quirks has a row for each client that needs one.
var quirks = []quirk{
	{client: "codex-mcp-client", maxText: 10_000},   // Codex cuts the middle out of about 12,000 characters and more
	{client: "gemini-cli-mcp-client", asJSON: true}, // Gemini CLI reports "expected record, received number" of 5
}

// quirkOf returns the row of a client; the zero value if it has none.
func quirkOf(info *mcp.Implementation) quirk {
	for _, q := range quirks {
		if info != nil && strings.HasPrefix(info.Name, q.client) {
			return q
		}
	}
	return quirk{}
}

// endLine is added to a text that the client would take for an invalid answer.
const endLine = "\n(end of the text)"

func (q quirk) adapt(res tool.Result) tool.Result {
	var object map[string]json.RawMessage
	if text := []byte(res.Text); q.asJSON && json.Valid(text) && json.Unmarshal(text, &object) != nil {
		res.Text = strings.TrimSuffix(res.Text, "\n") + endLine
	}
	return res
}
