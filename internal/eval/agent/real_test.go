package agent

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testmodel"
	"github.com/croft-run/croft/workspace/driver"
)

var recordTo = flag.String("record", "", "directory to which the streams of the real agents are written")

// plain runs programs as children of the test.
func plain(ctx context.Context, inv Invocation) (Exit, error) {
	if inv.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, inv.Timeout)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, inv.Argv[0], inv.Argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = inv.Dir, inv.Stdin, inv.Stdout, inv.Stderr
	home, err := os.MkdirTemp("", "croft-home-") // agents write there what their own settings do not move
	if err != nil {
		return Exit{}, err
	}
	defer os.RemoveAll(home)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "CI=1", "NO_PROXY=127.0.0.1", "HOME=" + home}
	for k, v := range inv.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 30 * time.Second
	start := time.Now()
	err = cmd.Run()
	exit := Exit{Duration: time.Since(start)}
	if cmd.ProcessState == nil {
		return exit, err
	}
	exit.Code = cmd.ProcessState.ExitCode()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		exit.PeakMemory = usage.Maxrss * 1024
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		exit.Cause = driver.CauseTimeout
	case ctx.Err() != nil:
		exit.Cause = driver.CauseCanceled
	}
	return exit, nil
}

// A cli is a real program, and what makes it ask our model.
type cli struct {
	bin   string
	cfg   Config
	env   func(base string) map[string]string
	home  func(base string) map[string]string // the user's own files
	files func(base string) map[string]string // the project's
	steps func(dir string) []testmodel.Step

	ran    []string // commands and how they exited
	skills []string
	rounds int // as the program's stream tells them

	redirect bool // the model is told by Redirect
}

// codexWait is how long Codex waits for a command to end, the most that it does:
// of one that takes longer it tells no exit code.
const codexWait = 30_000

const skillText = "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n"

var clis = map[string]cli{
	"claude": {
		bin: "claude", cfg: Config{Type: "claude-code", Model: "claude-sonnet-4-5"},
		env: func(base string) map[string]string {
			return map[string]string{"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "none"}
		},
		files: func(string) map[string]string { return map[string]string{".claude/skills/greet/SKILL.md": skillText} },
		steps: func(dir string) []testmodel.Step {
			return []testmodel.Step{
				{Tool: "Skill", Args: map[string]any{"skill": "greet"}},
				{Tool: "Read", Args: map[string]any{"file_path": dir + "/notes.txt"}},
				{Tool: "Bash", Args: map[string]any{"command": "wc -l < notes.txt", "description": "count"}},
				{Tool: "Bash", Args: map[string]any{"command": "echo sorry >&2; exit 3", "description": "fail"}},
				{Tool: "Write", Args: map[string]any{"file_path": dir + "/made.txt", "content": "made\n"}},
			}
		},
		ran:    []string{"wc -l < notes.txt: 0", "echo sorry >&2; exit 3: 3"},
		skills: []string{"greet explicit"}, rounds: 6,
	},
	"codex": {
		bin: "codex", cfg: Config{Type: "codex", Model: "scripted"},
		home: func(base string) map[string]string {
			return map[string]string{".codex/config.toml": "model_provider = \"scripted\"\n\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"" + base + "/v1\"\nwire_api = \"responses\"\n"}
		},
		steps: func(string) []testmodel.Step {
			return []testmodel.Step{
				{Tool: "exec_command", Args: map[string]any{"cmd": "cat notes.txt", "yield_time_ms": codexWait}},
				{Tool: "exec_command", Args: map[string]any{"cmd": "echo sorry >&2; exit 3", "yield_time_ms": codexWait}},
				{Tool: "exec_command", Args: map[string]any{"cmd": "echo made > made.txt", "yield_time_ms": codexWait}},
			}
		},
		ran:    []string{"cat notes.txt: 0", "echo sorry >&2; exit 3: 3", "echo made > made.txt: 0"},
		rounds: 1,
	},
	"opencode": {
		bin: "opencode", cfg: Config{Type: "opencode", Model: "scripted/scripted"},
		files: func(base string) map[string]string {
			return map[string]string{
				"opencode.json": `{"model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": false, "share": "disabled",
					"provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": {"baseURL": "` + base + `/v1", "apiKey": "none"},
					"models": {"scripted": {"name": "scripted", "tool_call": true}}}}}`,
				".opencode/skills/greet/SKILL.md": skillText,
			}
		},
		steps: func(dir string) []testmodel.Step {
			return []testmodel.Step{
				{Tool: "skill", Args: map[string]any{"name": "greet"}},
				{Tool: "read", Args: map[string]any{"filePath": dir + "/notes.txt"}},
				{Tool: "bash", Args: map[string]any{"command": "wc -l < notes.txt", "description": "count"}},
				{Tool: "bash", Args: map[string]any{"command": "echo sorry >&2; exit 3", "description": "fail"}},
				{Tool: "write", Args: map[string]any{"filePath": dir + "/made.txt", "content": "made\n"}},
			}
		},
		ran:    []string{"wc -l < notes.txt: 0", "echo sorry >&2; exit 3: 3"},
		skills: []string{"greet explicit"}, rounds: 6,
	},
	"gemini": {
		bin: "gemini", cfg: Config{Type: "gemini", Model: "gemini-2.5-flash"},
		env: func(base string) map[string]string {
			return map[string]string{"GOOGLE_GEMINI_BASE_URL": base, "GEMINI_API_KEY": "none"}
		},
		home: func(string) map[string]string {
			return map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`}
		},
		files: func(string) map[string]string { return map[string]string{".gemini/skills/greet/SKILL.md": skillText} },
		steps: func(dir string) []testmodel.Step {
			return []testmodel.Step{
				{Tool: "activate_skill", Args: map[string]any{"name": "greet"}},
				{Tool: "read_file", Args: map[string]any{"file_path": dir + "/notes.txt"}},
				{Tool: "run_shell_command", Args: map[string]any{"command": "wc -l < notes.txt", "description": "count"}},
				{Tool: "run_shell_command", Args: map[string]any{"command": "echo sorry >&2; exit 3", "description": "fail"}},
				{Tool: "write_file", Args: map[string]any{"file_path": dir + "/made.txt", "content": "made\n"}},
			}
		},
		ran:    []string{"wc -l < notes.txt: 0", "echo sorry >&2; exit 3: 3"},
		skills: []string{"greet explicit"}, rounds: 6,
	},
	"copilot": { // with a model of its own; without one somebody must log in
		bin: "copilot", cfg: Config{Type: "copilot", Model: "scripted"},
		env: func(base string) map[string]string {
			return map[string]string{"COPILOT_PROVIDER_BASE_URL": base + "/v1", "COPILOT_PROVIDER_API_KEY": "none"}
		},
		steps: func(dir string) []testmodel.Step {
			return []testmodel.Step{
				{Tool: "view", Args: map[string]any{"path": dir + "/notes.txt"}},
				{Tool: "bash", Args: map[string]any{"command": "wc -l < notes.txt", "description": "count", "initial_wait": 120}},
				{Tool: "bash", Args: map[string]any{"command": "echo sorry >&2; exit 3", "description": "fail", "initial_wait": 120}},
				{Tool: "create", Args: map[string]any{"path": dir + "/made.txt", "file_text": "made\n"}},
			}
		},
		ran: []string{"wc -l < notes.txt: 0", "echo sorry >&2; exit 3: 3"}, rounds: 5,
	},
}

// put writes files below a directory.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// realDir makes a directory that is not below that for temporary files, where Codex
// refuses to keep its helpers.
func realDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(cache, "croft"), "eval-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testenv.RemoveAll(t, dir) })
	return dir
}

// serve lets a model answer on an address of its own.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, served := &http.Server{Handler: h}, make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-served })
	return "http://" + l.Addr().String()
}

const realPrompt = "Count the lines of notes.txt."

// session runs the program once with a model that plays its steps.
func (c cli) session(t *testing.T) (Outcome, *testmodel.Model, Input) {
	t.Helper()
	var model *testmodel.Model
	out, in := c.run(t, func(dir string) http.Handler {
		model = &testmodel.Model{Steps: c.steps(dir), Last: "There are 2 lines."}
		return model
	})
	return out, model, in
}

// run runs the program in a fresh project, with a model that knows its directory.
func (c cli) run(t *testing.T, model func(dir string) http.Handler) (Outcome, Input) {
	t.Helper()
	a, in, base := c.start(t, model)
	out, err := Run(t.Context(), RunnerFunc(plain), a, in)
	if err != nil {
		t.Fatal(err)
	}
	if *recordTo != "" && out.Failure == nil {
		c.keep(t, in, out, base)
	}
	return out, in
}

// start makes a project and a home, and lets a model answer.
func (c cli) start(t *testing.T, model func(dir string) http.Handler) (Agent, Input, string) {
	t.Helper()
	bin := testenv.NeedsAgent(t, c.bin)
	testenv.OwnNetwork(t)
	top := realDir(t)
	in := Input{Prompt: realPrompt, Dir: top + "/work", Artifacts: top + "/artifacts", UserHome: top + "/home", Sandboxed: true, Timeout: 10 * time.Minute,
		Runner: session.NewRunner(c.bin, session.Agent{Type: c.cfg.Type, Model: c.cfg.Model})}
	base := serve(t, model(in.Dir))
	put(t, in.Dir, map[string]string{"notes.txt": "one\ntwo\n"})
	for dir, files := range map[string]func(string) map[string]string{in.Dir: c.files, in.UserHome: c.home} {
		if files != nil {
			put(t, dir, files(base))
		}
	}
	c.cfg.Command, c.cfg.Env = bin, map[string]string{}
	if c.env != nil {
		c.cfg.Env = c.env(base)
	}
	if c.cfg.Type == "acp" {
		c.cfg.Env["HOME"] = in.UserHome
	}
	if c.redirect {
		var err error
		if c.cfg, _, err = Redirect(c.cfg, base); err != nil {
			t.Fatal(err)
		}
	}
	return mustNew(t, c.cfg), in, base
}

// keep writes what golden tests are made of, without what is of this machine and
// what is long and says nothing about the session.
func (c cli) keep(t *testing.T, in Input, out Outcome, base string) {
	t.Helper()
	top, raw, to := filepath.Dir(in.Dir), out.Report.RawArtifacts, c.cfg.Type
	if to == "acp" {
		to += "-" + c.bin
	}
	files := map[string]string{"stdout.jsonl": raw.StdoutPath}
	if raw.SessionPath != "" {
		files["session.jsonl"] = raw.SessionPath
	}
	if c.cfg.Type == "opencode" {
		files["export.json"] = raw.ExportPath
	}
	long := regexp.MustCompile(`("(?:text|base_instructions|instructions)":"(?:[^"\\]|\\.){200})(?:[^"\\]|\\.)+"`)
	for name, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for from, to := range map[string]string{top: "/top", strings.TrimPrefix(top, "/"): "top", base: "http://model"} {
			text = bytes.ReplaceAll(text, []byte(from), []byte(to))
		}
		put(t, filepath.Join(*recordTo, to), map[string]string{name: string(long.ReplaceAll(text, []byte(`$1..."`)))})
	}
}

// TestRealAgents runs the real programs with a model that plays a script, and
// looks at what the reports say they did.
func TestRealAgents(t *testing.T) {
	t.Parallel()
	for name, c := range clis {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, model, in := c.session(t)
			if out.Failure != nil {
				text, _ := os.ReadFile(in.Artifacts + "/stderr.log")
				t.Fatalf("failure: %v\n%s\nresults %q of offers %q", out.Failure, text, model.Results(), model.Offers())
			}
			c.check(t, out.Report, in)
			if text, err := os.ReadFile(in.Dir + "/made.txt"); string(text) != "made\n" {
				t.Errorf("made.txt is %q, %v", text, err)
			}
			if out.Exit.PeakMemory == 0 || out.Report.SessionID == "" {
				t.Errorf("memory %d, session %q", out.Exit.PeakMemory, out.Report.SessionID)
			}
		})
	}
}

// check compares a report with the steps that the model took.
func (c cli) check(t *testing.T, r *session.Report, in Input) {
	t.Helper()
	var want, got []string
	for _, s := range c.steps(in.Dir) {
		want = append(want, s.Tool)
	}
	for _, e := range r.Events {
		if e.Type == session.ToolCall {
			got = append(got, e.Tool)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	var ran []string
	for _, cmd := range r.Commands {
		code := -1
		if cmd.ExitCode != nil {
			code = *cmd.ExitCode
		}
		if cmd.DurationMs == nil || cmd.Dir != in.Dir {
			t.Errorf("%q took %v in %q", cmd.Command, cmd.DurationMs, cmd.Dir)
		}
		ran = append(ran, fmt.Sprintf("%s: %d", cmd.Command, code))
	}
	if diff := cmp.Diff(c.ran, ran); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{in.Dir + "/notes.txt"}, r.Files.ObservedReads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	var skills []string
	for _, d := range r.DetectedSkills {
		skills = append(skills, d.Skill+" "+string(d.Confidence))
	}
	if diff := cmp.Diff(c.skills, skills); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
	rounds := float64(len(want) + 1)
	tokens := []*float64{r.Usage.InputTokens, r.Usage.OutputTokens, r.Usage.TotalTokens}
	if diff := cmp.Diff([]*float64{new(10 * rounds), new(5 * rounds), new(15 * rounds)}, tokens); diff != "" {
		t.Errorf("tokens of input, output and all (-want +got):\n%s", diff)
	}
	if r.FinalOutput != "There are 2 lines." || r.Steps != c.rounds {
		t.Errorf("final output %q after %d steps, want %d", r.FinalOutput, r.Steps, c.rounds)
	}
}
