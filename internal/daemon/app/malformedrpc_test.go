package app_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/daemon/app"
)

// How many requests the tests below send.
const (
	malformedConnect = 3000
	malformedMCP     = 3000
)

// An rpcTest is a server with the tenants red and blue whose log is checked.
type rpcTest struct {
	*team
	log    syncBuffer
	mu     sync.Mutex
	counts map[int]int // answers by status; guarded by mu
}

func newRPCTest(t *testing.T, settingsText string) *rpcTest {
	t.Helper()
	r := &rpcTest{counts: map[int]int{}}
	sys, base := serveWith(t, app.Config{DataDir: t.TempDir(), Settings: settings(t, "version: 1\n"+settingsText), Log: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelError}))})
	r.team = &team{t: t, sys: sys, url: base}
	r.red, r.redKey = r.key("red", "admin")
	r.blue, _ = r.key("blue", "admin")
	return r
}

// run sends requests from several clients at once, and checks the log afterwards.
func (r *rpcTest) run(requests int, send func(g *generator)) {
	r.t.Helper()
	const clients = 4
	var wg sync.WaitGroup
	for w := range clients {
		wg.Go(func() {
			g := &generator{rand.New(rand.NewPCG(21, uint64(w))), r.team, nil, nil}
			for range requests / clients {
				send(g)
			}
		})
	}
	wg.Wait()
	r.t.Logf("answers by status (0: the server did not answer in time): %v", r.counts)
	if text := r.log.String(); strings.Contains(text, "panic") || strings.Contains(text, "internal error") {
		r.t.Errorf("the log has %.2000s", text)
	}
}

// send sends a request and returns the status and the body; the status is 0 if there was no
// answer in time. private reports that the client may see what red has.
func (r *rpcTest) send(method, path string, header http.Header, body []byte, private bool, allowed []int) (int, []byte) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return 0, nil
	}
	req.Header = header
	what := fmt.Sprintf("%s %s %v %.300q", method, path, header, body)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		if ctx.Err() == nil {
			r.t.Errorf("%s: %v", what, err)
		}
		return 0, nil
	}
	defer res.Body.Close()
	stop := time.AfterFunc(300*time.Millisecond, cancel) // streams have no end
	defer stop.Stop()
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	r.mu.Lock()
	r.counts[res.StatusCode]++
	r.mu.Unlock()
	if !slices.Contains(allowed, res.StatusCode) {
		r.t.Errorf("%s: status %d is not documented: %.300s", what, res.StatusCode, data)
	}
	if !private && bytes.Contains(data, []byte(marker)) {
		r.t.Errorf("%s: the answer has what red has: %.300s", what, data)
	}
	return res.StatusCode, data
}

// connectMethods are the methods of envd; those of the second list are streams.
var (
	connectUnary = []string{
		"process.Process/List", "process.Process/Update", "process.Process/SendInput", "process.Process/SendSignal", "process.Process/CloseStdin",
		"filesystem.Filesystem/Stat", "filesystem.Filesystem/MakeDir", "filesystem.Filesystem/Move", "filesystem.Filesystem/ListDir", "filesystem.Filesystem/Remove",
		"filesystem.Filesystem/CreateWatcher", "filesystem.Filesystem/GetWatcherEvents", "filesystem.Filesystem/RemoveWatcher",
	}
	connectStreams = []string{"process.Process/Start", "process.Process/Connect", "process.Process/StreamInput", "filesystem.Filesystem/WatchDir"}
	connectKeys    = []string{"path", "source", "destination", "depth", "recursive", "process", "pid", "tag", "pty", "size", "cols", "rows", "cmd", "args", "envs", "cwd", "stdin", "input", "signal", "watcherId", "unknown"}

	// connectStatus are the statuses of envd and of the protocol Connect, except that of
	// internal errors; 502 is a sandbox or port that is gone.
	connectStatus = []int{200, 204, 206, 400, 401, 403, 404, 405, 406, 408, 409, 412, 413, 415, 416, 429, 499, 501, 502, 503, 504, 507}
)

// connectBody returns a message: JSON, bytes, or an envelope around one, each more or less
// damaged.
func connectBody(g *generator, stream, codecJSON bool) []byte {
	message := map[string]any{}
	for range g.IntN(4) {
		message[pick(g, connectKeys)] = g.value(3)
	}
	body, err := json.Marshal(message)
	if err != nil {
		body = []byte("{")
	}
	if !codecJSON {
		body = make([]byte, g.IntN(60))
		for i := range body {
			body[i] = byte(g.Uint32())
		}
		if g.IntN(2) == 0 { // field 1, a text
			text := g.text()
			body = append([]byte{0x0a, byte(len(text))}, text...)
		}
	}
	switch g.IntN(8) {
	case 0:
		body = []byte(g.body())
	case 1:
		body = body[:g.IntN(len(body)+1)]
	}
	if !stream || g.IntN(10) == 0 {
		return body
	}
	head := make([]byte, 5)
	binary.BigEndian.PutUint32(head[1:], uint32(len(body)))
	switch g.IntN(6) {
	case 0:
		binary.BigEndian.PutUint32(head[1:], pick(g, []uint32{0, 1, uint32(len(body)) + 1, 1 << 20, 1<<32 - 1}))
	case 1:
		head[0] = byte(g.Uint32()) // flags: compressed, end of the stream, unknown ones
	case 2:
		return head[:g.IntN(5)]
	}
	return append(head, body...)
}

// TestMalformedConnect sends malformed calls of envd's Connect services to sandboxes of two
// tenants: no internal error, and nothing of red without red's token.
func TestMalformedConnect(t *testing.T) {
	r := newRPCTest(t, "defaults: {provider: sandbox}\n")
	if p, err := r.sys.Mux.Provider("sandbox"); err != nil {
		t.Fatal(err)
	} else if _, err := p.Probe(t.Context()); err != nil {
		t.Skipf("skipped: host: it lacks isolation: %v", err)
	}
	type sandbox struct{ SandboxID, EnvdAccessToken string }
	create := func(key string) (box sandbox) {
		t.Helper()
		status, text := r.do(key, "POST", "/v2/sandboxes", `{"templateID":"base","timeout":3600}`)
		if err := json.Unmarshal([]byte(text), &box); err != nil || box.EnvdAccessToken == "" {
			t.Fatalf("create a sandbox: %d %s", status, text)
		}
		return box
	}
	red, blue := create(r.red), create(r.blue)
	r.workspace, r.session, r.snapshot, r.template = red.SandboxID, "x", "x", "base"
	file := func(box sandbox, method, body string) (int, []byte) {
		header := http.Header{"E2b-Sandbox-Id": {box.SandboxID}, "E2b-Sandbox-Port": {"49983"}, "X-Access-Token": {box.EnvdAccessToken}, "Content-Type": {"application/octet-stream"}}
		return r.send(method, "/files?path=secret.txt", header, []byte(body), true, []int{200})
	}
	file(red, "POST", marker)

	r.run(malformedConnect, func(g *generator) {
		stream, codecJSON := g.IntN(3) == 0, g.IntN(2) == 0
		method := pick(g, connectUnary)
		kind := "application/proto"
		if codecJSON {
			kind = "application/json"
		}
		if stream {
			method = pick(g, connectStreams)
			kind = strings.Replace(kind, "application/", "application/connect+", 1)
		}
		body := connectBody(g, stream, codecJSON)
		switch g.IntN(12) {
		case 0:
			method = pick(g, []string{"process.Process/None", "process.Process", "none.None/List", "filesystem.Filesystem/", "process.Process/List/x", "execute", "contexts", "init"})
		case 1:
			kind = pick(g, []string{"", "x", "text/plain", "application/json; charset=utf-16", "application/connect+xml", "application/grpc", "application/grpc-web+proto", "application/connect+json", "application/proto"})
		}
		header := http.Header{"Content-Type": {kind}, "E2b-Sandbox-Id": {blue.SandboxID}, "E2b-Sandbox-Port": {"49983"}, "X-Access-Token": {blue.EnvdAccessToken}, "Connect-Timeout-Ms": {"400"}}
		switch g.IntN(10) {
		case 0, 1: // red's sandbox with another token
			header["E2b-Sandbox-Id"] = []string{red.SandboxID}
		case 2:
			header["E2b-Sandbox-Id"] = []string{strings.Map(printableASCII, g.text())}
		case 3:
			header["E2b-Sandbox-Port"] = []string{pick(g, []string{"", "0", "-1", "x", "49999", "70000", "99999999999999999999", "1"})}
		case 4:
			delete(header, "X-Access-Token")
			header.Set("X-Api-Key", r.blue)
		case 5:
			header.Set(pick(g, []string{"Connect-Timeout-Ms", "Connect-Protocol-Version", "Content-Encoding", "Connect-Content-Encoding", "Connect-Accept-Encoding", "Keepalive-Ping-Interval", "Authorization"}),
				strings.Map(printableASCII, g.text()))
		}
		verb := pick(g, []string{"POST", "POST", "POST", "POST", "POST", "POST", "POST", "GET", "PUT", "FOO"})
		status, data := r.send(verb, "/"+method, header, body, false, connectStatus)
		for _, code := range []string{`"code":"internal"`, `"code":"unknown"`, `"code":"data_loss"`} {
			if bytes.Contains(data, []byte(code)) {
				t.Errorf("%s %v %.200q: %d %s", method, header, body, status, data)
			}
		}
	})
	for _, status := range []int{200, 400, 401, 404, 415} {
		if r.counts[status] < malformedConnect/300 {
			t.Errorf("%d answers have the status %d: the requests are too uniform", r.counts[status], status)
		}
	}
	if _, text := file(red, "GET", ""); string(text) != marker {
		t.Errorf("the file of red is %q", text)
	}
}

// A mcpTool is a tool as its server describes it.
type mcpTool struct {
	Name        string
	InputSchema struct{ Properties map[string]any }
}

// TestMalformedMCP sends malformed JSON-RPC messages to the MCP server: no internal error,
// and nothing of red for blue.
func TestMalformedMCP(t *testing.T) {
	r := newRPCTest(t, "defaults: {provider: memory}\n")
	var made struct{ ID string }
	r.must("POST", "/v1/workspaces", `{"kind":"memory","name":"shop"}`, &made)
	r.workspace, r.session, r.template, r.snapshot = made.ID, "x", "of-red", "x"
	r.must("PUT", "/v1/workspaces/shop/files?path=secret.txt", marker, nil)
	if status, text := r.do(r.blue, "POST", "/v1/workspaces", `{"kind":"memory","name":"own"}`); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	status := []int{200, 202, 204, 400, 401, 403, 404, 405, 406, 409, 413, 415, 429}
	header := func(key, session string) http.Header {
		h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		for name, value := range map[string]string{"X-Api-Key": key, "Mcp-Session-Id": session} {
			if value != "" {
				h.Set(name, value)
			}
		}
		return h
	}
	begin := func(key string) string {
		t.Helper()
		const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/mcp?toolset=both", strings.NewReader(initialize))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header(key, "")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		session := res.Header.Get("Mcp-Session-Id")
		if session == "" {
			t.Fatalf("initialize: %d", res.StatusCode)
		}
		r.send("POST", "/mcp", header(key, session), []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), false, status)
		return session
	}
	redSession, blueSession := begin(r.red), begin(r.blue)
	_, data := r.send("POST", "/mcp", header(r.blue, blueSession), []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`), false, status)
	var list struct{ Result struct{ Tools []mcpTool } }
	if at := bytes.IndexByte(data, '{'); at < 0 || json.NewDecoder(bytes.NewReader(data[at:])).Decode(&list) != nil || len(list.Result.Tools) == 0 {
		t.Fatalf("tools/list: %.300s", data)
	}
	methods := []string{"tools/list", "tools/call", "tools/call", "tools/call", "tools/call", "resources/list", "resources/read", "resources/templates/list", "prompts/list", "prompts/get", "ping", "initialize",
		"completion/complete", "logging/setLevel", "notifications/cancelled", "notifications/progress", "none", "", "rpc.discover"}
	message := func(g *generator) map[string]any {
		params := g.value(3)
		method := pick(g, methods)
		if method == "tools/call" && g.IntN(8) > 0 {
			tool, arguments := pick(g, list.Result.Tools), map[string]any{}
			for name := range tool.InputSchema.Properties {
				if g.IntN(3) > 0 {
					arguments[name] = g.value(3)
				}
			}
			if g.IntN(2) == 0 {
				arguments["workspace"] = pick(g, []string{"own", "shop", r.workspace, "", "none"})
			}
			params = map[string]any{"name": tool.Name, "arguments": arguments}
			if g.IntN(6) == 0 {
				params = map[string]any{"name": g.value(1), "arguments": g.value(2), "_meta": g.value(2)}
			}
		}
		m := map[string]any{"jsonrpc": "2.0", "id": 1 + g.IntN(1<<30), "method": method, "params": params}
		switch g.IntN(8) {
		case 0:
			m["jsonrpc"] = g.value(1)
		case 1:
			m["id"] = pick(g, []any{nil, -1, 1.5, json.RawMessage("1e400"), json.RawMessage("99999999999999999999999"), "", strings.Repeat("x", 5000), []any{}, map[string]any{}, true})
		case 2:
			delete(m, pick(g, []string{"jsonrpc", "id", "method", "params"}))
		case 3:
			m["method"] = g.value(1)
		case 4:
			m[pick(g, []string{"result", "error"})] = g.value(2)
		}
		return m
	}
	const deep = 20_000
	broken := []string{"", "{", "[]", "[[]]", "null", "1", `"x"`, "\xff", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, `{"jsonrpc":"2.0","jsonrpc":"1.0","id":1,"method":"ping"}`,
		strings.Repeat("[", deep), strings.Repeat(`{"a":`, deep),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Read","arguments":` + strings.Repeat(`{"a":`, deep) + "1" + strings.Repeat("}", deep) + "}}",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Read","arguments":{"limit":1e400}}}`}
	r.run(malformedMCP, func(g *generator) {
		var body []byte
		var err error
		switch g.IntN(8) {
		case 0:
			body = []byte(pick(g, broken))
		case 1:
			body, err = json.Marshal([]any{message(g), message(g), g.value(1)})
		default:
			body, err = json.Marshal(message(g))
		}
		if err != nil {
			t.Error(err)
			return
		}
		h := header(r.blue, blueSession)
		switch g.IntN(12) {
		case 0:
			h = header(r.blue, redSession)
		case 1:
			h = header(pick(g, []string{"", "e2b_x"}), pick(g, []string{"", blueSession, redSession}))
		case 2:
			h = header(r.blue, strings.Map(printableASCII, g.text()))
		case 3:
			h.Set(pick(g, []string{"Content-Type", "Accept", "Mcp-Protocol-Version", "Last-Event-Id"}), strings.Map(printableASCII, g.text()))
		}
		verb := "POST"
		if g.IntN(30) == 0 {
			verb = pick(g, []string{"PUT", "PATCH", "OPTIONS"})
		}
		_, data := r.send(verb, "/mcp", h, body, false, status)
		for _, bad := range []string{`"code":-32603`, "E_INTERNAL", "internal error"} {
			if bytes.Contains(data, []byte(bad)) {
				t.Errorf("%v %.300q: %.300s", h, body, data)
			}
		}
	})
	for _, status := range []int{200, 400, 401, 404} {
		if r.counts[status] < malformedMCP/300 {
			t.Errorf("%d answers have the status %d: the requests are too uniform", r.counts[status], status)
		}
	}
	if _, text := r.do(r.red, "GET", "/v1/workspaces/shop/files?path=secret.txt", ""); text != marker {
		t.Errorf("the file of red is %q", text)
	}
}
