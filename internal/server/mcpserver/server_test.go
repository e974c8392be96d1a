package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// open opens a workspace of a kind.
func open(t testing.TB, p driver.Provider) *workspace.Workspace {
	t.Helper()
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: p.Kind(), ID: workspace.NewID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	return ws
}

func resolveDir(t testing.TB) *workspace.Workspace {
	t.Helper()
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return open(t, p)
}

// blocks is a tool that runs until its call ends, and tells when it begins and
// ends.
func blocks() (t *tool.Tool, begun, ended chan struct{}) {
	begun, ended = make(chan struct{}, 1), make(chan struct{}, 1)
	return tool.New(tool.Spec{Name: "block"}, func(ctx context.Context, c *tool.Call, _ struct{}) (tool.Message, error) {
		c.Progress(tool.Progress{Message: "under way"})
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return tool.Message{}, ctx.Err()
	}), begun, ended
}

func serve(t testing.TB, set *tool.Set, opts mcpserver.Options, more ...*tool.Tool) (*mcpserver.Server, *tool.Env) {
	t.Helper()
	env, err := tool.NewEnv(tool.Config{Tools: append(slices.Concat(tool.Coding(), tool.Workspace()), more...), Workspaces: set, MaxText: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close(context.WithoutCancel(t.Context())) })
	opts.Env = env
	s := mcpserver.New(t.Context(), opts)
	t.Cleanup(s.Close)
	return s, env
}

// patience is how long is waited for what is sure to come, on a machine that is busy
// otherwise.
const patience = 2 * time.Minute

// await returns what comes, and fails where nothing does.
func await[T any](t testing.TB, what string, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(patience):
		t.Fatalf("nothing came of %s in %v", what, patience)
	}
	return got
}

// listen serves a handler. It is closed after its clients are.
func listen(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web
}

// client connects to a handler.
func client(t testing.TB, url string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func toolNames(t testing.TB, s *mcp.ClientSession) []string {
	t.Helper()
	var names []string
	for x, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, x.Name)
	}
	return names
}

// TestOnlyWhatAWorkspaceCanDo shows that tools appear with the workspaces that
// have what they need, and go with them, and that clients are told.
func TestOnlyWhatAWorkspaceCanDo(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("mem", open(t, new(memory.Provider))); err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, set, mcpserver.Options{})
	web := listen(t, s.Handler())
	changed := make(chan struct{}, 100)
	c := client(t, web.URL, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	if names := toolNames(t, c); !slices.Contains(names, "Read") || slices.Contains(names, "Bash") {
		t.Errorf("with files alone there are %v", names)
	}
	if err := set.Add("dir", resolveDir(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "a list that changed", changed)
	if names := toolNames(t, c); !slices.Contains(names, "Bash") {
		t.Errorf("with a shell there are %v", names)
	}
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "Bash", Arguments: map[string]any{"command": "true", "workspace": "mem"}})
	if err != nil || !res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "needs the capability shell") {
		t.Errorf("Bash without a shell = %+v, %v", res, err)
	}
	list, err := c.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 2 {
		t.Errorf("resources %+v, %v", list, err)
	}
	set.Remove("dir")
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "a list that changed", changed)
	if names := toolNames(t, c); slices.Contains(names, "Bash") {
		t.Errorf("without a shell there are %v", names)
	}
}

func TestViews(t *testing.T) {
	set := new(tool.Set)
	for _, name := range []string{"one", "two"} {
		if err := set.Add(name, resolveDir(t)); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := serve(t, set, mcpserver.Options{})
	web := listen(t, s.Handler())
	c := client(t, web.URL+"?workspace=one&toolset=workspace", nil)
	for _, name := range toolNames(t, c) {
		if !strings.HasPrefix(name, "workspace_") {
			t.Errorf("the workspace toolset has %s", name)
		}
	}
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "workspace_ls", Arguments: map[string]any{}})
	if err != nil || res.IsError {
		t.Errorf("with one workspace: %+v, %v", res, err)
	}
	res, err = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "workspace_ls", Arguments: map[string]any{"workspace": "two"}})
	if err != nil || !res.IsError {
		t.Errorf("the other workspace: %+v, %v", res, err)
	}
	for query, want := range map[string]string{
		"?workspace=none":                 `unknown workspace "none"`,
		"?toolset=none":                   "give default, full, codegen, workspace or both",
		"?tolset=workspace":               `unknown parameter "tolset"; known: workspace, toolset, tools`,
		"?sessionid=x":                    `unknown parameter "sessionid"; known: workspace, toolset, tools`,
		"?toolset=full&toolset=workspace": "the parameter toolset is given 2 times",
		"?workspace=%zz":                  "invalid URL escape",
	} {
		r, err := http.Post(web.URL+query, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Error fault.Wire }
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || r.StatusCode < 400 || !strings.Contains(answer.Error.Message, want) {
			t.Errorf("%s: status %d, %+v, %v; want %q", query, r.StatusCode, answer, err, want)
		}
		r.Body.Close()
	}
}

func TestProgressAndCancellation(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", resolveDir(t)); err != nil {
		t.Fatal(err)
	}
	block, begun, ended := blocks()
	s, _ := serve(t, set, mcpserver.Options{}, block)
	web := listen(t, s.Handler())
	told := make(chan string, 10)
	c := client(t, web.URL, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		told <- r.Params.Message
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := &mcp.CallToolParams{Name: "block", Arguments: map[string]any{}}
		p.SetProgressToken("p")
		_, _ = c.CallTool(ctx, p)
	}()
	await(t, "the call", begun)
	if got := await(t, "progress", told); got != "under way" {
		t.Errorf("progress %q", got)
	}
	cancel()
	await(t, "the end of the call", ended)
	await(t, "an answer", done)
}

// post sends a message as a client without manners would.
func post(ctx context.Context, t *testing.T, url, session, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	callBlock   = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"block","arguments":{}}}`
)

func TestVanishedClientsEndTheirCalls(t *testing.T) {
	set := new(tool.Set)
	if err := set.Add("w", resolveDir(t)); err != nil {
		t.Fatal(err)
	}
	block, begun, ended := blocks()
	s, _ := serve(t, set, mcpserver.Options{ReconnectGrace: 10 * time.Millisecond}, block)
	t.Run("streamable", func(t *testing.T) {
		web := listen(t, s.Handler())
		res := post(t.Context(), t, web.URL, "", initialize)
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		id := res.Header.Get("Mcp-Session-Id")
		post(t.Context(), t, web.URL, id, initialized).Body.Close()
		ctx, vanish := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, web.URL, strings.NewReader(callBlock))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			req.Header.Set("Mcp-Session-Id", id)
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
			}
		}()
		await(t, "the call", begun)
		vanish()
		await(t, "the end of the call", ended)
		await(t, "an answer", gone)
	})
	t.Run("sse", func(t *testing.T) {
		web := listen(t, s.SSEHandler())
		ctx, vanish := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		stream, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Body.Close()
		lines := bufio.NewScanner(stream.Body)
		endpoint := ""
		for endpoint == "" && lines.Scan() {
			endpoint, _ = strings.CutPrefix(lines.Text(), "data: ")
			if endpoint == lines.Text() {
				endpoint = ""
			}
		}
		for _, body := range []string{initialize, initialized, callBlock} {
			post(t.Context(), t, web.URL+endpoint, "", body).Body.Close()
		}
		await(t, "the call", begun)
		vanish()
		await(t, "the end of the call", ended)
	})
}

// TestManySessions is 50 clients on 4 workspaces at once.
func TestManySessions(t *testing.T) {
	set := new(tool.Set)
	for i := range 4 {
		if err := set.Add(fmt.Sprintf("w%d", i), resolveDir(t)); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := serve(t, set, mcpserver.Options{})
	web := listen(t, s.Handler())
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			ws, file := fmt.Sprintf("w%d", i%4), fmt.Sprintf("f%d", i)
			for _, p := range []*mcp.CallToolParams{
				{Name: "Write", Arguments: map[string]any{"workspace": ws, "file_path": file, "content": "a\n"}},
				{Name: "Edit", Arguments: map[string]any{"workspace": ws, "file_path": file, "old_string": "a", "new_string": file}},
				{Name: "Read", Arguments: map[string]any{"workspace": ws, "file_path": file}},
				{Name: "Grep", Arguments: map[string]any{"workspace": "all", "pattern": file + "$"}},
			} {
				res, err := c.CallTool(t.Context(), p)
				if err != nil || res.IsError {
					t.Errorf("%s: %+v, %v", p.Name, res, err)
					return
				}
				if text := res.Content[0].(*mcp.TextContent).Text; p.Name == "Read" && text != "1\t"+file+"\n" {
					t.Errorf("Read = %q", text)
				}
			}
		})
	}
	wg.Wait()
}

// TestErrorsAreTotal holds every code against how it reaches a client.
func TestErrorsAreTotal(t *testing.T) {
	for _, code := range fault.All() {
		fails := tool.New(tool.Spec{Name: "fails"}, func(context.Context, *tool.Call, struct{}) (tool.Message, error) {
			return tool.Message{}, tool.Errorf(code, "words")
		})
		set := new(tool.Set)
		if err := set.Add("w", open(t, new(memory.Provider))); err != nil {
			t.Fatal(err)
		}
		s, _ := serve(t, set, mcpserver.Options{}, fails)
		web := listen(t, s.Handler())
		c := client(t, web.URL, nil)
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "fails", Arguments: map[string]any{}})
		if code.ToolError() {
			data, _ := json.Marshal(res)
			if err != nil || !res.IsError || !strings.Contains(string(data), code.Wire()) || res.Content[0].(*mcp.TextContent).Text != "words" {
				t.Errorf("%s: %s, %v", code, data, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "words") {
			t.Errorf("%s: %+v, %v; want an error of the protocol", code, res, err)
		}
	}
}
