package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool"
)

// TestHeartbeatIsScrubbed: the last line of a command that runs has no secret, and no part of one
// that is not yet printed.
func TestHeartbeatIsScrubbed(t *testing.T) {
	store, err := secret.New(&secret.Options{Environ: []string{"CROFT_SECRET_TOKEN=correct-horse-battery"}})
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), Secrets: store, Heartbeat: time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got string
	_, _ = env.Run(ctx, tool.Request{
		Tool: "Bash", Args: json.RawMessage(`{"command": "echo a correct-horse-battery b; printf correct-hor; sleep 300", "timeout": 600}`),
		Progress: func(p tool.Progress) {
			if strings.Contains(p.Message, "last line") {
				got = p.Message
				cancel()
			}
		},
	})
	if !strings.HasSuffix(got, " s, last line: a [REDACTED:token] b") {
		t.Errorf("progress %q", got)
	}
}
