package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testmodel"
)

// A seat is how an agent is configured as a runner of an evaluation, so that its
// model can be put somewhere else.
type seat struct {
	kind, model string
	env         func(model string) map[string]string
	home        map[string]string // of the user
}

var seats = map[string]seat{
	"claude": {kind: "claude-code", model: "claude-sonnet-4-5", env: func(model string) map[string]string {
		return map[string]string{"ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "none"}
	}},
	"codex": {kind: "codex", model: "gpt-5", env: func(model string) map[string]string {
		return map[string]string{"OPENAI_BASE_URL": model + "/v1", "CODEX_API_KEY": "none"}
	}},
	"opencode": {kind: "opencode", model: "scripted/scripted", env: func(model string) map[string]string {
		return map[string]string{"OPENCODE_CONFIG_CONTENT": `{"small_model": "scripted/scripted", "share": "disabled",
"provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "` + model + `/v1", "apiKey": "none"},
"models": {"scripted": {"name": "scripted", "tool_call": true}}}}}`}
	}},
	"copilot": {kind: "copilot", model: "scripted", env: func(model string) map[string]string {
		return map[string]string{"COPILOT_PROVIDER_BASE_URL": model + "/v1", "COPILOT_PROVIDER_API_KEY": "none"}
	}},
	"gemini": {kind: "gemini", model: "gemini-2.5-flash", env: func(model string) map[string]string {
		return map[string]string{"GOOGLE_GEMINI_BASE_URL": model, "GEMINI_API_KEY": "none"}
	}, home: map[string]string{"~/.gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`}},
}

const toolSuite = `import { assert } from "skillgym";
export const workspace = { mode: "isolated", templateDir: "./template" };
export default [{ id: "tools", prompt: "Make made.txt.", timeoutMs: 240000, assert(r) {
  assert.toolCalls.sequence(r, [{ tool: /Write$/ }, { tool: /Read$/ }, { tool: /Bash$/ }]);
  assert.files.changed(r, "made.txt");
  assert.files.contains(r, "count.txt", "2 sum.txt");
  assert.match(r.finalOutput, /It is made/);
} }];
`

// TestEvalAgents lets the real agents work in the sandbox with the tools that
// Croft serves them from outside, and records them; and then again from the tapes,
// where there is no model any more.
//
//croft:slow
func TestEvalAgents(t *testing.T) {
	croft := buildCroft(t)
	for _, name := range []string{"claude", "codex", "opencode", "gemini", "copilot"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); seats[name].evaluate(t, croft, name) })
	}
}

func (s seat) evaluate(t *testing.T, croft, name string) {
	program := testenv.NeedsAgent(t, name)
	testenv.OwnNetwork(t)
	model := httptest.NewServer(&testmodel.Model{Server: "croft", Last: "It is made.", Steps: []testmodel.Step{
		{Tool: "Write", Args: map[string]any{"file_path": "made.txt", "content": "made\n"}},
		{Tool: "Read", Args: map[string]any{"file_path": "made.txt"}},
		{Tool: "Bash", Args: map[string]any{"command": "wc -l sum.txt > count.txt; cat count.txt"}},
	}})
	defer model.Close()
	home := agentHome(t)
	dir := filepath.Join(home, "project")
	config, err := json.Marshal(map[string]any{
		"runners": map[string]any{name: map[string]any{"agent": map[string]any{"type": s.kind, "model": s.model, "command": program, "env": s.env(model.URL)}}},
		"croft":   map[string]any{"tools": "default"},
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, home, dir, s.home)
	put(t, home, dir, map[string]string{"suite.mjs": toolSuite, "template/sum.txt": "1\n2\n", "skillgym.config.mjs": "export default " + string(config)})
	run := func(out string, flags ...string) []string {
		args := append([]string{"eval", "run", "suite.mjs", "--no-model-net", "--output-dir", out}, flags...)
		cmd := exec.CommandContext(t.Context(), filepath.Join(croft, "croft"), args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + home, "PATH=" + croft + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "CROFT_DATA=" + filepath.Join(home, "croft"), "TERM=dumb", "CI=1"}
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s\n%s", out, err, said, logsBelow(dir, out))
		}
		return toolCalls(t, dir, out)
	}
	recorded := run("recorded", "--record", "tapes")
	model.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if len(recorded) < 3 {
		t.Errorf("the report has the calls %q", recorded)
	}
	if diff := cmp.Diff(recorded, run("replayed", "--replay", "tapes")); diff != "" {
		t.Errorf("tool calls (-recorded +replayed):\n%s", diff)
	}
}

// toolCalls lists what the report of the only session of a run says was called.
func toolCalls(t *testing.T, dir, out string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, out, "*", "tools", "*", "repeat-1", "report.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("reports %q, %v", found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Events []struct {
			Type, Tool string
			Args       map[string]any
		}
	}
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, e := range report.Events {
		if e.Type == "toolCall" {
			calls = append(calls, fmt.Sprint(e.Tool, e.Args))
		}
	}
	return calls
}

// logsBelow returns what the programs of a run said.
func logsBelow(dir, out string) string {
	var all strings.Builder
	logs, _ := filepath.Glob(filepath.Join(dir, out, "*", "tools", "*", "repeat-1", "std*.log")) // of a constant pattern
	slices.Sort(logs)
	for _, name := range logs {
		text, _ := os.ReadFile(name) // what is not there says nothing
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(name), text[:min(len(text), 8000)])
	}
	return all.String()
}

const explainSuite = `import { assert } from "skillgym";
export const workspace = { mode: "isolated" };
export default [{ id: "tools", prompt: "Build the PROJECT.", timeoutMs: 240000, assert(r) {
  assert.commands.includes(r, "make", { explain: { question: "Why did you not run MAKE?" } }); } }];
`

// TestEvalExplain asks real agents about a case that they failed, in the session in
// which they did.
//
//croft:slow
func TestEvalExplain(t *testing.T) {
	croft := buildCroft(t)
	for _, name := range []string{"claude", "codex"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); seats[name].explain(t, croft, name) })
	}
}

func (s seat) explain(t *testing.T, croft, name string) {
	program := testenv.NeedsAgent(t, name)
	testenv.OwnNetwork(t)
	model := &testmodel.Model{Last: "Nobody told me to."}
	home := agentHome(t)
	dir := filepath.Join(home, "project")
	// A gateway on the loopback interface, which only the agent's own settings name.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, served := &http.Server{Handler: model}, make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() { srv.Close(); <-served }()
	agent := map[string]any{"type": s.kind, "model": s.model, "command": program, "env": s.env("http://" + l.Addr().String())}
	if name == "codex" {
		put(t, home, dir, map[string]string{"~/.codex/config.toml": "model_provider = \"scripted\"\n\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"http://" + l.Addr().String() + "/v1\"\nwire_api = \"responses\"\n"})
	}
	config, err := json.Marshal(map[string]any{"runners": map[string]any{name: map[string]any{"agent": agent}}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, home, dir, map[string]string{"suite.mjs": explainSuite, "skillgym.config.mjs": "export default " + string(config)})
	run := func(want int, args ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(croft, "croft"), args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + home, "PATH=" + croft + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "CROFT_DATA=" + filepath.Join(home, "croft"), "TERM=dumb", "CI=1"}
		said, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Fatalf("%s: exit status %d, %v, want %d\n%s\n%s", args, got, err, want, said, logsBelow(dir, "out"))
		}
		return string(said)
	}
	run(1, "eval", "run", "suite.mjs", "--output-dir", "out")
	if got := run(0, "eval", "explain", "out"); !strings.Contains(got, "Q: Why did you not run MAKE?\nA: Nobody told me to.\n") {
		t.Errorf("explained: %s", got)
	}
	if !slices.ContainsFunc(model.Requests(), func(r string) bool { return strings.Contains(r, "PROJECT") && strings.Contains(r, "MAKE") }) {
		t.Errorf("the agent did not go on with its session: its model was asked %d times, never about both", len(model.Requests()))
	}
}
