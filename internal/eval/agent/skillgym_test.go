package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/internal/testenv"
)

// TestSkillgym lets npm's skillgym and us run the same agents, which play
// recorded sessions, and compares the reports field by field.
func TestSkillgym(t *testing.T) {
	bin := testenv.NeedsAgent(t, "skillgym")
	names := []string{"classic-claude-code", "classic-codex", "classic-opencode", "cursor-agent", "claude-code", "codex", "opencode"}
	dir, programs := t.TempDir(), map[string]string{}
	runners := map[string]any{}
	for _, name := range names {
		programs[name] = recorded(t, name)
		runners[name] = map[string]any{"agent": map[string]any{"type": typeOf(name), "model": "m", "command": programs[name]}}
	}
	config, err := json.Marshal(map[string]any{"run": map[string]any{"workspace": map[string]any{"mode": "isolated"}, "schedule": "parallel"}, "runners": runners})
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, map[string]string{
		"skillgym.config.mjs": "export default " + string(config) + ";\n",
		"suite.mjs":           fmt.Sprintf("export default [{id: 'one', prompt: %q, assert() { throw new Error('keep the workspace'); }}];\n", realPrompt),
	})
	cmd := exec.CommandContext(t.Context(), bin, "run", "suite.mjs", "--output-dir", "out", "--reporter", "json")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+t.TempDir())
	said, _ := cmd.CombinedOutput() // a case that fails is a status of 1
	found, err := filepath.Glob(filepath.Join(dir, "out", "*", "results.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("skillgym wrote %q, %v\n%s", found, err, said)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			compare(t, filepath.Dir(found[0]), name, programs[name])
		})
	}
}

// compare runs a session and compares its report with skillgym's.
func compare(t *testing.T, out, name, program string) {
	t.Helper()
	cfg := Config{Type: typeOf(name), Model: "m", Command: program}
	runner := session.NewRunner(name, session.Agent{Type: cfg.Type, Model: cfg.Model})
	artifacts := filepath.Join(out, "one", runner.PathKey, "repeat-1")
	text, err := os.ReadFile(filepath.Join(artifacts, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	theirs := Input{Artifacts: artifacts, Dir: filepath.Join(out, "workspaces", "one", runner.PathKey)}
	in := input(t, cfg)
	in.Prompt, in.Runner = realPrompt, runner
	o, err := Run(t.Context(), RunnerFunc(plain), mustNew(t, cfg), in)
	if err != nil || o.Failure != nil {
		t.Fatalf("run: %v, %v", err, o.Failure)
	}
	want, got := common(t, json.RawMessage(text), theirs), common(t, o.Report, in)
	if !strings.HasPrefix(name, "classic-") && cfg.Type == "codex" {
		// Of today's Codex skillgym sees neither commands nor reads, nor whose a
		// result is. All that it does see must be there.
		leaveOut(got, "command", "fileRead")
		delete(got["files"].(map[string]any), "observedReads")
		delete(want["files"].(map[string]any), "observedReads")
		for _, e := range got["events"].([]any) {
			if e := e.(map[string]any); e["type"] == "toolResult" {
				delete(e, "tool")
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the report (-skillgym +croft):\n%s", diff)
	}
}

// common returns a report as JSON without what is Croft's, and what differs
// from run to run.
func common(t *testing.T, v any, in Input) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(portable(t, v, in), &m); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"commands", "steps", "cost", "peakMemoryBytes"} {
		delete(m, own)
	}
	for _, differs := range []string{"startedAt", "endedAt", "durationMs"} {
		if m[differs] == nil {
			t.Errorf("the report has no %s", differs)
		}
		delete(m, differs)
	}
	return m
}

// leaveOut removes events of some types.
func leaveOut(report map[string]any, types ...string) {
	report["events"] = slices.DeleteFunc(report["events"].([]any), func(e any) bool {
		return slices.Contains(types, e.(map[string]any)["type"].(string))
	})
}
