package agent

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInvocations holds the command lines and the environments, which are
// skillgym's where it has them.
func TestInvocations(t *testing.T) {
	const opencodeEnv = "XDG_CACHE_HOME=A/opencode-xdg/cache XDG_CONFIG_HOME=A/opencode-xdg/config XDG_DATA_HOME=A/opencode-xdg/data XDG_STATE_HOME=A/opencode-xdg/state"
	const codexEnv = "CODEX_HOME=A/codex-home CODEX_SQLITE_HOME=A/codex-home/sqlite"
	const copilotEnv = "COPILOT_AUTO_UPDATE=false COPILOT_HOME=A/copilot-home COPILOT_OTEL_FILE_EXPORTER_PATH=A/copilot-otel.jsonl NO_COLOR=1"
	const copilotFlags = "--output-format json --stream on --no-auto-update --no-custom-instructions --disable-builtin-mcps --no-remote --allow-all-tools --disallow-temp-dir -C W"
	const geminiEnv = "GEMINI_CLI_HOME=A/gemini-home GEMINI_CLI_NO_RELAUNCH=true GEMINI_CLI_TRUST_WORKSPACE=true"
	for _, tt := range []struct {
		name, argv, env string
		cfg             Config
		resume, prompt  string
		sandboxed       bool
	}{
		{"opencode", "opencode run --model m --format json --thinking go", opencodeEnv, Config{Type: "opencode"}, "", "go", false},
		{"opencode, resumed", "opencode run --model m --session s --format json --thinking why", opencodeEnv, Config{Type: "opencode"}, "s", "why", false},
		{"codex", "npx codex exec --model m --json --skip-git-repo-check -C W go", codexEnv, Config{Type: "codex"}, "", "go", false},
		{"codex, a stub", "node stub.js codex exec --model m --json --skip-git-repo-check -C W go", codexEnv, Config{Type: "codex", Command: "node", CommandArgs: []string{"stub.js"}}, "", "go", false},
		{"codex itself", "/bin/codex -c a=b exec --dangerously-bypass-approvals-and-sandbox --model m --json --skip-git-repo-check -C W go", codexEnv,
			Config{Type: "codex", Command: "/bin/codex", CommandArgs: []string{"-c", "a=b"}}, "", "go", true},
		{"codex, resumed", "npx codex exec --model m --skip-git-repo-check resume s why --json", codexEnv, Config{Type: "codex"}, "s", "why", false},
		{"codex, whose home is ours", "npx codex exec --model m --json --skip-git-repo-check -C W go", codexEnv, Config{Type: "codex", Env: map[string]string{"CODEX_HOME": "/mine"}}, "", "go", false},
		{"claude", "claude -p --output-format stream-json --verbose --dangerously-skip-permissions --model m go", "CLAUDE_CONFIG_DIR=A/claude-home X=1",
			Config{Type: "claude-code", Env: map[string]string{"X": "1"}}, "", "go", false},
		{"claude, whose home is the user's", "claude -p --output-format stream-json --verbose --dangerously-skip-permissions --model m -- -go", "CLAUDE_CONFIG_DIR=/mine",
			Config{Type: "claude-code", Env: map[string]string{"CLAUDE_CONFIG_DIR": "/mine"}}, "", "-go", false},
		{"claude, sandboxed and resumed", "claude -p -r s --output-format stream-json --verbose --dangerously-skip-permissions --model m why",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CONFIG_DIR=A/claude-home DISABLE_AUTOUPDATER=1 IS_SANDBOX=1", Config{Type: "claude-code"}, "s", "why", true},
		{"cursor", "agent -p --output-format stream-json --trust --force --workspace W --model m go", "", Config{Type: "cursor-agent"}, "", "go", false},
		{"cursor, resumed", "agent -p --output-format stream-json --trust --force --workspace W --resume s --model m why", "", Config{Type: "cursor-agent"}, "s", "why", false},
		{"copilot", "copilot -p go --model m " + copilotFlags, copilotEnv, Config{Type: "copilot"}, "", "go", false},
		{"copilot, resumed", "copilot -p why --resume=s --model m " + copilotFlags, copilotEnv, Config{Type: "copilot"}, "s", "why", false},
		{"gemini", "gemini --model m --yolo --output-format stream-json -p go", geminiEnv, Config{Type: "gemini"}, "", "go", false},
		{"gemini, resumed", "gemini --model m --yolo --output-format stream-json --resume s --prompt=-why", geminiEnv, Config{Type: "gemini"}, "s", "-why", false},
		{"acp", "x --acp", "Y=2", Config{Type: "acp", Command: "x", CommandArgs: []string{"--acp"}, Env: map[string]string{"Y": "2"}}, "", "go", false},
		{"command", "x a -go", "CROFT_EVAL_HOME=A/home CROFT_EVAL_MODEL=m CROFT_EVAL_PROMPT=-go CROFT_EVAL_RUNNER=r CROFT_EVAL_WORKSPACE=W",
			Config{Type: "command", Command: "x", CommandArgs: []string{"a"}}, "", "-go", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Model = "m"
			in := input(t, tt.cfg)
			in.Prompt, in.Resume, in.Sandboxed = tt.prompt, tt.resume, tt.sandboxed
			inv, err := mustNew(t, tt.cfg).Prepare(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			short := strings.NewReplacer(in.Artifacts, "A", in.Dir, "W")
			if got := short.Replace(inv.String()); got != tt.argv {
				t.Errorf("runs\n%s, want\n%s", got, tt.argv)
			}
			var env []string
			for _, k := range slices.Sorted(maps.Keys(inv.Env)) {
				env = append(env, k+"="+short.Replace(inv.Env[k]))
			}
			if diff := cmp.Diff(strings.Fields(tt.env), env, cmp.Transformer("", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if inv.Dir != in.Dir {
				t.Errorf("runs in %s", inv.Dir)
			}
		})
	}
}

// TestSeeds: the user's credentials and settings come into the home, and nothing
// else; a session that is resumed keeps the home that it has, with those files copied
// again, since Run removes them after a session.
func TestSeeds(t *testing.T) {
	user := t.TempDir()
	put(t, user, map[string]string{
		".claude/.credentials.json": "c", ".claude/settings.json": "s", ".claude/history.jsonl": "private", ".claude/skills/x/SKILL.md": "x",
		".codex/auth.json": "a", ".codex/config.toml": "t", ".codex/sessions/old.jsonl": "private",
		".local/share/opencode/auth.json": "o", ".gemini/settings.json": "g", ".gemini/tmp/x": "private",
	})
	for typ, want := range map[string][]string{
		"claude-code": {"claude-home/.claude.json", "claude-home/.credentials.json", "claude-home/settings.json"},
		"codex":       {"codex-home/auth.json", "codex-home/config.toml"},
		"opencode":    {"opencode-xdg/data/opencode/auth.json"},
		"gemini":      {"gemini-home/.gemini/settings.json"},
		"copilot":     nil, "cursor-agent": nil,
	} {
		cfg := Config{Type: typ, Model: "m"}
		in := input(t, cfg)
		in.UserHome = user
		a := mustNew(t, cfg)
		if _, err := a.Prepare(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, files(t, in.Artifacts)); diff != "" {
			t.Errorf("%s: the home (-want +got):\n%s", typ, diff)
		}
		for _, name := range want {
			if err := os.WriteFile(filepath.Join(in.Artifacts, name), []byte("changed"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		in.Resume, in.Runtime, in.Artifacts = "s", in.Artifacts, t.TempDir()
		inv, err := a.Prepare(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range want {
			text, err := os.ReadFile(filepath.Join(in.Runtime, name))
			if changed := string(text) == "changed"; err != nil || changed != (filepath.Base(name) == ".claude.json") {
				t.Errorf("%s: resumed, %s is %q, %v", typ, name, text, err)
			}
		}
		for k, v := range inv.Env {
			if strings.HasSuffix(k, "_HOME") && !strings.HasPrefix(v, in.Runtime) {
				t.Errorf("%s: resumed, %s is %s", typ, k, v)
			}
		}
	}
}

// files lists the regular files below a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, rerr := filepath.Rel(dir, path)
			all = append(all, rel)
			return rerr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSteps counts the rounds of streams, line by line.
func TestSteps(t *testing.T) {
	for typ, lines := range map[string][]struct {
		line string
		want int
	}{
		"codex": {{`{"type":"item.completed","item":{"type":"reasoning","id":"i0"}}`, 0}, {`{"type":"item.completed","item":{"type":"agent_message","id":"i1"}}`, 1},
			{`{"type":"item.completed","item":{"type":"agent_message","id":"i1"}}`, 1}, {`{"type":"item.completed","item":{"type":"agent_message"}}`, 2}, {`{"type":"item.completed","item":{"type":"agent_message"}}`, 3}},
		"opencode":     {{`{"type":"step_start"}`, 0}, {`{"type":"step_finish"}`, 1}, {`x`, 1}, {`{"type":"step_finish"}`, 2}},
		"claude-code":  {{`{"type":"assistant","message":{"id":"m1"}}`, 1}, {`{"type":"assistant","message":{"id":"m1"}}`, 1}, {`{"type":"assistant","message":{}}`, 1}, {`{"type":"user","message":{"id":"m9"}}`, 1}, {`{"type":"assistant","message":{"id":"m2"}}`, 2}},
		"cursor-agent": {{`{"type":"tool_call","subtype":"started","model_call_id":"a"}`, 1}, {`{"type":"tool_call","subtype":"started","model_call_id":"a"}`, 1}, {`{"type":"tool_call","subtype":"completed","model_call_id":"b"}`, 1}, {`{"type":"assistant"}`, 2}, {`{"type":"assistant"}`, 3}},
		"copilot":      {{`{"type":"assistant.message","data":{"messageId":"a"}}`, 1}, {`{"type":"assistant.message","data":{"messageId":"a"}}`, 1}, {`{"type":"assistant.message","data":{"messageId":"b"}}`, 2}},
		"gemini":       {{`{"type":"message","role":"user"}`, 0}, {`{"type":"message","role":"assistant","delta":true}`, 1}, {`{"type":"message","role":"assistant","delta":true}`, 1}, {`{"type":"tool_use"}`, 1}, {`{"type":"tool_use"}`, 1}, {`{"type":"tool_result"}`, 1}, {`{"type":"tool_use"}`, 2}},
		"command":      {{`{"type":"step"}`, 1}, {`{"type":"message"}`, 1}, {`{"type":"step"}`, 2}},
	} {
		count := mustNew(t, Config{Type: typ, Model: "m"}).Steps()
		for _, l := range lines {
			if got := count([]byte(l.line)); got != l.want {
				t.Errorf("%s: %d after %s, want %d", typ, got, l.line, l.want)
			}
		}
	}
}

// TestHosts: what an agent must reach is where its model is configured to be.
func TestHosts(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Type: "claude-code"}, "api.anthropic.com"},
		{Config{Type: "claude-code", Env: map[string]string{"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080/x"}}, "127.0.0.1:8080"},
		{Config{Type: "opencode", Model: "openai/gpt-5"}, "api.openai.com"},
	} {
		if tt.cfg.Model == "" {
			tt.cfg.Model = "m"
		}
		inv, err := mustNew(t, tt.cfg).Prepare(context.WithoutCancel(t.Context()), input(t, tt.cfg))
		if err != nil || !slices.Equal(inv.Hosts, []string{tt.want}) {
			t.Errorf("%+v must reach %q, %v, want %s", tt.cfg, inv.Hosts, err, tt.want)
		}
	}
}
