package eval_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testmodel"
	"github.com/croft-run/croft/provider/sandbox"
)

const threeCases = `import { assert } from "skillgym";
export const workspace = { mode: "isolated", templateDir: "./template" };
export default [
  { id: "writes", prompt: "CASE-WRITES: write greeting.txt.", timeoutMs: 600000, assert(r) {
    assert.commands.includes(r, "greeting.txt"); assert.match(r.finalOutput, /All done/); } },
  { id: "edits", prompt: "CASE-EDITS: mend sum.txt.", timeoutMs: 600000, assert(r) {
    assert.commands.before(r, /cat sum/, /sed/); assert.toolCalls.atLeast(r, {}, 2); } },
  { id: "runs", prompt: "CASE-RUNS: count the lines.", timeoutMs: 600000, assert(r) {
    assert.commands.includes(r, { executable: "wc" }); } },
];
`

// scripts are the commands that the model runs for each case.
var scripts = map[string][]string{
	"CASE-WRITES": {"echo hello > greeting.txt"},
	"CASE-EDITS":  {"cat sum.txt", "sed -i s/3/2/ sum.txt"},
	"CASE-RUNS":   {"wc -l sum.txt > count.txt"},
}

// changedBy is what each case leaves.
var changedBy = map[string]string{"writes": "greeting.txt added 1 0", "edits": "sum.txt modified 1 1", "runs": "count.txt added 1 0"}

// models answers each case with its own script, which the prompt names, in the
// agent's own tool for commands.
func models(tool, key string) http.Handler {
	all := map[string]*testmodel.Model{}
	for mark, commands := range scripts {
		m := &testmodel.Model{Last: "All done."}
		for _, c := range commands {
			m.Steps = append(m.Steps, testmodel.Step{Tool: tool, Args: map[string]any{key: c, "description": "a step"}})
		}
		if key == "cmd" {
			for _, s := range m.Steps {
				delete(s.Args, "description")
				s.Args["yield_time_ms"] = 30_000 // the most; of what takes longer no end is told
			}
		}
		all[mark] = m
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		for mark, m := range all {
			if bytes.Contains(body, []byte(mark)) {
				m.ServeHTTP(w, r)
				return
			}
		}
		(&testmodel.Model{Last: "ok"}).ServeHTTP(w, r)
	})
}

// A realAgent is what makes a real program ask our model.
type realAgent struct {
	bin, kind, model string
	tool, key        string // for commands
	env              func(base string) map[string]string
	files            func(base string) map[string]string // of the template
	home             func(base string) map[string]string // of the user
}

var realAgents = []realAgent{
	{bin: "claude", kind: "claude-code", model: "claude-sonnet-4-5", tool: "Bash", key: "command",
		env: func(base string) map[string]string {
			return map[string]string{"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "none"}
		}},
	{bin: "codex", kind: "codex", model: "scripted", tool: "exec_command", key: "cmd",
		home: func(base string) map[string]string {
			return map[string]string{".codex/config.toml": "model_provider = \"scripted\"\n\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"" + base + "/v1\"\nwire_api = \"responses\"\n"}
		}},
	{bin: "opencode", kind: "opencode", model: "scripted/scripted", tool: "bash", key: "command",
		files: func(base string) map[string]string {
			return map[string]string{"opencode.json": `{"model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": false, "share": "disabled",
"provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": {"baseURL": "` + base + `/v1", "apiKey": "none"},
"models": {"scripted": {"name": "scripted", "tool_call": true}}}}}`}
		}},
	{bin: "gemini", kind: "gemini", model: "gemini-2.5-flash", tool: "run_shell_command", key: "command",
		env: func(base string) map[string]string {
			return map[string]string{"GOOGLE_GEMINI_BASE_URL": base, "GEMINI_API_KEY": "none"}
		},
		home: func(string) map[string]string {
			return map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`}
		}},
}

// TestRealAgents lets the real programs solve a suite in the sandbox, with a
// network that is the model alone.
func TestRealAgents(t *testing.T) {
	bin(t, "croft-guest")
	for _, a := range realAgents {
		t.Run(a.bin, func(t *testing.T) {
			program := testenv.NeedsAgent(t, a.bin)
			t.Parallel()
			a.solve(t, program)
		})
	}
}

func (a realAgent) solve(t *testing.T, program string) {
	addr := serveModels(t, models(a.tool, a.key))
	base := "http://" + addr
	home := t.TempDir()
	files := map[string]string{"suite.mjs": threeCases, "template/sum.txt": "1 + 1 = 3\n"}
	if a.files != nil {
		for name, text := range a.files(base) {
			files["template/"+name] = text
		}
	}
	if a.home != nil {
		for name, text := range a.home(base) {
			path := filepath.Join(home, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := project(t, files)
	agent := map[string]any{"type": a.kind, "model": a.model, "command": program, "env": map[string]string{}}
	if a.env != nil {
		agent["env"] = a.env(base)
	}
	data, err := json.Marshal(map[string]any{"runners": map[string]any{a.bin: map[string]any{"agent": agent}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "skillgym.config.mjs"), append([]byte("export default "), data...), 0o644); err != nil {
		t.Fatal(err)
	}
	requests := new(eval.Requests)
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(t.TempDir(), "ws"), Guest: bin(t, "croft-guest"), Events: requests})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() // each workspace has ended
	r := runSuite(t, dir, "suite.mjs", &eval.Options{Envs: &eval.Sandbox{Provider: p}, Requests: requests, UserHome: home,
		AllowNet: []string{addr}, NoModelNet: true, Schedule: eval.Parallel, MaxParallel: 3})
	for _, c := range r.Cases {
		a.check(t, c, addr)
	}
}

func (a realAgent) check(t *testing.T, c eval.CaseResult, addr string) {
	t.Helper()
	e := c.RunnerResults[0]
	if !e.Passed {
		log, _ := os.ReadFile(filepath.Join(e.ArtifactDir, "stderr.log"))
		out, _ := os.ReadFile(filepath.Join(e.ArtifactDir, "stdout.log"))
		t.Errorf("%s: %s: %+v\n%s\n%s", c.CaseID, e.FailureOrigin, e.Error, log, out[:min(len(out), 4000)])
		return
	}
	found := false
	for _, ch := range e.Report.Files.Changed {
		got, _ := json.Marshal([]any{ch.Added, ch.Removed})
		found = found || ch.Path+" "+string(ch.Kind)+" "+strings.NewReplacer("[", "", "]", "", ",", " ").Replace(string(got)) == changedBy[c.CaseID]
	}
	if !found {
		t.Errorf("%s: changed %+v, want %s", c.CaseID, e.Report.Files.Changed, changedBy[c.CaseID])
	}
	if u := e.Report.Usage; u.InputTokens == nil || *u.InputTokens <= 0 || u.OutputTokens == nil {
		t.Errorf("%s: tokens %+v", c.CaseID, u)
	}
	full := struct {
		Network []struct{ Host, Verdict string }
	}{}
	data, err := os.ReadFile(filepath.Join(e.ArtifactDir, "report.json"))
	if err == nil {
		err = json.Unmarshal(data, &full)
	}
	if err != nil {
		t.Fatal(err)
	}
	allowed := 0
	for _, q := range full.Network {
		if q.Verdict == "allow" && !strings.HasPrefix(addr, q.Host+":") {
			t.Errorf("%s: it reached %s", c.CaseID, q.Host)
		}
		if q.Verdict == "allow" {
			allowed++
		}
	}
	if allowed == 0 {
		t.Errorf("%s: no request to the model is told: %+v", c.CaseID, full.Network)
	}
}

// serveModels answers on an address that is not the usual one of this host, which
// programs reach without a proxy.
func serveModels(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, served := &http.Server{Handler: h}, make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-served })
	return l.Addr().String()
}
