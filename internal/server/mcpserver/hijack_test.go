package mcpserver_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/tool"
)

// A stranger speaks HTTP as a client does that is after the session of another one.
type stranger struct {
	t   *testing.T
	url string
}

// do sends a request and returns its status and, unless it is a stream that stays
// open, its body.
func (s stranger) do(method, token, session, lastEvent, body string) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18",
		"Authorization": "Bearer " + token, "Mcp-Session-Id": session, "Last-Event-Id": lastEvent,
	} {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if method == http.MethodGet && res.StatusCode == http.StatusOK {
		line, _ := bufio.NewReader(res.Body).ReadString('\n')
		return res.StatusCode, line
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if id := res.Header.Get("Mcp-Session-Id"); id != "" && session == "" {
		return res.StatusCode, id
	}
	return res.StatusCode, string(data)
}

// open begins a session, makes a call in it, and returns its id and the id of the
// last event of that call.
func (s stranger) open(token string) (session, event string) {
	s.t.Helper()
	status, session := s.do(http.MethodPost, token, "", "", initialize)
	if status != http.StatusOK {
		s.t.Fatalf("status %d: %s", status, session)
	}
	s.do(http.MethodPost, token, session, "", initialized)
	status, answer := s.do(http.MethodPost, token, session, "", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Read","arguments":{"file_path":"f"}}}`)
	if status != http.StatusOK || !strings.Contains(answer, "for one client") {
		s.t.Fatalf("status %d: %s", status, answer)
	}
	for line := range strings.Lines(answer) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			event = strings.TrimSpace(id)
		}
	}
	return session, event
}

// TestNobodyGetsTheSessionOfAnother: a session is of no use without the token, and
// what one session has missed is not told to another.
func TestNobodyGetsTheSessionOfAnother(t *testing.T) {
	set := new(tool.Set)
	ws := resolveDir(t)
	if _, err := ws.WriteFile(t.Context(), "f", []byte("for one client\n"), nil); err != nil {
		t.Fatal(err)
	}
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	srv, _ := serve(t, set, mcpserver.Options{})
	s := stranger{t, listen(t, mcpserver.Guard(srv.Handler(), "right", nil)).URL}
	a, eventOfA := s.open("right")
	b, _ := s.open("right")
	call := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"Read","arguments":{"file_path":"f"}}}`
	for _, tt := range []struct {
		what, method, token, session, event, body string
		want                                      int
	}{
		{"a call with another token", "POST", "wrong", a, "", call, 401},
		{"a stream with another token", "GET", "wrong", a, eventOfA, "", 401},
		{"an end with another token", "DELETE", "wrong", a, "", "", 401},
		{"a call without a token", "POST", "", a, "", call, 401},
		{"a call in a session that never was", "POST", "right", a[:len(a)-1] + "!", "", call, 404},
		{"an end of a session that never was", "DELETE", "right", "x", "", "", 404},
		{"the events of another session", "GET", "right", b, eventOfA, "", 400},
		{"events that never were", "GET", "right", b, "nonsense", "", 400},
		{"events before the first", "GET", "right", a, strings.Split(eventOfA, "_")[0] + "_-5", "", 400},
		{"events after the last", "GET", "right", a, strings.Split(eventOfA, "_")[0] + "_99999999999999999999", "", 400},
	} {
		status, answer := s.do(tt.method, tt.token, tt.session, tt.event, tt.body)
		if status != tt.want || strings.Contains(answer, "for one client") {
			t.Errorf("%s: status %d, want %d: %.200s", tt.what, status, tt.want, answer)
		}
	}
	for _, session := range []string{a, b} {
		if status, answer := s.do("POST", "right", session, "", call); status != 200 || !strings.Contains(answer, "for one client") {
			t.Errorf("afterwards a call in a session of its own: status %d: %s", status, answer)
		}
	}
	if status, answer := s.do("DELETE", "right", a, "", ""); status >= 300 {
		t.Errorf("the end of a session: status %d: %s", status, answer)
	}
	if status, answer := s.do("POST", "right", a, "", call); status != 404 {
		t.Errorf("a call in a session that has ended: status %d: %s", status, answer)
	}
	if status, answer := s.do("GET", "right", a, eventOfA, ""); status != 404 {
		t.Errorf("the events of a session that has ended: status %d: %s", status, answer)
	}
}

// TestEndOfASessionEndsItsCalls: what runs for a session ends with it, and nothing of
// another one does.
func TestEndOfASessionEndsItsCalls(t *testing.T) {
	set := new(tool.Set)
	ws := resolveDir(t)
	if _, err := ws.WriteFile(t.Context(), "f", []byte("for one client\n"), nil); err != nil {
		t.Fatal(err)
	}
	if err := set.Add("w", ws); err != nil {
		t.Fatal(err)
	}
	block, begun, ended := blocks()
	srv, _ := serve(t, set, mcpserver.Options{}, block)
	s := stranger{t, listen(t, mcpserver.Guard(srv.Handler(), "right", nil)).URL}
	a, _ := s.open("right")
	b, _ := s.open("right")
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.do(http.MethodPost, "right", a, "", callBlock)
	}()
	await(t, "the call", begun)
	if status, answer := s.do(http.MethodDelete, "right", b, "", ""); status >= 300 {
		t.Errorf("the end of a session: status %d: %s", status, answer)
	}
	select {
	case <-ended:
		t.Error("the end of a session ended a call of another one")
	default:
	}
	if status, answer := s.do(http.MethodDelete, "right", a, "", ""); status >= 300 {
		t.Errorf("the end of a session: status %d: %s", status, answer)
	}
	await(t, "the end of the call", ended)
	await(t, "an answer", over)
}
