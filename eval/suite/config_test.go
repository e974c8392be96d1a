package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func TestConfigResolvesPathsAndKeepsTheOrder(t *testing.T) {
	const js = `
export default {
  run: { cwd: ".", outputDir: "./out", reporter: "./rep.ts", schedule: "parallel", maxParallel: 3, repeat: 2, retryFailed: 1, tags: ["x"],
    workspace: { mode: "isolated", templateDir: "t", bootstrap: { command: "./b.sh", args: ["scripts/x", "--seed=./y", "../z", "/abs"], timeoutMs: 1, env: { A: "1" } } } },
  defaults: { timeoutMs: 1 },
  runners: {
    zeta: { agent: { type: "claude-code", model: "haiku", command: "../bin/claude", commandArgs: ["x", "."], env: { K: process.env.CROFT_TEST_KEY ?? "none" } } },
    alpha: { agent: { type: "command", command: "agent" } },
  },
  snapshots: { tolerance: { percent: 5 }, path: "s.json" },
  croft: { provider: "sandbox", allowNet: ["api.example.com"], limits: { memoryBytes: 1e9, cpus: 1.5 }, bootstrap: "once", policy: { network: { mode: "none" } }, judge: { model: "m" } },
};`
	const yaml = `
run:
  cwd: .
  outputDir: ./out
  reporter: ./rep.ts
  schedule: parallel
  maxParallel: 3
  repeat: 2
  retryFailed: 1
  tags: [x]
  workspace:
    mode: isolated
    templateDir: t
    bootstrap: {command: ./b.sh, args: [scripts/x, --seed=./y, ../z, /abs], timeoutMs: 1, env: {A: "1"}}
defaults: {timeoutMs: 1}
runners:
  zeta: {agent: {type: claude-code, model: haiku, command: ../bin/claude, commandArgs: [x, .], env: {K: none}}}
  alpha: {agent: {type: command, command: agent}}
snapshots: {tolerance: {percent: 5}, path: s.json}
croft: {provider: sandbox, allowNet: [api.example.com], limits: {memoryBytes: 1000000000, cpus: 1.5}, bootstrap: once, policy: {network: {mode: none}}, judge: {model: m}}
`
	for name, text := range map[string]string{"skillgym.config.mts": js, "skillgym.config.cjs": strings.Replace(js, "export default", "module.exports =", 1), "croft.eval.yaml": yaml} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, "sub/evals/a.ts", "", name, text)
			got, err := LoadConfig(t.Context(), filepath.Join(dir, "sub/evals/a.ts"), "")
			if err != nil {
				t.Fatal(err)
			}
			in := func(p string) string { return filepath.Join(dir, p) }
			percent := 5.0
			want := &Config{Path: in(name), Dir: dir, Timeout: 1e6,
				Run: RunOptions{Cwd: dir, OutputDir: in("out"), Reporter: in("rep.ts"), Schedule: "parallel", MaxParallel: 3, Repeat: 2, RepeatFailure: 1, Tags: []string{"x"},
					Workspace: &Workspace{Mode: ModeIsolated, TemplateDir: in("t"), Bootstrap: &Bootstrap{Command: in("b.sh"),
						Args: []string{"scripts/x", "--seed=./y", filepath.Join(filepath.Dir(dir), "z"), "/abs"}, Timeout: 1e6, Env: map[string]string{"A": "1"}}}},
				Runners: []Runner{
					{ID: "zeta", Agent: Agent{Type: "claude-code", Model: "haiku", Command: filepath.Join(filepath.Dir(dir), "bin/claude"), CommandArgs: []string{"x", dir}, Env: map[string]string{"K": "none"}}},
					{ID: "alpha", Agent: Agent{Type: "command", Command: "agent"}},
				},
				Snapshots: &Snapshots{Path: in("s.json"), Percent: &percent},
				Croft: Croft{Provider: "sandbox", Policy: []byte(`{"network":{"mode":"none"}}`), AllowNet: []string{"api.example.com"}, Limits: driver.Limits{driver.ResourceMemory: {Max: 1e9}, driver.ResourceCPU: {Max: 1500}},
					Bootstrap: "once", Judge: &JudgeConfig{API: "openai", Model: "m"}},
				Notices: []string{"run.retryFailed is deprecated: use run.repeatFailure"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	with := func(rest string) string {
		return `export default { runners: { a: { agent: { type: "codex", model: "m" } } }, ` + rest + ` };`
	}
	agent := func(text string) string { return `export default { runners: { a: { agent: ` + text + ` } } };` }
	for _, test := range []struct{ name, text, want string }{
		{"not an object", `export default 7;`, "Invalid config: expected plain object"},
		{"unknown key", with(`x: 1`), "Unknown config key: x"},
		{"unknown key below", with(`run: { worksapce: {} }`), "Unknown config key: run.worksapce"},
		{"null", with(`run: null`), "Invalid config at run: expected plain object"},
		{"no runners", `export default {};`, "Invalid config at runners: expected plain object"},
		{"empty runners", `export default { runners: {} };`, "Invalid config at runners: expected non-empty object"},
		{"runner key", `export default { runners: { a: { model: "m" } } };`, "Unknown config key: runners.a.model"},
		{"type", agent(`{ type: "gpt", model: "m" }`), `Invalid config at runners.a.agent.type: expected "codex", "opencode", "claude-code", "cursor-agent", "copilot"`},
		{"model", agent(`{ type: "codex" }`), "Invalid config at runners.a.agent.model: expected non-empty string"},
		{"blank", agent(`{ type: "codex", model: " " }`), "Invalid config at runners.a.agent.model: expected non-empty string"},
		{"args", agent(`{ type: "codex", model: "m", commandArgs: "x" }`), "Invalid config at runners.a.agent.commandArgs: expected array of non-empty strings"},
		{"arg", agent(`{ type: "codex", model: "m", commandArgs: ["x", 1] }`), "Invalid config at runners.a.agent.commandArgs[1]: expected non-empty string"},
		{"env", agent(`{ type: "codex", model: "m", env: { A: 1 } }`), "Invalid config at runners.a.agent.env.A: expected string"},
		{"command", agent(`{ type: "command" }`), "Invalid config at runners.a.agent.command: expected non-empty string"},
		{"schedule", with(`run: { schedule: "x" }`), "Invalid config at run.schedule: expected one of: serial, parallel, isolated-by-runner"},
		{"repeat", with(`run: { repeat: 0 }`), "Invalid config at run.repeat: expected integer >= 1"},
		{"repeatFailure", with(`run: { repeatFailure: -1 }`), "Invalid config at run.repeatFailure: expected integer >= 0"},
		{"timeout", with(`defaults: { timeoutMs: "1" }`), "Invalid config at defaults.timeoutMs: expected integer >= 1"},
		{"mode", with(`run: { workspace: { mode: "x" } }`), `Invalid config at run.workspace.mode: expected "none", "shared", or "isolated"`},
		{"tolerance", with(`snapshots: { tolerance: {} }`), "Invalid config at snapshots.tolerance: expected at least one of absolute or percent"},
		{"no tolerance", with(`snapshots: {}`), "Invalid config at snapshots.tolerance: expected plain object"},
		{"metric", with(`snapshots: { metric: "x", tolerance: { percent: 1 } }`), "Invalid config at snapshots.metric: expected one of: totalTokens, inputTokens, outputTokens, reasoningTokens, cacheTokens"},
		{"negative", with(`snapshots: { tolerance: { percent: -1 } }`), "Invalid config at snapshots.tolerance.percent: expected number >= 0"},
		{"throws", `throw new Error("no");`, "Error: no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := write(t, "a.ts", "", "skillgym.config.ts", test.text)
			_, err := LoadConfig(t.Context(), filepath.Join(dir, "a.ts"), "")
			if err == nil || !strings.Contains(err.Error(), test.want) || fault.Of(err) != fault.InvalidArgument {
				t.Errorf("error = %v\nwant it to contain %q", err, test.want)
			}
		})
	}
}

func TestFindingTheConfig(t *testing.T) {
	const ok = `module.exports = { runners: { a: { agent: { type: "codex", model: "m" } } } };`
	dir := write(t, "a.ts", "", "skillgym.config.js", ok, "skillgym.config.cjs", ok, "sub/a.ts", "", "sub/croft.eval.yaml", "runners: {b: {agent: {type: codex, model: m}}}\n", "sub/bad.eval.yaml", "runners:\n  a: 7\n")
	_, err := LoadConfig(t.Context(), filepath.Join(dir, "a.ts"), "")
	if want := "Multiple config files found in " + dir + ": skillgym.config.cjs, skillgym.config.js"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("two files: %v, want %s", err, want)
	}
	cfg, err := LoadConfig(t.Context(), filepath.Join(dir, "sub/a.ts"), "")
	if err != nil || cfg.Runners[0].ID != "b" {
		t.Errorf("nearest: %+v, %v, want that of sub", cfg, err)
	}
	cfg, err = LoadConfig(t.Context(), filepath.Join(dir, "sub/a.ts"), filepath.Join(dir, "skillgym.config.cjs"))
	if err != nil || cfg.Runners[0].ID != "a" {
		t.Errorf("explicit: %+v, %v, want that which was named", cfg, err)
	}
	_, err = LoadConfig(t.Context(), "a.ts", filepath.Join(dir, "none.ts"))
	if fault.Of(err) != fault.NotFound {
		t.Errorf("explicit and missing: %v, want not found", err)
	}
	_, err = LoadConfig(t.Context(), "a.ts", filepath.Join(dir, "sub/bad.eval.yaml"))
	if want := "bad.eval.yaml:2:6: invalid argument: Invalid config at runners.a: expected plain object"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("place in YAML: %v, want %s", err, want)
	}
	if _, err := os.Stat("/skillgym.config.ts"); err == nil {
		t.Fatal("the host has a configuration in its root")
	}
	_, err = LoadConfig(t.Context(), "/a.ts", "")
	if want := "No skillgym config found. Create skillgym.config.ts with a non-empty runners map."; err == nil || !strings.Contains(err.Error(), want) || fault.Of(err) != fault.NotFound {
		t.Errorf("none: %v, want %s", err, want)
	}
}

// TestEveryLimitHasAKey gives each key of croft.limits a number of its own.
func TestEveryLimitHasAKey(t *testing.T) {
	want, lines := driver.Limits{}, []string{}
	for i, r := range driver.Resources {
		n := int64(100 + i)
		lines = append(lines, fmt.Sprintf("%s: %d", limitKey(r), n))
		switch r.Unit {
		case driver.UnitMillicores:
			n *= 1000
		case driver.UnitNanoseconds:
			n *= int64(time.Millisecond)
		}
		want[r.Name] = driver.Limit{Max: n}
	}
	path := filepath.Join(t.TempDir(), "skillgym.config.yaml")
	text := "runners: {a: {agent: {type: command, command: x}}}\ncroft: {limits: {outputBytes: 7, " + strings.Join(lines, ", ") + "}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := LoadConfig(t.Context(), filepath.Join(filepath.Dir(path), "a.ts"), path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, cfg.Croft.Limits); diff != "" || cfg.Croft.OutputBytes != 7 {
		t.Errorf("output %d, and limits differ (-want +got):\n%s", cfg.Croft.OutputBytes, diff)
	}
}
