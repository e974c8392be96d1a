package command_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// startUp starts croft up and returns its address. on makes commands that work on it.
func startUp(t *testing.T) (url string, on func(args ...string) *exec.Cmd) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	cmd := lasting(croft(t, data, "up", "--addr", "127.0.0.1:0", "--token", httpToken))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 1 && f[0] == "url" {
			url = f[1]
		}
	}
	drained := make(chan struct{})
	go func() { defer close(drained); io.Copy(io.Discard, out) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-drained
		if err := cmd.Wait(); err != nil {
			t.Errorf("croft up ended with %v", err)
		}
	})
	return strings.TrimSuffix(url, "/"), func(args ...string) *exec.Cmd {
		return croft(t, data, append(args, "--server", url, "--token", httpToken)...)
	}
}

// must runs a command that has to succeed.
func must(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, out)
	}
}

// A cutter breaks the first stream of events that it sees, after a while, as a
// network does.
type cutter struct {
	bearer
	cut     atomic.Bool
	resumed atomic.Int32 // requests that said what they had last
}

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Last-Event-Id") != "" {
		c.resumed.Add(1)
	}
	res, err := c.bearer.RoundTrip(r)
	if err == nil && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") && c.cut.CompareAndSwap(true, false) {
		res.Body = &cutBody{ReadCloser: res.Body}
	}
	return res, err
}

// A cutBody ends after its first event.
type cutBody struct {
	io.ReadCloser
	over bool
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.over {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p)
	b.over = strings.Contains(string(p[:n]), "\n\n")
	return n, err
}

func TestAgentsOnUp(t *testing.T) {
	url, on := startUp(t)
	must(t, on("ws", "open", "one", "--provider", "sandbox"))
	client := &http.Client{Transport: bearer{httpToken}}
	changed := make(chan struct{}, 100)
	told := &mcp.ClientOptions{ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { changed <- struct{}{} }}
	s, err := newClient(told).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: client}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{s, t}
	defer s.Close()
	b := connect(t, &mcp.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: client})

	a.ok("Write", m{"file_path": "f", "content": "x\n"})
	if got := b.ok("Bash", m{"command": "cat f"}); got != "x\n" {
		t.Errorf("the other session reads %q", got)
	}
	// What one session has read does not count for another.
	if got, failed := b.call("Edit", m{"file_path": "f", "old_string": "x", "new_string": "y"}); !failed || got != "refusing to edit f: Read it first" {
		t.Errorf("got %q, %v", got, failed)
	}

	// Workspaces come and go, and clients are told.
	for len(changed) > 0 {
		<-changed
	}
	must(t, on("ws", "open", "two", "--provider", "sandbox"))
	<-changed
	if got, failed := a.call("Read", m{"file_path": "f"}); !failed || !strings.HasPrefix(got, "multi-workspace sandbox: 2 workspaces configured (one, two)") {
		t.Errorf("got %q, %v", got, failed)
	}
	if got := a.ok("Glob", m{"pattern": "*", "workspace": "all"}); got != "=== one ===\nf\n\n=== two ===\n\n" {
		t.Errorf("got %q", got)
	}
	list, err := a.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 2 {
		t.Errorf("resources %+v, %v", list, err)
	}
	must(t, on("ws", "rm", "two"))
	<-changed
	if got := a.ok("Read", m{"file_path": "f"}); got != "1\tx\n" {
		t.Errorf("got %q", got)
	}
}

// TestAgentIsBackOnUp breaks the stream of a call and has the client resume it.
func TestAgentIsBackOnUp(t *testing.T) {
	url, on := startUp(t)
	must(t, on("ws", "open", "one", "--provider", "sandbox"))
	c := &cutter{bearer: bearer{httpToken}}
	a := connect(t, &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: c}})
	a.ok("Bash", m{"command": "true"})
	c.cut.Store(true)
	if got := a.ok("Bash", m{"command": "sleep 0.3; echo done"}); got != "done\n" {
		t.Errorf("got %q", got)
	}
	if c.cut.Load() {
		t.Error("no stream was broken")
	}
	if c.resumed.Load() == 0 {
		t.Error("the client did not resume")
	}
}

// TestVanishedOnUp has clients go away in the middle of a call.
func TestVanishedOnUp(t *testing.T) {
	url, on := startUp(t)
	dir := t.TempDir()
	must(t, on("ws", "open", "one", "--provider", "sandbox", "--dir", dir))
	ctx, vanish := context.WithCancel(t.Context())
	a := connect(t, &mcp.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: &http.Client{Transport: until{bearer{httpToken}, ctx}}})
	wait := held(t, dir)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = a.CallTool(t.Context(), &mcp.CallToolParams{Name: "Bash", Arguments: m{"command": holdOn}})
	}()
	wait()
	vanish()
	<-done
	wait()
}

// until ends every request with a context, as the death of a client does.
type until struct {
	bearer
	ctx context.Context
}

func (u until) RoundTrip(r *http.Request) (*http.Response, error) {
	return u.bearer.RoundTrip(r.WithContext(u.ctx))
}

func TestNoPageInABrowserGetsOnUp(t *testing.T) {
	url, _ := startUp(t)
	refusesStrangers(t, url)
}

// TestReadOnlyByTheKernel calls every tool of both toolsets, those that change
// things, too, in a directory that is open read-only. Nothing of it may change,
// whatever the tools believe.
func TestReadOnlyByTheKernel(t *testing.T) {
	url, on := startUp(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module x\n\ngo 1.24\n", "a.go": "package x\n\nfunc  A() int { return 1 }\n", "a_test.go": "package x\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { A() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil { // the mount alone protects it
		t.Fatal(err)
	}
	must(t, on("ws", "open", "ro", "--provider", "sandbox", "--dir", dir, "--read-only"))
	before := tree(t, dir)
	a := connect(t, &mcp.StreamableClientTransport{Endpoint: url + "/mcp?toolset=both", HTTPClient: &http.Client{Transport: bearer{httpToken}}})
	tools, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.go", "a_test.go", "go.mod"} {
		a.ok("Read", m{"file_path": name})
	}
	var worked []string
	for _, x := range tools.Tools {
		args := harm(x)
		args["workspace"] = "ro"                                               // there are more once one was forked
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // what takes longer had its chance
		res, err := a.CallTool(ctx, &mcp.CallToolParams{Name: x.Name, Arguments: args})
		cancel()
		if err == nil && !res.IsError {
			worked = append(worked, x.Name)
		}
		if after := tree(t, dir); after != before {
			t.Fatalf("%s changed the tree:\n%s\nwas\n%s", x.Name, after, before)
		}
	}
	for _, want := range []string{"Bash", "workspace_exec", "workspace_read_file", "workspace_run", "workspace_glob"} {
		if !slices.Contains(worked, want) {
			t.Errorf("%s was not really called; these were: %v", want, worked)
		}
	}
	if slices.ContainsFunc([]string{"Write", "Edit", "delete", "workspace_write_file", "workspace_rm", "workspace_mkdir"}, func(s string) bool { return slices.Contains(worked, s) }) {
		t.Errorf("these say that they worked: %v", worked)
	}
}

// harm makes arguments with which a tool does what harm it can.
func harm(x *mcp.Tool) m {
	known := m{
		"file_path": "a.go", "path": "a.go", "content": "changed\n", "old_string": "return 1", "new_string": "return 2",
		"old": "return 1", "new": "return 2", "command": "touch b; echo x >> a.go; rm a.go; true", "cmd": "touch",
		"args": []string{"b"}, "pattern": "*", "query": "A", "from": "a.go", "to": "c.go", "source": "a.go", "destination": "c.go",
		"edits": []m{{"old_string": "return 1", "new_string": "return 2"}}, "function": "A", "function_name": "A", "name": "x", "new_name": "C",
		"body": "{ return 3 }", "new_body": "{ return 3 }", "line": 3, "column": 7, "character": 7, "description": "x",
		"patch": "*** Begin Patch\n*** Update File: a.go\n@@\n-func  A() int { return 1 }\n+func  A() int { return 2 }\n*** End Patch",
		"apply": true, "message": "x", "all": true, "recursive": true,
	}
	schema, _ := x.InputSchema.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	out := m{}
	for key := range properties {
		if v, ok := known[key]; ok {
			out[key] = v
		}
	}
	return out
}
