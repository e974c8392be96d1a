package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/rest"
	"github.com/croft-run/croft/internal/shellwire"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/workspace/driver"
)

// shellHost is a host whose workspace has commands.
func shellHost(t *testing.T) (h *host, id, files string) {
	t.Helper()
	dir := t.TempDir()
	p, err := testshell.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	h = newHost(t, p)
	id = h.open(`{"kind": "shelltest"}`)
	return h, id, filepath.Join(dir, "ws", id, "files")
}

// exec runs a command and returns its events.
func (h *host) exec(id, body string) []rest.ExecEvent {
	h.t.Helper()
	r := h.do("POST", "/v1/workspaces/"+id+"/exec", body)
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/x-ndjson" {
		h.t.Fatalf("exec: %d %s %s", r.status, r.header, r.body)
	}
	var events []rest.ExecEvent
	for line := range strings.Lines(r.body) {
		var e rest.ExecEvent
		h.decode(reply{body: line}, &e)
		events = append(events, e)
	}
	return events
}

func TestExec(t *testing.T) {
	h, id, _ := shellHost(t)
	events := h.exec(id, `{"script": "cat; echo oops >&2; printf '\\377'; exit 3", "stdin": "in\n"}`)
	out := map[string]string{}
	for _, e := range events {
		out[e.Event] += e.Text + string(e.TextB64)
	}
	last := events[len(events)-1]
	if out["stdout"] != "in\n\xff" || out["stderr"] != "oops\n" || last.Event != "exit" || last.Result == nil || last.Result.ExitCode != 3 {
		t.Errorf("got %q, result %+v", out, last.Result)
	}
	for _, tt := range []struct {
		body string
		code fault.Code
	}{
		{`{}`, fault.InvalidArgument},
		{`{"argv": ["true"], "shell": true}`, fault.InvalidArgument},
		{`{"argv": ["true"], "argvB64": ["dHJ1ZQ=="]}`, fault.InvalidArgument},
		{`{"argv": ["no-such-program"]}`, fault.NotFound},
		{`{"argv": ["true"], "dir": "../.."}`, fault.SandboxViolation},
	} {
		wantFault(t, h.do("POST", "/v1/workspaces/"+id+"/exec", tt.body), tt.code)
	}
	memory := h.open(`{"kind": "memory"}`)
	wantFault(t, h.do("POST", "/v1/workspaces/"+memory+"/exec", `{"argv": ["true"]}`), fault.Unsupported)
	wantFault(t, h.do("GET", "/v1/workspaces/"+id+"/exec", ""), fault.InvalidArgument, "WebSocket")
}

// beating is a command that shows that it is alive, in the file beat, from
// beyond the reach of a careless kill.
const beating = `setsid sh -c 'while :; do echo x >> beat; sleep 0.02; done' & while ! [ -s beat ]; do sleep 0.01; done; echo ready; wait`

// wantSilence checks that nothing beats any more.
func wantSilence(t *testing.T, files string) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(filepath.Join(files, "beat"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for range 500 {
		before := size()
		time.Sleep(200 * time.Millisecond)
		if size() == before {
			return
		}
	}
	t.Error("what a client left still runs")
}

// TestVanishedClientEndsItsCommand proves it for each way to run a command.
func TestVanishedClientEndsItsCommand(t *testing.T) {
	t.Run("request", func(t *testing.T) {
		h, id, files := shellHost(t)
		ctx, vanish := context.WithCancel(t.Context())
		body, _ := json.Marshal(map[string]string{"script": beating})
		req, err := http.NewRequestWithContext(ctx, "POST", h.url+"/v1/workspaces/"+id+"/exec", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if line, err := bufio.NewReader(res.Body).ReadString('\n'); !strings.Contains(line, "ready") {
			t.Fatalf("the first event is %q, %v", line, err)
		}
		vanish()
		wantSilence(t, files)
	})
	for _, typ := range []shellwire.Type{shellwire.TypeRun, shellwire.TypeStart} {
		t.Run(string(typ), func(t *testing.T) {
			h, id, files := shellHost(t)
			conn := h.connect(id, shellwire.Message{
				Type: typ, Command: &shellwire.Exec{Script: beating}, Streams: []string{shellwire.Stdout},
			})
			for {
				_, stream, data, err := conn.Receive(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if stream == shellwire.Stdout && string(data) == "ready\n" {
					break
				}
			}
			conn.Abort()
			wantSilence(t, files)
		})
	}
}

// connect opens a connection for one command.
func (h *host) connect(id string, first shellwire.Message) *shellwire.Conn {
	h.t.Helper()
	conn := shellwire.NewConn(h.dial("/v1/workspaces/"+id+"/exec"), shellwire.MaxAnswer)
	h.t.Cleanup(conn.Abort)
	if err := conn.Send(h.t.Context(), first); err != nil {
		h.t.Fatal(err)
	}
	return conn
}

func (h *host) dial(path string) *websocket.Conn {
	h.t.Helper()
	ws, _, err := websocket.Dial(h.t.Context(), h.url+path, &websocket.DialOptions{ //nolint:bodyclose // the library has it
		HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return ws
}

// TestBackPressure proves that a stream that nobody takes stops at a window, and
// that the other one goes on meanwhile.
func TestBackPressure(t *testing.T) {
	h, id, _ := shellHost(t)
	conn := h.connect(id, shellwire.Message{
		Type: shellwire.TypeRun, Streams: []string{shellwire.Stdout, shellwire.Stderr},
		Command: &shellwire.Exec{Script: "head -c 3000000 /dev/zero & for i in 1 2 3; do echo $i >&2; done; wait; echo end >&2", MaxOutput: 1},
	})
	got := map[string]int{}
	text := ""
	for got[shellwire.Stdout] < shellwire.WindowSize || text != "1\n2\n3\n" {
		_, stream, data, err := conn.Receive(t.Context())
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		got[stream] += len(data)
		if stream == shellwire.Stderr {
			text += string(data)
		}
	}
	if got[shellwire.Stdout] != shellwire.WindowSize {
		t.Errorf("%d bytes came without an acknowledgement, want %d", got[shellwire.Stdout], shellwire.WindowSize)
	}
	if err := conn.Send(t.Context(), shellwire.Message{Type: shellwire.TypeAck, Stream: shellwire.Stdout, Bytes: shellwire.WindowSize}); err != nil {
		t.Fatal(err)
	}
	for {
		m, stream, data, err := conn.Receive(t.Context())
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		if m.Type == shellwire.TypeExit {
			if got[shellwire.Stdout] != 3000000 || m.Result.ExitCode != 0 {
				t.Errorf("%d bytes came, result %+v", got[shellwire.Stdout], m.Result)
			}
			return
		}
		got[stream] += len(data)
		if stream != "" {
			conn.Send(t.Context(), shellwire.Message{Type: shellwire.TypeAck, Stream: stream, Bytes: len(data)})
		}
	}
}

// TestConnectionRefusesNonsense proves that a client that breaks the rules is
// let go, and its command with it.
func TestConnectionRefusesNonsense(t *testing.T) {
	h, id, _ := shellHost(t)
	for name, first := range map[string]shellwire.Message{
		"no command":     {Type: shellwire.TypeRun},
		"another type":   {Type: shellwire.TypeAck, Command: &shellwire.Exec{Script: "true"}},
		"unknown stream": {Type: shellwire.TypeRun, Command: &shellwire.Exec{Script: "true"}, Streams: []string{"stdfoo"}},
	} {
		m, _, _, err := h.connect(id, first).Receive(t.Context())
		if err != nil || m.Type != shellwire.TypeError || m.Error.Code != fault.InvalidArgument.Wire() {
			t.Errorf("%s: got %+v, %v", name, m, err)
		}
	}
	conn := h.connect(id, shellwire.Message{Type: shellwire.TypeRun, Command: &shellwire.Exec{Script: "sleep 1000"}, Streams: []string{shellwire.Stdin}})
	flood := make([]byte, shellwire.ChunkSize)
	for range 4 * shellwire.WindowSize / shellwire.ChunkSize { // what the pipe takes is little beside it
		if err := conn.SendData(t.Context(), shellwire.Stdin, flood); err != nil {
			break // it is cut already
		}
	}
	for {
		m, _, _, err := conn.Receive(t.Context())
		if err != nil || m.Type == shellwire.TypeExit && m.Result.Cause == driver.CauseCanceled {
			return
		}
	}
}

func TestSessions(t *testing.T) {
	h, id, _ := shellHost(t)
	base := "/v1/workspaces/" + id + "/sessions"
	r := h.do("POST", base, `{"script": "stty size; read -r x; echo got $x; stty size; exit 4", "tty": {"rows": 30, "cols": 100}, "interactive": true, "detached": true, "labels": {"k": "v"}}`)
	var info driver.SessionInfo
	h.decode(r, &info)
	if r.status != http.StatusOK || !info.Running || !info.TTY || info.Labels["k"] != "v" {
		t.Fatalf("start: %d %s", r.status, r.body)
	}
	one := base + "/" + info.ID
	if r := h.do("POST", one+"/resize", `{"rows": 40, "cols": 120}`); r.status != http.StatusNoContent {
		t.Errorf("resize: %d %s", r.status, r.body)
	}
	if r := h.do("POST", one+"/stdin", "hello\n"); r.status != http.StatusNoContent {
		t.Errorf("stdin: %d %s", r.status, r.body)
	}
	var res driver.Result
	h.decode(h.do("GET", one+"/wait", ""), &res)
	if res.ExitCode != 4 || !strings.Contains(string(res.Stdout), "got hello") || !strings.HasSuffix(string(res.Stdout), "40 120\r\n") {
		t.Errorf("wait: %+v %q", res, res.Stdout)
	}
	if r := h.do("GET", one+"/follow", ""); r.body != string(res.Stdout) || r.err != nil {
		t.Errorf("follow: %q, %v", r.body, r.err)
	}
	wantFault(t, h.do("GET", one+"/log?stream=stdfoo", ""), fault.InvalidArgument)
	wantFault(t, h.do("GET", one+"/log?offset=100000", ""), fault.InvalidArgument)
	wantFault(t, h.do("POST", one+"/signal", `{"signal": "SIGINT"}`), fault.WrongState)
	wantFault(t, h.do("POST", one+"/resize", `{"rows": 0, "cols": 1}`), fault.InvalidArgument)
	if r := h.do("DELETE", one, ""); r.status != http.StatusNoContent {
		t.Errorf("delete: %d %s", r.status, r.body)
	}
	wantFault(t, h.do("GET", one, ""), fault.NotFound)
	wantFault(t, h.do("GET", one+"/wait", ""), fault.NotFound)

	h.decode(h.do("POST", base, `{"argv": ["sleep", "1000"]}`), &info)
	wantFault(t, h.do("GET", base+"/"+info.ID+"/wait?timeout=10ms", ""), fault.DeadlineExceeded)
	h.do("POST", base+"/"+info.ID+"/kill", "")
	h.decode(h.do("GET", base+"/"+info.ID+"/wait", ""), &res)
	if res.Cause != driver.CauseKilled {
		t.Errorf("a session that was killed gives %+v", res)
	}
}

// TestTimesOfCommands gives the times of a command as texts and as nanoseconds.
func TestTimesOfCommands(t *testing.T) {
	h, id, _ := shellHost(t)
	for _, timeout := range []string{`"50ms"`, `50000000`} {
		events := h.exec(id, `{"argv": ["sleep", "1000"], "timeout": `+timeout+`, "grace": "1ms"}`)
		if last := events[len(events)-1].Result; last == nil || last.Cause != driver.CauseTimeout {
			t.Errorf("timeout %s gives %+v, want the cause timeout", timeout, last)
		}
	}
	for _, bad := range []string{`"timeout": "50"`, `"timeout": "soon"`, `"timeout": 1.5`, `"timeout": true`, `"grace": "1 s"`, `"timeout": ""`} {
		for _, route := range []string{"/exec", "/sessions"} {
			wantFault(t, h.do("POST", "/v1/workspaces/"+id+route, `{"argv": ["true"], `+bad+`}`), fault.InvalidArgument, `such as "50ms" or "1m30s"`, "nanoseconds")
		}
	}
	wantFault(t, h.do("POST", "/v1/workspaces/"+id+"/exec", `{"argv": ["true"], "timeout": "-1s"}`), fault.InvalidArgument, "negative")
}

// TestAttach sits down at a terminal, leaves, and comes back to what it shows.
func TestAttach(t *testing.T) {
	h, id, _ := shellHost(t)
	base := "/v1/workspaces/" + id + "/sessions"
	var info driver.SessionInfo
	h.decode(h.do("POST", base, `{"script": "stty -echo; while read -r x; do echo \"got $x\"; stty size; done; exit 5", "tty": {"rows": 1, "cols": 1}, "interactive": true, "detached": true}`), &info)

	read := func(ws *websocket.Conn, want string) {
		t.Helper()
		got := ""
		for !strings.Contains(got, want) {
			typ, data, err := ws.Read(t.Context())
			if err != nil {
				t.Fatalf("after %q: %v", got, err)
			}
			if typ == websocket.MessageBinary {
				got += string(data)
			}
		}
	}
	ws := h.dial(base + "/" + info.ID + "/attach")
	ws.Write(t.Context(), websocket.MessageText, []byte(`{"type": "resize", "size": {"rows": 11, "cols": 22}}`))
	ws.Write(t.Context(), websocket.MessageBinary, []byte("one\n"))
	read(ws, "got one\r\n11 22\r\n")
	ws.CloseNow()

	ws = h.dial(base + "/" + info.ID + "/attach?tail=9")
	defer ws.CloseNow()
	read(ws, "11 22\r\n")
	ws.Write(t.Context(), websocket.MessageText, []byte(`{"type": "eof"}`))
	for {
		typ, data, err := ws.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var m shellwire.Message
		if typ == websocket.MessageText && json.Unmarshal(data, &m) == nil && m.Result != nil {
			if m.Result.ExitCode != 5 {
				t.Errorf("the result is %+v", m.Result)
			}
			break
		}
	}
}

// TestDrainEndsConnections proves that a server that shuts down waits for no
// client, and leaves nothing running.
func TestDrainEndsConnections(t *testing.T) {
	h, id, files := shellHost(t)
	conn := h.connect(id, shellwire.Message{Type: shellwire.TypeRun, Command: &shellwire.Exec{Script: beating}, Streams: []string{shellwire.Stdout}})
	if _, _, _, err := conn.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.srv.Drain()
	m, _, _, err := conn.Receive(t.Context())
	if err != nil || m.Type != shellwire.TypeExit || m.Result.Cause != driver.CauseCanceled {
		t.Errorf("got %+v, %v; want the result of a command that was cancelled", m, err)
	}
	if _, _, _, err := conn.Receive(t.Context()); err == nil || !shellwire.Ended(err) {
		t.Errorf("the connection goes on: %v", err)
	}
	if err := h.srv.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	wantSilence(t, files)
	wantFault(t, h.do("GET", "/v1/workspaces/"+id+"/exec", "", "Upgrade: websocket", "Connection: Upgrade"), fault.Unavailable)
}

// TestEvents follows the stream, loses the connection and comes back.
func TestEvents(t *testing.T) {
	h, id, _ := shellHost(t)
	follow := func(header ...string) (*bufio.Reader, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", h.url+"/events?workspace="+id+"&kind=workspace.operation", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		for _, id := range header {
			req.Header.Set("Last-Event-ID", id)
		}
		res, err := http.DefaultTransport.RoundTrip(req) //nolint:bodyclose // stop closes it
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		return bufio.NewReader(res.Body), func() { cancel(); res.Body.Close() }
	}
	next := func(r *bufio.Reader) (seq, data string) {
		t.Helper()
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			line = strings.TrimSpace(line)
			if s, ok := strings.CutPrefix(line, "id: "); ok {
				seq = s
			}
			if d, ok := strings.CutPrefix(line, "data: "); ok {
				return seq, d
			}
		}
	}
	r, stop := follow()
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, ":") {
		t.Fatal(line, err)
	}
	h.do("GET", "/v1/workspaces/"+id+"/stat?path=.", "")
	seq, data := next(r)
	if !strings.Contains(data, `"verb":"stat"`) || !strings.Contains(data, id) {
		t.Errorf("the event is %s", data)
	}
	stop()
	h.do("GET", "/v1/workspaces/"+id+"/readdir?path=.", "")
	h.do("GET", "/v1/workspaces/"+id+"/list?path=.", "")
	r, stop = follow(seq)
	defer stop()
	for _, verb := range []string{"readdir", "list"} {
		if _, data := next(r); !strings.Contains(data, `"verb":"`+verb+`"`) {
			t.Errorf("the event is %s, want %s", data, verb)
		}
	}
	wantFault(t, h.do("GET", "/events?workspace=nope", ""), fault.NotFound)
	wantFault(t, h.do("GET", "/events?after=-1", ""), fault.InvalidArgument)
	h.srv.Drain()
	if rest, err := io.ReadAll(r); err != nil || !strings.Contains(string(rest), "event: end") {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
}
