package cli_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/client"
)

// TestEvaluationsOfServer starts runs of a suite over HTTP, looks at them, compares two, and stops
// one.
func TestEvaluationsOfServer(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("agent.sh", `#!/bin/sh
if test "$CROFT_EVAL_PROMPT" = wait; then sleep 1000; fi
echo '{"type":"toolCall","tool":"shell","args":{"command":"wc"}}'
echo '{"type":"command","command":"wc -l notes.txt","exitCode":0}'
echo '{"type":"usage","inputTokens":20,"outputTokens":5,"costUsd":0.5}'
echo more >> notes.txt
echo '{"type":"message","text":"It is 2."}'
`, 0o755)
	write("project/notes.txt", "one\ntwo\n", 0o644)
	write("count.suite.yaml", `workspace: {mode: isolated, templateDir: ./project}
cases:
  - {id: counts, prompt: count, assert: 'assert.match(report.finalOutput, /2/);'}
  - {id: fails, prompt: count, assert: 'assert.match(report.finalOutput, /3/, "three were wanted");'}
`, 0o644)
	write("wait.suite.yaml", "workspace: {mode: isolated, templateDir: ./project}\ncases:\n  - {id: waits, prompt: wait, assert: 'assert.ok(true);'}\n", 0o644)
	write("croft.eval.yaml", "runners:\n  shell: {agent: {type: command, model: none, command: ./agent.sh}}\n", 0o644)
	suite, waiting := filepath.Join(dir, "count.suite.yaml"), filepath.Join(dir, "wait.suite.yaml")
	config := filepath.Join(t.TempDir(), "croft.yaml")
	if err := os.WriteFile(config, []byte("version: 1\nevals: {dir: "+t.TempDir()+", suites: ["+suite+", "+waiting+"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, data, "--config", config)
	get := func(path string, v any) {
		t.Helper()
		text := s.text("GET", path, "")
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Fatalf("GET %s: %v: %s", path, err, text)
		}
	}
	start := func(body string) client.EvalRun {
		t.Helper()
		var run client.EvalRun
		text := s.text("POST", "/v1/evals", body)
		if err := json.Unmarshal([]byte(text), &run); err != nil || run.ID == "" {
			t.Fatalf("start: %v: %s", err, text)
		}
		return run
	}
	wait := func(id string, ready func(client.EvalDetails) bool) client.EvalDetails {
		t.Helper()
		var run client.EvalDetails
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			run = client.EvalDetails{}
			get("/v1/evals/"+id, &run)
			if ready(run) {
				return run
			}
			if time.Now().After(deadline) || run.State == client.EvalFailed || run.State == client.EvalEnded {
				t.Fatalf("the run is %+v", run)
			}
		}
	}
	ended := func(r client.EvalDetails) bool { return r.State == client.EvalEnded }

	status := func(method, path, body string) int {
		t.Helper()
		res := s.do(method, path, body)
		res.Body.Close()
		return res.StatusCode
	}
	if got := status("POST", "/v1/evals", `{"suite":"/etc/passwd"}`); got != http.StatusForbidden {
		t.Errorf("a suite that is not configured: %d", got)
	}
	first := wait(start(`{"suite":"`+suite+`"}`).ID, ended)
	if first.Done != 2 || first.Passed != 1 || first.Executions != 2 || first.Suite != suite || first.CostUSD == nil || *first.CostUSD != 1 || first.Tokens == nil || *first.Tokens != 50 {
		t.Errorf("the first run is %+v", first.EvalRun)
	}
	if len(first.Matrix.Cases) != 2 || len(first.Matrix.Runners) != 1 || first.Matrix.Runners[0].PassRate != 0.5 || first.Matrix.Runners[0].Agent != "command" || first.Matrix.Cases[0].Executions[0].Status != "passed" {
		t.Errorf("its matrix is %+v", first.Matrix)
	}
	var x client.EvalExecution
	get("/v1/evals/"+first.ID+"/execution?case=fails&runner=shell", &x)
	if x.Passed || x.Error == nil || !strings.Contains(x.Error.Message, "three were wanted") || !strings.Contains(x.Diff, "+more") || !strings.Contains(string(x.Report), "wc -l notes.txt") || len(x.Sessions) != 1 {
		t.Errorf("the failed execution is %+v, %s", x, x.Report)
	}
	second := wait(start(`{"suite":"`+suite+`","cases":["counts"]}`).ID, ended)
	var c struct {
		Common, OnlyA int
	}
	get("/v1/evals/compare?a="+first.ID+"&b="+second.ID, &c)
	if c.Common != 1 || c.OnlyA != 1 {
		t.Errorf("compared %+v", c)
	}
	for _, path := range []string{"/v1/evals/missing", "/v1/evals/..%2f..", "/v1/evals/" + first.ID + "/execution?case=x&runner=shell"} {
		if got := status("GET", path, ""); got != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, got)
		}
	}

	// A run that goes on is stopped.
	third := start(`{"suite":"` + waiting + `"}`)
	wait(third.ID, func(r client.EvalDetails) bool { return r.Executions == 1 && r.State == client.EvalRunning })
	var stopped client.EvalRun
	if err := json.Unmarshal([]byte(s.text("POST", "/v1/evals/"+third.ID+"/stop", "")), &stopped); err != nil || stopped.State != client.EvalStopped {
		t.Errorf("stopped %+v, %v", stopped, err)
	}
	var all client.EvalRuns
	get("/v1/evals", &all)
	if len(all.Runs) != 3 || all.Runs[0].ID != third.ID || len(all.Suites) != 2 {
		t.Errorf("listed %+v", all)
	}
	s.stop()
}
