package mcpserver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/tool"
)

// connectAs connects a client with a name.
func connectAs(t *testing.T, s *mcpserver.Server, name string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, opts).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: listen(t, s.Handler()).URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func textOf(t *testing.T, c *mcp.ClientSession, name string, in map[string]any) string {
	t.Helper()
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: in})
	if err != nil {
		t.Fatal(err)
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// TestQuirks has a case for each row of the table, and one for a client without a row.
func TestQuirks(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", resolveDir(t)); err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, set, mcpserver.Options{})
	for _, tt := range []struct {
		client   string
		min, max int    // bytes of a long answer
		number   string // answer of echo 5
	}{
		{"codex-mcp-client", 8000, 11_000, "5\n"},
		{"gemini-cli-mcp-client-croft", 90_000, 103_500, "5\n(end of the text)"},
		{"claude-code", 90_000, 103_500, "5\n"},
	} {
		c := connectAs(t, s, tt.client, nil)
		long := textOf(t, c, "Bash", map[string]any{"command": "seq 1 200000"})
		if len(long) < tt.min || len(long) > tt.max || !strings.Contains(long[len(long)-200:], "BashOutput with shell_id") {
			t.Errorf("%s: a long answer has %d bytes, want %d to %d, and the end %q", tt.client, len(long), tt.min, tt.max, long[len(long)-200:])
		}
		if got := textOf(t, c, "Bash", map[string]any{"command": "echo 5"}); got != tt.number {
			t.Errorf("%s: echo 5 is %q, want %q", tt.client, got, tt.number)
		}
		for _, object := range []string{`{"a": 1}`, "five"} {
			if got := textOf(t, c, "Bash", map[string]any{"command": "echo '" + object + "'"}); got != object+"\n" {
				t.Errorf("%s: %s is %q", tt.client, object, got)
			}
		}
	}
}

// TestHeartbeat: a client that asks for progress hears of each call that runs, with the last line
// of a command.
func TestHeartbeat(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", resolveDir(t)); err != nil {
		t.Fatal(err)
	}
	s, env := serve(t, set, mcpserver.Options{})
	env.Heartbeat = 10 * time.Millisecond
	told := make(chan *mcp.ProgressNotificationParams, 1000)
	c := connectAs(t, s, "test", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		select {
		case told <- r.Params:
		default:
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := &mcp.CallToolParams{Name: "Bash", Arguments: map[string]any{"command": "echo one; echo two; printf three; sleep 300", "timeout": 600}}
		p.SetProgressToken("p")
		_, _ = c.CallTool(ctx, p)
	}()
	last := -1.0
	for {
		p := await(t, "progress", told)
		if p.Progress <= last {
			t.Errorf("progress %v comes after %v", p.Progress, last)
		}
		last = p.Progress
		if strings.HasPrefix(p.Message, "still running, ") && strings.HasSuffix(p.Message, " s, last line: two") {
			break
		}
	}
	cancel()
	await(t, "the end of the call", done)
}
