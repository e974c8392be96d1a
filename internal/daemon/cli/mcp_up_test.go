package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
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
	return startUpOn(t, filepath.Join(t.TempDir(), "data"))
}

// startUpOn is startUp on a data directory.
func startUpOn(t *testing.T, data string) (url string, on func(args ...string) *exec.Cmd) {
	t.Helper()
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

// A cutter breaks the first stream of events that answers a call, as a network
// does.
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
	if err == nil && r.Method == http.MethodPost && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") && c.cut.CompareAndSwap(true, false) {
		res.Body = &cutBody{ReadCloser: res.Body}
	}
	return res, err
}

// A cutBody ends after its first event, whatever came with that.
type cutBody struct {
	io.ReadCloser
	line, over bool // the last byte ended a line; the event has ended
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.over {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), 1)])
	if n == 1 {
		b.over = b.line && p[0] == '\n'
		b.line = p[0] == '\n'
	}
	return n, err
}

func TestAgentsOnUp(t *testing.T) {
	url, on := startUp(t)
	must(t, on("ws", "open", "one", "--provider", "sandbox"))
	client := &http.Client{Transport: bearer{httpToken}}
	told, changed := changes()
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
	must(t, on("ws", "open", "two", "--provider", "sandbox"))
	a.sees(changed, "one", "two")
	if got, failed := a.call("Read", m{"file_path": "f"}); !failed || !strings.HasPrefix(got, "multi-workspace sandbox: 2 workspaces configured (one, two)") {
		t.Errorf("got %q, %v", got, failed)
	}
	if got := a.ok("Glob", m{"pattern": "*", "workspace": "all"}); got != "=== one ===\nf\n\n=== two ===\nno file matches\n" {
		t.Errorf("got %q", got)
	}
	must(t, on("ws", "rm", "two"))
	a.sees(changed, "one")
	if got := a.ok("Read", m{"file_path": "f"}); got != "1\tx\n" {
		t.Errorf("got %q", got)
	}
}

// sees looks at the workspaces whenever it is told that they changed, until they are
// those that are named.
func (a *agent) sees(changed <-chan struct{}, want ...string) {
	a.t.Helper()
	for {
		select {
		case <-changed:
		case <-time.After(patience):
			a.t.Fatalf("there are %q, want %q, and nothing more is told", a.resources(), want)
		}
		if slices.Equal(a.resources(), want) {
			return
		}
	}
}

// TestAgentsAreToldOfOtherProcesses: a registry is shared, and clients of a server
// hear also of what others do to it.
func TestAgentsAreToldOfOtherProcesses(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	url, _ := startUpOn(t, data)
	told, changed := changes()
	s, err := newClient(told).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: bearer{httpToken}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := &agent{s, t}
	if got := a.resources(); len(got) != 0 {
		t.Errorf("at first there are %v", got)
	}
	must(t, croft(t, data, "ws", "open", "one", "--provider", "sandbox"))
	a.sees(changed, "one")
	must(t, croft(t, data, "ws", "rm", "one"))
	a.sees(changed)
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

// TestAgentStartsAProgramForAServer: croft mcp --server gives an agent that can
// only start programs the tools of the server.
func TestAgentStartsAProgramForAServer(t *testing.T) {
	_, on := startUp(t)
	must(t, on("ws", "open", "here", "--provider", "memory"))
	must(t, on("ws", "open", "other", "--provider", "memory"))
	s, err := newClient(nil).Connect(t.Context(), overPipes(lasting(on("mcp", "--workspace", "here"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{s, t}
	a.ok("Write", m{"file_path": "a", "content": "one\n"})
	a.ok("Edit", m{"file_path": "a", "old_string": "one", "new_string": "two"})
	if got := a.ok("Read", m{"file_path": "a"}); got != "1\ttwo\n" {
		t.Errorf("Read = %q", got)
	}
	if got, failed := a.call("Read", m{"file_path": "a", "workspace": "other"}); !failed {
		t.Errorf("another workspace is reached: %q", got)
	}
	if err := s.Close(); err != nil {
		t.Errorf("croft mcp ended with %v", err)
	}
	heardFromAServer(t, on)
	out, err := on("ws", "cat", "here", "a").CombinedOutput()
	if err != nil || string(out) != "two\n" {
		t.Errorf("on the server there is %q, %v", out, err)
	}
}

// heardFromAServer: what a server says unasked is passed on, too.
func heardFromAServer(t *testing.T, on func(...string) *exec.Cmd) {
	t.Helper()
	opts, heard := changes()
	s, err := newClient(opts).Connect(t.Context(), overPipes(lasting(on("mcp"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{s, t}
	end, told := time.Now().Add(patience), false
	for i := 0; !told; i++ { // the stream is opened some time after the greeting
		must(t, on("ws", "open", fmt.Sprintf("new-%d", i), "--provider", "memory"))
		select {
		case <-heard:
			told = true
		case <-time.After(time.Second):
			if time.Now().After(end) {
				t.Fatal("nothing is heard of a workspace that was opened")
			}
		}
	}
	if got := a.resources(); !slices.Contains(got, "new-0") {
		t.Errorf("there are %q, want new-0, too", got)
	}
	if err := s.Close(); err != nil {
		t.Errorf("croft mcp ended with %v", err)
	}
}
