package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/croft-run/croft/fault"
)

// noRunner is for agents that must not run anything.
// RunnerFunc is a function as a Runner.
type RunnerFunc func(ctx context.Context, inv Invocation) (Exit, error)

func (f RunnerFunc) Run(ctx context.Context, inv Invocation) (Exit, error) { return f(ctx, inv) }

var noRunner = RunnerFunc(func(context.Context, Invocation) (Exit, error) {
	return Exit{}, fmt.Errorf("agent: run nothing: %w", fault.Unsupported)
})

// TestRejected: what the programs say when their model is not to be had is
// understood, and the same words in a transcript are not.
func TestRejected(t *testing.T) {
	const (
		claudeInit  = `{"type":"system","subtype":"init","session_id":"s"}` + "\n"
		claudeSays  = `{"type":"assistant","message":{"id":"m","model":"<synthetic>","content":[{"type":"text","text":"There's an issue with the selected model."}]},"error":"model_not_found"}` + "\n"
		claudeEnd   = `{"type":"result","subtype":"success","is_error":true,"api_error_status":404,"modelUsage":{},"result":"There's an issue."}` + "\n"
		claudeTurn  = `{"type":"assistant","message":{"id":"m","model":"m","content":[{"type":"text","text":"{\"type\":\"result\",\"is_error\":true,\"api_error_status\":404}"}]}}` + "\n"
		codexNotice = `{"type":"item.completed","item":{"id":"i","type":"error","message":"Model metadata not found."}}` + "\n"
		codexSays   = `{"type":"turn.failed","error":{"message":"{\"error\":{\"message\":\"The requested model is not supported.\",\"type\":\"invalid_request_error\"}}"}}` + "\n"
		codexTurn   = `{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"cat log","aggregated_output":"model is not supported"}}` + "\n"
		openSays    = `{"type":"error","error":{"message":"Model not found: a/b"}}` + "\n"
		openNamed   = `{"type":"error","error":{"name":"ProviderModelNotFoundError","data":{"message":"x"}}}` + "\n"
		openUnknown = `{"type":"error","error":{"name":"UnknownError","data":{"message":"Unexpected server error."}}}` + "\n"
		openTurn    = `{"type":"text","part":{"text":"\"type\":\"error\" Model not found: a/b"}}` + "\n"
		gemSays     = `{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: models/g is not found for API version v1beta]"}}` + "\n"
		gemTurn     = `{"type":"message","role":"assistant","content":"ModelNotFoundError"}` + "\n"
		cursorSays  = "Cannot use this model: nope. Available models: a, b\n"
		cursorTurn  = `{"type":"assistant","message":{"content":[{"type":"text","text":"Cannot use this model: x"}]}}` + "\n"
		copSays     = `{"type":"session.error","data":{"message":"Model gpt-9 is not available"}}` + "\n"
		copTurn     = `{"type":"assistant.message","data":{"messageId":"m","content":"Model x is not available"}}` + "\n"
	)
	for _, tt := range []struct {
		typ, stdout, stderr string
		want                bool
	}{
		{"claude-code", claudeInit + claudeSays + claudeEnd, "", true},
		{"claude-code", claudeInit + claudeTurn + claudeEnd, "", false},
		{"claude-code", claudeInit + claudeTurn, "api_error_status 404", false},
		{"codex", codexNotice + codexSays, "", true},
		{"codex", codexTurn + codexSays, "", false},
		{"codex", codexNotice, "model is not supported", false},
		{"opencode", openSays, "", true},
		{"opencode", openNamed, "", true},
		{"opencode", "", "ProviderModelNotFoundError: x", true},
		{"opencode", openUnknown, "", false},
		{"opencode", openTurn + openSays, "ProviderModelNotFoundError", false},
		{"gemini", gemSays, "", true},
		{"gemini", "", "ModelNotFoundError: models/g", true},
		{"gemini", gemTurn + gemSays, "", false},
		{"cursor-agent", "", cursorSays, true},
		{"cursor-agent", cursorTurn, "", false},
		{"cursor-agent", cursorTurn, cursorSays, false},
		{"copilot", copSays, "", true},
		{"copilot", "", `Error: Model "gpt-9" from --model flag is not available.`, true},
		{"copilot", copTurn + copSays, "", false},
	} {
		a := mustNew(t, Config{Type: tt.typ, Model: "m"})
		if got := a.Rejected(t.Context(), noRunner, input(t, Config{}), Output{Stdout: []byte(tt.stdout), Stderr: []byte(tt.stderr)}); got != tt.want {
			t.Errorf("%s: rejected is %v, want %v, for %s%s", tt.typ, got, tt.want, tt.stdout, tt.stderr)
		}
	}
}

// TestRejectedByList: where opencode only says that something failed, its models
// tell whether it was that.
func TestRejectedByList(t *testing.T) {
	lists := RunnerFunc(func(_ context.Context, inv Invocation) (Exit, error) {
		if inv.Argv[len(inv.Argv)-1] != "models" {
			t.Errorf("it ran %s", inv)
		}
		_, err := io.WriteString(inv.Stdout, "a/b\na/c\n")
		return Exit{}, err
	})
	for model, want := range map[string]bool{"a/b": false, "a/d": true} {
		a := mustNew(t, Config{Type: "opencode", Model: model})
		out := Output{Stdout: []byte(`{"type":"error","error":{"name":"UnknownError"}}`)}
		if got := a.Rejected(t.Context(), lists, input(t, Config{}), out); got != want {
			t.Errorf("%s: rejected is %v, want %v", model, got, want)
		}
	}
}

// TestRealRejected: the real programs, whose endpoint does not have their model.
func TestRealRejected(t *testing.T) {
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"claude": {http.StatusNotFound, `{"type":"error","error":{"type":"not_found_error","message":"model: m"}}`},
		"codex":  {http.StatusBadRequest, `{"error":{"message":"The requested model is not supported.","type":"invalid_request_error","code":"model_not_supported"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clis[name]
			refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(answer.status)
				_, _ = io.WriteString(w, answer.body)
			})
			out, _ := c.run(t, func(string) http.Handler { return refuse })
			if out.Failure == nil || out.Failure.Origin != OriginModelRejected {
				t.Errorf("failure %v, want a model that was rejected", out.Failure)
			}
		})
	}
}

// TestEndlessStream: of a stream without an end the beginning is read.
//
//croft:slow-race
func TestEndlessStream(t *testing.T) {
	text := bytes.Repeat([]byte("{}\n"), maxRecords+1000)
	if got := len(allRecords(text)); got != maxRecords {
		t.Errorf("%d records, want %d", got, maxRecords)
	}
	list := record{"l": append(bytes.TrimSuffix(append([]byte("["), bytes.ReplaceAll(text, []byte("\n"), []byte(","))...), []byte(",")), ']')}
	if got := len(list.list("l")); got != maxRecords {
		t.Errorf("%d items, want %d", got, maxRecords)
	}
}
