package mcpserver_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/tool"
)

// A slowSink takes its time to write the event of a call, so that an answer that does
// not wait for it would be there first.
type slowSink struct{ calls atomic.Int32 }

func (s *slowSink) Emit(e event.Event) {
	if e.Kind == event.ToolCall {
		time.Sleep(50 * time.Millisecond)
		s.calls.Add(1)
	}
}

// TestAnswersFollowTheirEvents: an answer is sent after the event of its call is
// written, over streams and over HTTP, whatever its size.
func TestAnswersFollowTheirEvents(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", resolveDir(t)); err != nil {
		t.Fatal(err)
	}
	s, env := serve(t, set, mcpserver.Options{})
	sink := new(slowSink)
	env.Events = sink
	streams := converse(t, s, "2025-06-18")
	web := client(t, listen(t, s.Handler()).URL, nil)
	for name, call := range map[string]func(tool string, args map[string]any) string{
		"streams": func(tool string, args map[string]any) string {
			return fmt.Sprint(streams.ask("7", tool, encode(t, args))["result"])
		},
		"http": func(tool string, args map[string]any) string {
			res, err := web.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
			if err != nil {
				t.Fatal(err)
			}
			return encode(t, res)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, tt := range []struct {
				tool string
				args map[string]any
				want string
			}{
				{"Write", map[string]any{"file_path": name, "content": strings.Repeat(strings.Repeat("lorem ", 16)+"\n", 1600)}, "wrote"},
				{"Read", map[string]any{"file_path": name}, "lorem"},
				{"Read", map[string]any{"file_path": name, "limit": 1}, "lorem"},
				{"Read", map[string]any{"file_path": "missing"}, "missing"},
			} {
				before := sink.calls.Load()
				got := call(tt.tool, tt.args)
				if n := sink.calls.Load() - before; n != 1 || !strings.Contains(got, tt.want) {
					t.Errorf("%s is answered with %.100q after %d events, want %q after 1", tt.tool, got, n, tt.want)
				}
			}
		})
	}
}
