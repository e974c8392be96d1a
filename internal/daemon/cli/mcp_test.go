package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/internal/server/mcpserver"
)

// An agent is a client of a real croft process.
type agent struct {
	*mcp.ClientSession
	t *testing.T
}

var newClient = func(opts *mcp.ClientOptions) *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
}

// lasting is a command that is not killed when the test is over, since it is then
// asked to end.
func lasting(cmd *exec.Cmd) *exec.Cmd {
	return &exec.Cmd{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env}
}

// overPipes speaks to a croft mcp that has as much time to end as it takes: the
// library sends a signal after some seconds.
func overPipes(cmd *exec.Cmd) *mcp.CommandTransport {
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}
}

// patience is how long tests wait for what must come, on a machine that has much
// else to do.
const patience = 2 * time.Minute

// overStdio starts croft mcp and connects to it.
func overStdio(t *testing.T, opts *mcp.ClientOptions, args ...string) *agent {
	t.Helper()
	return overStdioIn(t, filepath.Join(t.TempDir(), "data"), opts, args...)
}

// overStdioIn is overStdio with a data directory.
func overStdioIn(t *testing.T, data string, opts *mcp.ClientOptions, args ...string) *agent {
	t.Helper()
	cmd := lasting(croft(t, data, append([]string{"mcp"}, args...)...))
	cmd.Stderr = os.Stderr
	s, err := newClient(opts).Connect(t.Context(), overPipes(cmd), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("croft mcp ended with %v", err)
		}
	})
	return &agent{s, t}
}

// call calls a tool and returns its text, and whether it is an error.
func (a *agent) call(name string, args map[string]any) (string, bool) {
	a.t.Helper()
	res, err := a.CallTool(a.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s: %v", name, err)
	}
	return res.Content[0].(*mcp.TextContent).Text, res.IsError
}

// ok is call for one that must succeed.
func (a *agent) ok(name string, args map[string]any) string {
	a.t.Helper()
	text, failed := a.call(name, args)
	if failed {
		a.t.Fatalf("%s(%v): %s", name, args, text)
	}
	return text
}

type m = map[string]any

// TestTheDefaultSurfaceIsSmall: an agent sends the description of all tools with each
// request.
func TestTheDefaultSurfaceIsSmall(t *testing.T) {
	var a *agent
	var list *mcp.ListToolsResult
	for _, caps := range []map[string]any{{mcpserver.DataCapability: m{}}, nil} { // a client that reads data gets output schemas, too
		a = overStdio(t, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Experimental: caps}}, "--dir", t.TempDir())
		var err error
		if list, err = a.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		sent, err := json.Marshal(list)
		most := 20_000
		if caps != nil {
			most += 3_000
		}
		if err != nil || len(sent) > most || len(list.Tools) > 21 {
			t.Errorf("tools/list for %v has %d bytes and %d tools, %v", caps, len(sent), len(list.Tools), err)
		}
		if promised := list.Tools[0].OutputSchema != nil; promised != (caps != nil) {
			t.Errorf("tools/list for %v promises data: %v", caps, promised)
		}
	}
	var err error
	// A client that does not list the tools again can name the workspace after a fork.
	takesWorkspace(t, list.Tools, true)
	a.ok("fork", m{"name": "second"})
	a.ok("Bash", m{"command": "true", "workspace": "second"})
	if list, err = a.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	takesWorkspace(t, list.Tools, true)
	a = overStdio(t, nil, "--dir", t.TempDir(), "--tools", "Read,Bash")
	if list, err = a.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	takesWorkspace(t, list.Tools, false)
}

func takesWorkspace(t *testing.T, tools []*mcp.Tool, want bool) {
	t.Helper()
	for _, x := range tools {
		in, _ := x.InputSchema.(map[string]any)
		if _, got := in["properties"].(map[string]any)["workspace"]; got != want {
			t.Errorf("%s shows the argument workspace: %v, want %v", x.Name, got, want)
		}
	}
}

// TestTheModelIsInstructed: the server says what commands can reach.
func TestTheModelIsInstructed(t *testing.T) {
	for want, flags := range map[string][]string{
		"Commands have no network":                             nil,
		"Commands reach these hosts alone: proxy.example.com.": {"--allow-net", "proxy.example.com"},
	} {
		a := overStdio(t, nil, append([]string{"--dir", t.TempDir()}, flags...)...)
		if got := a.InitializeResult().Instructions; !strings.Contains(got, want) || !strings.Contains(got, "private HOME") || !strings.Contains(got, "Programs on PATH: ") {
			t.Errorf("instructions with %v: %q, want %q", flags, got, want)
		}
	}
}

// TestTheToolsOfCodeGen: its flags have one dash, ids need no workspace, and what can't
// work is not offered.
func TestTheToolsOfCodeGen(t *testing.T) {
	a := overStdio(t, nil, "-workspaces", "one="+t.TempDir()+",two="+t.TempDir(), "-toolset=codegen")
	started := a.ok("Bash", m{"command": "echo hello; sleep 60", "run_in_background": true, "workspace": "two"})
	id := regexp.MustCompile(`shell_id: (\S+)`).FindStringSubmatch(started)[1]
	if got := a.ok("BashOutput", m{"shell_id": id}); !strings.Contains(got, "status: running") {
		t.Errorf("BashOutput without a workspace: %s", got)
	}
	a.ok("KillShell", m{"shell_id": id})
	list, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list.Tools {
		if x.Name == "render_mermaid" {
			if _, err := exec.LookPath("mmdc"); err != nil {
				t.Error("render_mermaid is offered without mmdc")
			}
		}
	}
}

// TestToolsAreChosenByName: --tools offers the named tools alone.
func TestToolsAreChosenByName(t *testing.T) {
	a := overStdio(t, nil, "--dir", t.TempDir(), "--tools", "Read,git_status,workspace_stat")
	list, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range list.Tools {
		got = append(got, x.Name)
		if x.OutputSchema != nil {
			t.Errorf("%s promises data to a client that did not ask for it", x.Name)
		}
	}
	if want := []string{"Read", "git_status", "workspace_stat"}; !slices.Equal(got, want) {
		t.Errorf("the tools are %v, want %v", got, want)
	}
	out, err := croft(t, t.TempDir(), "mcp", "--tools", "Raed").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `unknown tool "Raed"`) {
		t.Errorf("--tools Raed: %s, %v", out, err)
	}
}

// TestNamesOfWorkspacesAreEscaped: a name that is no host of a URI is served as others are.
func TestNamesOfWorkspacesAreEscaped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "My Project")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	a := overStdio(t, nil, "--dir", dir)
	a.ok("fork", m{"name": "try 1"})
	a.ok("fork", m{"name": "a:b@[c]%", "workspace": "try 1"})
	list, err := a.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list.Resources {
		got = append(got, r.URI)
		res, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.URI + "a.txt"})
		if err != nil || res.Contents[0].Text != "one\n" {
			t.Errorf("%sa.txt is %+v, %v", r.URI, res, err)
		}
	}
	if want := []string{"workspace:///My%20Project/", "workspace:///a:b@%5Bc%5D%25/", "workspace:///try%201/"}; !slices.Equal(got, want) {
		t.Errorf("the resources are %v, want %v", got, want)
	}
}

// TestStateSurvivesARestart: the snapshots and edits of a directory are found again by the
// next croft mcp there, and diff means since the work began.
func TestStateSurvivesARestart(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	session := func(work func(a *agent)) {
		t.Helper()
		a := overStdioIn(t, data, nil, "--dir", dir)
		work(a)
		if err := a.Close(); err != nil {
			t.Errorf("croft mcp ended with %v", err)
		}
	}
	session(func(a *agent) {
		a.ok("Read", m{"file_path": "a.txt"})
		a.ok("snapshot", m{"name": "first"})
		a.ok("Edit", m{"file_path": "a.txt", "old_string": "one", "new_string": "two"})
	})
	session(func(a *agent) {
		if got := a.ok("diff", m{}); !strings.Contains(got, "-one") || !strings.Contains(got, "+two") {
			t.Errorf("diff = %q", got)
		}
		if got := a.ok("diff", m{"from": "first"}); !strings.Contains(got, "+two") {
			t.Errorf("diff since the snapshot = %q", got)
		}
		a.ok("undo", m{})
	})
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "one\n" {
		t.Errorf("after undo the file is %q, %v", got, err)
	}
	session(func(a *agent) { a.ok("undo", m{"redo": true}) })
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "two\n" {
		t.Errorf("after redo the file is %q, %v", got, err)
	}
	session(func(a *agent) { a.ok("snapshot_restore", m{"name": "first"}) })
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "one\n" {
		t.Errorf("after a restore of the snapshot the file is %q, %v", got, err)
	}
}

// TestMaxTextOfTheConfiguration: tools.maxText bounds the answers, --max-text overrides it,
// and less than the least value is the least value.
func TestMaxTextOfTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(strings.Repeat("a line of a file\n", 5000)), 0o644); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "croft.yaml")
	for _, tt := range []struct {
		maxText  string
		flags    []string
		min, max int
	}{
		{"4000", nil, 3000, 4000},
		{"4000", []string{"--max-text", "8000"}, 7000, 8000},
		{"10", nil, 500, 1000},
		{"0", nil, 25_000, 31_000},
	} {
		if err := os.WriteFile(config, []byte("version: 1\ntools: {maxText: "+tt.maxText+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		a := overStdio(t, nil, append([]string{"--config", config, "--dir", dir}, tt.flags...)...)
		if got := len(a.ok("Read", m{"file_path": "a.txt"})); got < tt.min || got > tt.max {
			t.Errorf("with maxText %s and %q an answer has %d bytes, want %d to %d", tt.maxText, tt.flags, got, tt.min, tt.max)
		}
	}
}

func TestAgentOverStdio(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\ntwo\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CROFT_SECRET_TOKEN", "very-secret-value")
	a := overStdio(t, nil, "--dir", dir)
	tools, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Read", "Bash", "run_tests", "check", "search_code"} {
		if !slices.ContainsFunc(tools.Tools, func(x *mcp.Tool) bool { return x.Name == want }) {
			t.Errorf("there is no %s", want)
		}
	}
	for _, x := range tools.Tools {
		if strings.HasPrefix(x.Name, "workspace_") {
			t.Errorf("the default toolset has %s", x.Name)
		}
		if x.Name == "Read" && !x.Annotations.ReadOnlyHint || x.Name == "Write" && (x.Annotations.ReadOnlyHint || x.OutputSchema != nil) {
			t.Errorf("%s: annotations %+v", x.Name, x.Annotations)
		}
	}
	if got := a.ok("Read", m{"file_path": "a.txt"}); got != "1\tone\n2\ttwo\n" {
		t.Errorf("Read = %q", got)
	}
	if got := a.ok("Edit", m{"file_path": filepath.Join(dir, "a.txt"), "old_string": "two", "new_string": "2"}); !strings.HasPrefix(got, "replaced 1 occurrence(s)") {
		t.Errorf("Edit = %q", got)
	}
	data, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	if info, serr := os.Stat(filepath.Join(dir, "a.txt")); err != nil || string(data) != "one\n2\n" || serr != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file is %q, %v, %v", data, err, info.Mode())
	}
	// The sandbox: no home, no way to write elsewhere, no secret in the environment.
	home, _ := os.UserHomeDir()
	got := a.ok("Bash", m{"command": "env; cat a.txt; touch b; ls " + home + "; touch /etc/x /usr/x", "description": "x"})
	if strings.Contains(got, "very-secret-value") || strings.Contains(got, "CROFT_SECRET") || !strings.Contains(got, "one\n2\n") || !strings.Contains(got, "exit: 1") {
		t.Errorf("Bash = %q", got)
	}
	if got := a.ok("secret", m{"name": "token"}); got != "very-secret-value" {
		t.Errorf("secret = %q", got)
	}
	if got := a.ok("Bash", m{"command": "echo very-secret-value"}); got != "[REDACTED:token]\n" {
		t.Errorf("Bash = %q", got)
	}
	if got, failed := a.call("Read", m{"file_path": "a.txt", "offset": "2"}); !failed || got != "offset must be an integer, not a string" {
		t.Errorf("got %q, %v", got, failed)
	}
	res, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "workspace://" + filepath.Base(dir) + "/a.txt"})
	if err != nil || res.Contents[0].Text != "one\n2\n" {
		t.Errorf("ReadResource = %+v, %v", res, err)
	}
	prompt, err := a.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "fix_tests", Arguments: map[string]string{"workspace": "x"}})
	if err != nil || !strings.Contains(prompt.Messages[0].Content.(*mcp.TextContent).Text, `in workspace "x"`) {
		t.Errorf("GetPrompt = %+v, %v", prompt, err)
	}
}

func TestAgentWithSeveralWorkspaces(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	a := overStdio(t, nil, "--dirs", "primary="+one+", extension="+two+",", "--toolset", "workspace")
	if got, failed := a.call("workspace_write_file", m{"path": "f", "content": "x"}); !failed || got != "multi-workspace sandbox: 2 workspaces configured (extension, primary) — pass `workspace` to pick one" {
		t.Errorf("got %q, %v", got, failed)
	}
	a.ok("workspace_write_file", m{"path": "f", "content": "x\n", "workspace": " primary "})
	if got, failed := a.call("workspace_run", m{"cmd": "cat", "args": []string{"f"}, "workspace": "extension"}); failed || !strings.Contains(got, "exit_code=1") {
		t.Errorf("got %q, %v", got, failed)
	}
	if got := a.ok("workspace_run", m{"cmd": "cat", "args": []string{"f"}, "workspace": "primary"}); !strings.Contains(got, "stdout:\nx\n") {
		t.Errorf("got %q", got)
	}
	if got := a.ok("workspace_grep", m{"pattern": "x", "workspace": "all"}); got != "=== extension ===\nno match\n\n=== primary ===\nf:1:x\n" {
		t.Errorf("got %q", got)
	}
	// One workspace can't see the other, in no way.
	if got := a.ok("workspace_exec", m{"command": "cat " + one + "/f", "workspace": "extension"}); !strings.Contains(got, "No such file") {
		t.Errorf("got %q", got)
	}
}

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n", "a.go": "package x\n\nfunc A() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A repository that would run a program whenever git looks at a file.
	script := "git init -q . && git add . && git -c user.name=x -c user.email=x@x commit -qm x && git config core.fsmonitor 'touch ran; false' && git config filter.x.clean 'touch ran; cat' && echo '*.go filter=x' > .gitattributes"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package x\n\nfunc B() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	a := overStdio(t, nil, "--dir", dir, "--read-only", "--toolset", "full")
	tools, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tools.Tools {
		if !x.Annotations.ReadOnlyHint {
			t.Errorf("%s is offered", x.Name)
		}
	}
	prompts, err := a.ListPrompts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts.Prompts {
		if p.Name == "fix_tests" {
			t.Error("tests are to be fixed where nothing can be changed")
		}
	}
	a.ok("Read", m{"file_path": "a.go"})
	a.ok("Grep", m{"pattern": "func"})
	a.ok("profile", nil)
	if got := a.ok("git_status", nil); !strings.Contains(got, "a.go") {
		t.Errorf("git_status = %q", got)
	}
	for _, x := range tools.Tools { // whatever else is offered, with what arguments there are
		args := m{}
		schema, _ := x.InputSchema.(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		for key, value := range (m{
			"file_path": "a.go", "path": ".", "pattern": "*", "query": "func", "name": "x", "line": 3, "col": 6, "file": "a.go", "shell_id": "x", "url": "http://x",
		}) {
			if properties[key] != nil {
				args[key] = value
			}
		}
		a.call(x.Name, args)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("the tree changed:\n%s\nwas\n%s", after, before)
	}
}

// tree lists all files of a directory with their size, mode and time.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintf(&b, "%s %s %d %d\n", name, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestApprovalAsksTheUser(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	yes := false
	opts := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, req.Params.Message)
		if len(asked) > 2 {
			return &mcp.ElicitResult{Action: "accept"}, nil // by a client that shows the question alone
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": yes}}, nil
	}}
	a := overStdio(t, opts, "--dir", t.TempDir(), "--approve", "ask:Bash(touch *)", "--approve", "deny:delete", "--toolset", "full")
	if got, failed := a.call("Bash", m{"command": "touch x"}); !failed || got != "the user did not allow Bash (rule ask:Bash(touch *))" {
		t.Errorf("got %q, %v", got, failed)
	}
	yes = true
	a.ok("Bash", m{"command": "touch x"})
	a.ok("Read", m{"file_path": "x"})
	if got, failed := a.call("delete", m{"path": "x"}); !failed || got != "delete is not allowed here (rule deny:delete)" {
		t.Errorf("got %q, %v", got, failed)
	}
	a.ok("Bash", m{"command": "touch y"})
	if len(asked) != 3 || !strings.HasSuffix(asked[0], "touch x") {
		t.Errorf("asked %q", asked)
	}
}

// resources are the workspaces that a client sees.
func (a *agent) resources() []string {
	a.t.Helper()
	list, err := a.ListResources(a.t.Context(), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	var names []string
	for _, r := range list.Resources {
		names = append(names, r.Name)
	}
	return names
}

// changes returns a client's options, and a channel that hears that workspaces
// came or went, once for all that was not taken yet.
func changes() (*mcp.ClientOptions, <-chan struct{}) {
	heard := make(chan struct{}, 1)
	return &mcp.ClientOptions{ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
		select {
		case heard <- struct{}{}:
		default:
		}
	}}, heard
}

// TestForkIsTold: a client hears of a fork, and sees it among the resources.
func TestForkIsTold(t *testing.T) {
	opts, heard := changes()
	a := overStdio(t, opts, "--dirs", "w="+t.TempDir())
	a.ok("fork", m{"name": "kid"})
	<-heard
	if got := a.resources(); !slices.Contains(got, "kid") {
		t.Errorf("there are %q, want kid, too", got)
	}
	a.ok("fork", m{"name": "twin", "workspace": "all"})
	if got := a.resources(); !slices.Contains(got, "twin-kid") || !slices.Contains(got, "twin-w") {
		t.Errorf("there are %q, want a twin of each", got)
	}
}

// TestForksEndWithTheirServer: a fork of croft mcp is gone when croft mcp has ended, and
// the workspace that --workspace names stays.
func TestForksEndWithTheirServer(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if out, err := croft(t, data, "ws", "open", "demo", "--provider", "local").CombinedOutput(); err != nil {
		t.Fatalf("open: %v, %s", err, out)
	}
	s, err := newClient(nil).Connect(t.Context(), overPipes(lasting(croft(t, data, "mcp", "--workspace", "demo"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{s, t}
	a.ok("fork", m{"name": "kid"})
	a.ok("Write", m{"workspace": "kid", "file_path": "f", "content": "x"})
	// The next croft mcp and croft gc remove by this label what a killed one left.
	if out, err := croft(t, data, "ws", "list", "--label", "croft-mcp=true").CombinedOutput(); err != nil || !strings.Contains(string(out), "kid") || strings.Contains(string(out), "demo") {
		t.Errorf("marked are %s, %v; want kid and no demo", out, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("croft mcp ended with %v", err)
	}
	out, err := croft(t, data, "ws", "list").CombinedOutput()
	if err != nil || strings.Contains(string(out), "kid") || !strings.Contains(string(out), "demo") {
		t.Errorf("after croft mcp there are %s, %v; want demo and no kid", out, err)
	}
}

// held returns a function that waits, when it is first called, until a command
// holds a pipe in dir, and when it is called again, until nobody does any more.
func held(t *testing.T, dir string) func() {
	t.Helper()
	var f *os.File
	t.Cleanup(func() { f.Close() })
	want := 1
	return func() {
		t.Helper()
		end := time.Now().Add(patience)
		for err := error(nil); f == nil; time.Sleep(10 * time.Millisecond) {
			f, err = os.OpenFile(filepath.Join(dir, "alive"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil && time.Now().After(end) {
				t.Fatal(err)
			}
		}
		if err := f.SetReadDeadline(end); err != nil {
			t.Fatal(err)
		}
		for ; time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if n, err := f.Read(make([]byte, 1)); n == want && !errors.Is(err, os.ErrDeadlineExceeded) {
				want = 0
				return
			}
		}
		t.Fatal("the command does not run, or does not end")
	}
}

const holdOn = "mkfifo alive; exec 3>alive; printf r >&3; setsid sleep 1000 & sleep 1000"

func TestNothingRunsWithoutItsClient(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		dir := t.TempDir()
		a := overStdio(t, nil, "--dir", dir)
		wait := held(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := a.CallTool(ctx, &mcp.CallToolParams{Name: "Bash", Arguments: m{"command": holdOn}})
			done <- err
		}()
		wait()
		cancel()
		<-done
		wait()
		a.ok("Bash", m{"command": "true"})
	})
	t.Run("killed", func(t *testing.T) {
		dir := t.TempDir()
		cmd := croft(t, filepath.Join(t.TempDir(), "data"), "mcp", "--dir", dir)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait := held(t, dir)
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Bash","arguments":{"command":` + quoted(holdOn) + `}}}`,
			`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"sleep 1000","run_in_background":true}}}`,
		} {
			if _, err := io.WriteString(in, line+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		wait()
		in.Close() // the client is gone, in the middle of a call
		if err := cmd.Wait(); err != nil {
			t.Errorf("croft mcp ended with %v", err)
		}
		wait()
	})
}

func quoted(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// bearer adds a token to requests.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// overHTTP starts croft mcp --http and returns its address and token.
func overHTTP(t *testing.T, args ...string) (url string) {
	t.Helper()
	cmd := lasting(croft(t, filepath.Join(t.TempDir(), "data"), append([]string{"mcp", "--http", "127.0.0.1:0", "--token", httpToken}, args...)...))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			url = strings.TrimSuffix(rest, "/mcp")
			break
		}
	}
	drained := make(chan struct{})
	go func() { defer close(drained); io.Copy(io.Discard, stderr) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-drained
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("croft mcp ended with %v", err)
		}
	})
	return url
}

const httpToken = "a-token-of-the-test"

func connect(t *testing.T, transport mcp.Transport) *agent {
	t.Helper()
	s, err := newClient(nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &agent{s, t}
}

func TestAgentOverHTTP(t *testing.T) {
	dir := t.TempDir()
	url := overHTTP(t, "--dir", dir, "--read-tracker", "session")
	client := &http.Client{Transport: bearer{httpToken}}
	a := connect(t, &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: client})
	b := connect(t, &mcp.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: client})
	a.ok("Write", m{"file_path": "f", "content": "x\n"})
	if got := a.ok("Bash", m{"command": "cat f"}); got != "x\n" {
		t.Errorf("got %q", got)
	}
	if got, failed := b.call("Edit", m{"file_path": "f", "old_string": "x", "new_string": "y"}); !failed || got != "refusing to edit f: Read it first" {
		t.Errorf("got %q, %v", got, failed)
	}
	b.ok("Read", m{"file_path": "f"})
	b.ok("Edit", m{"file_path": "f", "old_string": "x", "new_string": "y"})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/mpc", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusNotFound || !strings.Contains(string(text), `"code":"E_NOT_FOUND"`) || !strings.Contains(string(text), "the routes are /mcp and /sse") {
		t.Errorf("another path: %d %s, %v", res.StatusCode, text, err)
	}
}

// TestNoPageInABrowserGetsIn replays what a page of another origin, or one whose
// name was made to resolve to this machine, can have a browser send.
func TestNoPageInABrowserGetsIn(t *testing.T) {
	refusesStrangers(t, overHTTP(t, "--dir", t.TempDir()))
}

// refusesStrangers sends a server what it must refuse.
func refusesStrangers(t *testing.T, url string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for _, tt := range []struct {
		name, method, path string
		header             map[string]string
		host               string
		want               int
	}{
		{"no token", "POST", "/mcp", nil, "", 401},
		{"another token", "POST", "/mcp", map[string]string{"Authorization": "Bearer x"}, "", 401},
		{"a page", "POST", "/mcp", map[string]string{"Origin": "http://evil.example", "Content-Type": "text/plain", "Authorization": "Bearer " + httpToken}, "", 403},
		{"a page, SSE", "GET", "/sse", map[string]string{"Origin": "http://evil.example", "Authorization": "Bearer " + httpToken}, "", 403},
		{"rebinding", "POST", "/mcp", map[string]string{"Authorization": "Bearer " + httpToken}, "evil.example", 403},
		{"preflight", "OPTIONS", "/mcp", map[string]string{"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}, "", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, url+tt.path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/json, text/event-stream")
		for k, v := range tt.header {
			req.Header.Set(k, v)
		}
		req.Host = tt.host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != tt.want || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: status %d, want %d; headers %v", tt.name, res.StatusCode, tt.want, res.Header)
		}
	}
}

func TestMCPFlags(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`--dir "` + dir + `" and --dirs "a=` + dir + `" are mutually exclusive`:             {"--dir", dir, "--dirs", "a=" + dir},
		"Workspace path does not exist: " + dir + "/none":                                   {"--dir", dir + "/none"},
		"Workspace path is not a directory: " + file:                                        {"--dir", file},
		`workspaces: no entries parsed from ","`:                                            {"--dirs", ","},
		`workspaces: empty path in entry "n="`:                                              {"--dirs", "n="},
		`workspace[1]: duplicate name "a"`:                                                  {"--dirs", "a=" + dir + ",a=" + dir},
		`workspace[0]: cannot derive a non-empty name from root "/"; pass an explicit name`: {"--dirs", "/"},
		`workspace name "all"`:                                                              {"--dirs", "all=" + dir},
		`toolset "x"`:                                                                       {"--toolset", "x"},
		`--read-tracker "x"`:                                                                {"--read-tracker", "x"},
		`rule "maybe:Bash"`:                                                                 {"--approve", "maybe:Bash"},
		`listen on every interface`:                                                         {"--http", ":1"},
	} {
		out, err := croft(t, filepath.Join(t.TempDir(), "data"), append([]string{"mcp"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) && want != `listen on every interface` {
			t.Errorf("croft mcp %v: %v, %q; want %q", args, err, out, want)
		}
	}
}
