package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testmodel"
)

// An agent is a real program that works with tools. What its page of docs/agents says to
// write into its files is what it gets; the rest makes it ask our model, without
// a key and without a person.
type agent struct {
	bin   string
	page  string
	files map[string]string // what the page calls a file, and where it is: below home~ or the project
	more  func(model, dir string) map[string]string
	off   []string // tools of its own that must not be there
	args  []string
	env   func(model string) []string
}

const prompt = "The tests of this project should pass."

// agentTime is after how long an agent is taken for one that hangs, and patience
// after how long our own program is.
const (
	agentTime = 10 * time.Minute
	patience  = 2 * time.Minute
)

var agents = map[string]agent{
	"claude": {
		bin: "claude", page: "docs/agents/claude-code.md",
		files: map[string]string{".mcp.json": ".mcp.json", ".claude/settings.json": ".claude/settings.json"},
		off:   []string{"Bash", "Edit", "Write", "Read", "Glob", "Grep", "NotebookEdit"},
		more: func(_, dir string) map[string]string { // somebody has said once that the project is trusted
			return map[string]string{"~/.claude.json": `{"hasCompletedOnboarding": true, "projects": {"` + dir + `": {"hasTrustDialogAccepted": true}}}`}
		},
		args: []string{"-p", prompt, "--output-format", "stream-json", "--verbose"},
		env: func(model string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
				// It begins without the tools of a server that takes longer: 5 s by default.
				"MCP_CONNECT_TIMEOUT_MS=120000", "MCP_TIMEOUT=120000"}
		},
	},
	"codex": {
		bin: "codex", page: "docs/agents/codex.md",
		files: map[string]string{"~/.codex/config.toml": "~/.codex/config.toml"},
		off:   []string{"shell", "local_shell", "shell_command", "exec_command", "write_stdin", "unified_exec", "apply_patch"},
		more: func(model, _ string) map[string]string {
			return map[string]string{"~/.codex/config.toml": "model = \"scripted\"\nmodel_provider = \"scripted\"\n",
				"~/.codex/config.toml+": "\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"" + model + "/v1\"\nwire_api = \"responses\"\n"}
		},
		args: []string{"exec", "--json", "--skip-git-repo-check", prompt},
	},
	"opencode": {
		bin: "opencode", page: "docs/agents/opencode.md",
		files: map[string]string{"opencode.json": "opencode.json"},
		off:   []string{"bash", "edit", "write", "read", "glob", "grep", "list", "patch"},
		more: func(model, _ string) map[string]string {
			return map[string]string{"~/.config/opencode/opencode.json": `{"model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": false, "share": "disabled",
				"provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": {"baseURL": "` + model + `/v1", "apiKey": "none"},
				"models": {"scripted": {"name": "scripted", "tool_call": true}}}}}`}
		},
		args: []string{"run", "--format", "json", prompt},
		env: func(string) []string {
			return []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"}
		},
	},
	"gemini": {
		bin: "gemini", page: "docs/agents/gemini.md",
		files: map[string]string{".gemini/settings.json": ".gemini/settings.json", ".gemini/croft.toml": ".gemini/croft.toml"},
		off:   []string{"run_shell_command", "replace", "write_file", "read_file", "read_many_files", "list_directory", "glob", "grep_search", "search_file_content"},
		more: func(_, _ string) map[string]string {
			return map[string]string{"~/.gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`}
		},
		args: []string{"-m", "gemini-2.5-flash", "-p", prompt, "--yolo", "--output-format", "stream-json"},
		env: func(model string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_API_KEY=none", "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true"}
		},
	},
}

// work is what the model does: it reads, edits in a wrong way, sees the test fail,
// and mends it.
var work = []testmodel.Step{
	{Tool: "Read", Args: map[string]any{"file_path": "sum.mjs"}},
	{Tool: "Edit", Args: map[string]any{"file_path": "sum.mjs", "old_string": "return 0", "new_string": "return a - b"}},
	{Tool: "run_tests", Args: map[string]any{}},
	{Tool: "Edit", Args: map[string]any{"file_path": "sum.mjs", "old_string": "a - b", "new_string": "a + b"}},
	{Tool: "run_tests", Args: map[string]any{}},
}

var wantOfWork = []string{"return 0", "replaced 1 occurrence", "adds", "replaced 1 occurrence", "passed"}

var project = map[string]string{
	"package.json": `{"name": "sum", "type": "module", "scripts": {"test": "node --test"}}`,
	"sum.mjs":      "export function sum(a, b) {\n  return 0;\n}\n",
	"sum.test.mjs": "import test from 'node:test';\nimport assert from 'node:assert';\nimport { sum } from './sum.mjs';\n\ntest('adds', () => assert.strictEqual(sum(2, 3), 5));\n",
}

// TestAgents lets the real agents work with Croft's tools as docs/agents says.
func TestAgents(t *testing.T) {
	croft := buildCroft(t)
	for _, name := range []string{"claude", "codex", "opencode", "gemini"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); agents[name].works(t, croft, "") })
	}
	for _, name := range []string{"claude", "codex", "opencode", "gemini"} {
		t.Run(name+" by two commands", func(t *testing.T) { t.Parallel(); agents[name].works(t, croft, twoCommands) })
	}
	for _, name := range []string{"claude", "opencode"} {
		t.Run(name+" over HTTP", func(t *testing.T) { t.Parallel(); agents[name].works(t, croft, "Over HTTP") })
	}
}

// twoCommands is the way of the two lines that the page of each agent has.
const twoCommands = "The quick way is two commands"

// commandLines returns the line that adds Croft's tools, and the line that uses them.
func (a agent) commandLines(t *testing.T) (add, use string) {
	t.Helper()
	data, err := os.ReadFile(a.page)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range blocksOf(string(data)) {
		if strings.Contains(f.before, twoCommands) {
			add, use, _ = strings.Cut(strings.TrimSpace(f.body), "\n")
		}
	}
	if add == "" || use == "" || strings.Contains(use, "\n") {
		t.Fatalf("%s has not two commands: %q, %q", a.page, add, use)
	}
	return add, use
}

// works runs an agent in a fresh project and a fresh home, with the
// configuration whose introduction on the page begins with way.
func (a agent) works(t *testing.T, croft, way string) {
	bin := testenv.NeedsAgent(t, a.bin)
	testenv.OwnNetwork(t)
	home, dir := agentHome(t), t.TempDir()
	t.Cleanup(func() { testenv.RemoveAll(t, dir) }) // as that of the home
	model := &testmodel.Model{Server: "croft", Steps: work, Last: "The tests pass."}
	env := []string{"HOME=" + home, "PATH=" + croft + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "CROFT_TOKEN=token-of-a-test",
		"CROFT_DATA=" + filepath.Join(home, "croft"), "NO_PROXY=127.0.0.1", "TERM=dumb", "CI=1"}
	base := serveModel(t, model)
	if a.env != nil {
		env = append(env, a.env(base)...)
	}
	put(t, home, dir, project)
	ctx, cancel := context.WithTimeout(t.Context(), agentTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, a.args...)
	switch way {
	case twoCommands:
		env = append(env, "PATH="+croft+":"+filepath.Dir(bin)+":"+os.Getenv("PATH"))
		a.putModel(t, home, dir, base)
		add, use := a.commandLines(t)
		first := exec.CommandContext(ctx, "sh", "-c", add)
		first.Dir, first.Env = dir, env
		if out, err := first.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", add, err, out)
		}
		cmd = exec.CommandContext(ctx, "sh", append([]string{"-c", use + ` "$@"`, "-"}, a.args...)...)
	case "":
		a.configure(t, home, dir, base, way, "")
	default:
		a.configure(t, home, dir, base, way, startHTTP(t, croft, dir, env))
	}
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, time.Minute
	start := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("%s took %v", a.bin, time.Since(start).Round(time.Millisecond))
	if err != nil {
		t.Errorf("%s: %v", a.bin, err)
	}
	defer func() {
		if t.Failed() {
			saveFailure(t, a.bin, out, model)
		}
	}()
	a.check(t, model, dir)
}

// check looks at what the agent offered, what it reported, and what it did.
func (a agent) check(t *testing.T, model *testmodel.Model, dir string) {
	t.Helper()
	offers := model.Offers()
	for _, want := range []string{"Read", "Edit", "Bash", "run_tests", "search_code", "symbol"} {
		if !slices.Contains(offers, want) {
			t.Errorf("the agent does not offer its model %s; it offers %q", want, offers)
		}
	}
	for _, name := range model.Others() {
		if slices.Contains(a.off, name) {
			t.Errorf("the agent offers its own tool %s beside Croft's", name)
		}
	}
	results := model.Results()
	if len(results) != len(work) {
		t.Fatalf("the agent ran %d steps of %d: %q", len(results), len(work), results)
	}
	for i, want := range wantOfWork {
		if !strings.Contains(results[i], want) {
			t.Errorf("step %d, %s: %q, want it to contain %q", i, work[i].Tool, results[i], want)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "sum.mjs"))
	if err != nil || !strings.Contains(string(got), "return a + b;") {
		t.Errorf("in the end sum.mjs is %q, %v", got, err)
	}
}

// putModel writes the files by which the agent reaches the model.
func (a agent) putModel(t *testing.T, home, dir, model string) {
	t.Helper()
	if a.more == nil {
		return
	}
	more, files := a.more(model, dir), map[string]string{}
	for name, text := range more {
		if !strings.HasSuffix(name, "+") {
			files[name] = text + more[name+"+"]
		}
	}
	put(t, home, dir, files)
}

// configure writes the agent's files: what the document says, and how it reaches
// the model.
func (a agent) configure(t *testing.T, home, dir, model, way, addr string) {
	t.Helper()
	var more map[string]string
	if a.more != nil {
		more = a.more(model, dir)
	}
	files := map[string]string{}
	for name, text := range more {
		if !strings.HasSuffix(name, "+") {
			files[name] = text
		}
	}
	for name, path := range a.files {
		text := documented(t, a.page, name, way)
		if addr != "" {
			text = strings.ReplaceAll(text, "127.0.0.1:7071", addr)
		}
		files[path] = more[path] + text + more[path+"+"]
	}
	put(t, home, dir, files)
}

// documented returns the block of a page whose introduction
// names a file. Where several do, one begins with way.
func documented(t *testing.T, page, name, way string) string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, f := range blocksOf(string(data)) {
		if strings.Contains(f.before, "`"+name+"`") && (found == "" || strings.HasPrefix(f.before, way)) {
			found = f.body
			if way == "" || strings.HasPrefix(f.before, way) {
				break
			}
		}
	}
	if found == "" {
		t.Fatalf("%s has no block for %s", page, name)
	}
	return found
}

// put writes files; a name that begins with ~ is below home.
func put(t *testing.T, home, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			path = filepath.Join(home, rest)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// agentHome makes a home that is not below the directory for temporary files,
// where Codex refuses to keep its helpers.
func agentHome(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp(filepath.Join(cache, "croft"), "home-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The croft that an agent started ends on its own after the agent did, and
		// may write until then.
		testenv.RemoveAll(t, home)
	})
	return home
}

// serveModel lets a model answer on an address of its own.
func serveModel(t *testing.T, m *testmodel.Model) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, served := &http.Server{Handler: m}, make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-served })
	return "http://" + l.Addr().String()
}

// startHTTP runs croft mcp --http and returns its address.
func startHTTP(t *testing.T, croft, dir string, env []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(croft, "croft"), "mcp", "--dir", dir, "--http", "127.0.0.1:0")
	cmd.Env, cmd.WaitDelay = env, patience
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slow := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // it may have ended by itself
	lines, said, addr := bufio.NewScanner(stderr), "", ""
	for addr == "" && lines.Scan() {
		said += lines.Text() + "\n"
		if url, ok := strings.CutPrefix(lines.Text(), "listening on http://"); ok {
			addr, _, _ = strings.Cut(url, "/")
		}
	}
	slow.Stop()
	if addr == "" {
		t.Fatalf("croft mcp --http: %v, %v\n%s", lines.Err(), cmd.Wait(), said)
	}
	read := make(chan struct{})
	go func() { // or it could not say more than a pipe holds
		defer close(read)
		_, _ = io.Copy(io.Discard, stderr) // until Wait closes it
	}()
	t.Cleanup(func() {
		err := cmd.Wait()
		<-read
		if !cmd.ProcessState.Success() {
			t.Errorf("croft mcp --http, interrupted: %v", err)
		}
	})
	return addr
}

// saveFailure shows what happened, the requests cut to what can be read.
func saveFailure(t *testing.T, name string, out []byte, model *testmodel.Model) {
	t.Helper()
	t.Logf("%s said:\n%s", name, out)
	for i, r := range model.Requests() {
		t.Logf("request %d: %s", i, r[:min(len(r), 2000)])
	}
	if dir := os.Getenv("CROFT_TEST_KEEP"); dir != "" {
		data, err := json.MarshalIndent(model.Requests(), "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".json"), data, 0o600)
		}
		t.Logf("requests kept in %s: %v", dir, err)
	}
}
