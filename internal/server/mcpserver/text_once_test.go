package mcpserver_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/tool"
)

// TestTheTextOfAFileIsSentOnce: Read answers with its text and promises no data,
// so that no client shows a model less than the text; what else there is to know
// comes beside it. Other tools answer with both.
func TestTheTextOfAFileIsSentOnce(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", open(t, new(memory.Provider))); err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, set, mcpserver.Options{})
	c := client(t, listen(t, s.Handler()).URL, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Experimental: map[string]any{mcpserver.DataCapability: map[string]any{}}},
	})
	call := func(name string, args map[string]any) *mcp.CallToolResult {
		t.Helper()
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil || res.IsError {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		return res
	}
	wrote := call("Write", map[string]any{"file_path": "a.txt", "content": "one\ntwo\n"}).StructuredContent.(map[string]any)
	res := call("Read", map[string]any{"file_path": "a.txt", "limit": 1})
	if got := res.Content[0].(*mcp.TextContent).Text; got != "1\tone\n... (1 more lines; Read with offset=2 shows them)\n" || res.StructuredContent != nil {
		t.Errorf("Read answers %q with the data %v", got, res.StructuredContent)
	}
	got, err := json.Marshal(res.Meta["croft.run/data"])
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(map[string]any{"path": "a.txt", "lines": 2, "next_offset": 2, "digest": wrote["digest"]})
	if diff := cmp.Diff(string(want), string(got)); diff != "" || err != nil {
		t.Errorf("beside it is (-want +got):\n%s %v", diff, err)
	}
	// An image is content of its own.
	dot, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
	if err != nil {
		t.Fatal(err)
	}
	ws, err := set.Get(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ws.WriteFile(t.Context(), "dot.png", dot, nil); err != nil {
		t.Fatal(err)
	}
	res = call("Read", map[string]any{"file_path": "dot.png"})
	if len(res.Content) != 2 {
		t.Fatalf("Read of an image has %d parts", len(res.Content))
	}
	if shown, ok := res.Content[1].(*mcp.ImageContent); !ok || shown.MIMEType != "image/png" || !bytes.Equal(shown.Data, dot) {
		t.Errorf("Read of an image has the part %+v", res.Content[1])
	}
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tl := range list.Tools {
		if promised := tl.OutputSchema != nil; promised == (tl.Name == "Read") {
			t.Errorf("%s promises data: %v", tl.Name, promised)
		}
	}
}
