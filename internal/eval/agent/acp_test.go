package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// acpScript is an agent that answers each method with lines of its own. ID in a
// line is that of the request.
type acpScript struct {
	answers map[string][]string
	hang    bool // it does not end when its input does
	asked   []string
	said    []string // parameters of what was asked, and answers to it
}

func (s *acpScript) Run(ctx context.Context, inv Invocation) (Exit, error) {
	in, prompt := bufio.NewScanner(inv.Stdin), json.RawMessage(nil)
	for in.Scan() {
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(in.Bytes(), &msg); err != nil {
			return Exit{}, err
		}
		s.said = append(s.said, in.Text())
		if msg.Method == "" { // an answer to what was asked within the prompt
			msg.Method, msg.ID = "answer", prompt
		} else {
			s.asked, prompt = append(s.asked, msg.Method), msg.ID
		}
		for _, line := range s.answers[msg.Method] {
			if _, err := fmt.Fprintln(inv.Stdout, strings.ReplaceAll(line, "ID", string(msg.ID))); err != nil {
				return Exit{}, err
			}
		}
	}
	if s.hang {
		<-ctx.Done()
		return Exit{Code: 137, Signal: "SIGKILL", Cause: driver.CauseCanceled}, nil
	}
	return Exit{}, nil
}

// acpAnswers are those of an agent that asks for permission once.
func acpAnswers() map[string][]string {
	const update = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":`
	return map[string][]string{
		"initialize":        {`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}`},
		"session/new":       {`{"jsonrpc":"2.0","id":ID,"result":{"sessionId":"s","models":{"currentModelId":"a","availableModels":[{"modelId":"a","name":"A"},{"modelId":"b","name":"B"}]}}}`},
		"session/load":      {`{"jsonrpc":"2.0","id":ID,"result":{}}`},
		"session/set_model": {`{"jsonrpc":"2.0","id":ID,"result":{}}`},
		"session/prompt": {
			`{"jsonrpc":"2.0","id":77,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"no","name":"No","kind":"reject_once"},{"optionId":"yes","name":"Yes","kind":"allow_once"}]}}`,
		},
		"answer": {
			update + `{"sessionUpdate":"tool_call","toolCallId":"t","title":"Run tests","kind":"execute","status":"pending","rawInput":{"command":["bash","-lc","make test"]}}}}`,
			update + `{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","rawOutput":{"exitCode":2}}}}`,
			update + `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Do"}}}}`,
			update + `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"ne."}}}}`,
			`{"jsonrpc":"2.0","id":ID,"result":{"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":2,"totalTokens":7}}}`,
		},
	}
}

// TestACP does a turn, also with an agent that does not end by itself.
//
//croft:slow-race
func TestACP(t *testing.T) {
	for _, hang := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { testTurn(t, hang) })
	}
}

func testTurn(t *testing.T, hang bool) {
	s := &acpScript{answers: acpAnswers(), hang: hang}
	cfg := Config{Type: "acp", Command: "x", Model: "b"}
	out, err := Run(t.Context(), s, mustNew(t, cfg), input(t, cfg))
	if err != nil || out.Failure != nil {
		t.Fatalf("run: %v, %v", err, out.Failure)
	}
	r := out.Report
	if got, want := strings.Join(s.asked, " "), "initialize session/new session/set_model session/prompt"; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
	if got := strings.Join(s.said, "\n"); !strings.Contains(got, `"optionId":"yes"`) || !strings.Contains(got, `"Count."`) || !strings.Contains(got, `"modelId":"b"`) {
		t.Errorf("said %s", got)
	}
	if r.SessionID != "s" || r.FinalOutput != "Done." || r.Steps != 2 || len(r.Commands) != 1 || r.Commands[0].Command != "make test" || *r.Commands[0].ExitCode != 2 || *r.Usage.TotalTokens != 7 {
		t.Errorf("session %q says %q after %d steps, commands %+v, usage %+v", r.SessionID, r.FinalOutput, r.Steps, r.Commands, r.Usage)
	}
}

//croft:slow-race
func TestACPResume(t *testing.T) {
	s := &acpScript{answers: acpAnswers()}
	cfg := Config{Type: "acp", Command: "x"}
	in := input(t, cfg)
	in.Resume = "s"
	out, err := Run(t.Context(), s, mustNew(t, cfg), in)
	if err != nil || out.Failure != nil || out.Report.SessionID != "s" || strings.Join(s.asked, " ") != "initialize session/load session/prompt" {
		t.Errorf("resumed: %v, %v, session %q, asked %q", err, out.Failure, out.Report.SessionID, s.asked)
	}
}

// TestACPFailures: what an agent refuses is the failure of its session.
//
//croft:slow-race
func TestACPFailures(t *testing.T) {
	const no = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"Authentication required"}}`
	for method, want := range map[string]struct {
		model  string
		origin Origin
		says   string
	}{
		"session/new":       {"", OriginRunner, "Authentication required"},
		"session/prompt":    {"", OriginRunner, "Authentication required"},
		"session/set_model": {"c", OriginModelRejected, `rejected configured model "c"`},
	} {
		s := &acpScript{answers: acpAnswers()}
		s.answers[method] = []string{no}
		cfg := Config{Type: "acp", Command: "x", Model: want.model}
		out, err := Run(t.Context(), s, mustNew(t, cfg), input(t, cfg))
		if err != nil || out.Failure == nil || out.Failure.Origin != want.origin || !strings.Contains(out.Failure.Message, want.says) || fault.Of(out.Failure) == fault.Internal {
			t.Errorf("%s: %v, %v", method, err, out.Failure)
		}
	}
}
