package replay

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

// model answers each request with a stream that counts.
func model(t *testing.T) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Set-Cookie", "secret=1")
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "data: %d\n\n", n.Add(1))
		w.(http.Flusher).Flush()
		fmt.Fprintf(w, "data: %s \xff\n\n", body)
	}))
	t.Cleanup(srv.Close)
	return srv, &n
}

func ask(t *testing.T, base, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk-secret")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestRecordAndReplay: what a model said through the proxy is said again without
// it, also where the request differs in what does not matter.
func TestRecordAndReplay(t *testing.T) {
	srv, asked := model(t)
	up, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "tape.jsonl")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	rec := NewRecorder(http.DefaultTransport, f)
	proxy := httptest.NewServer(Handler(up, rec))
	const body = `{"model":"m","metadata":{"user_id":"u1"},"messages":["in /tmp/a/1 at 2026-11-15T09:00:00.000Z"]}`
	_, first := ask(t, proxy.URL, "/v1/messages?key=sk-secret", body)
	_, second := ask(t, proxy.URL, "/v1/messages?key=sk-secret", body)
	_, other := ask(t, proxy.URL, "/v1/messages", `{"messages":["other"]}`)
	proxy.Close()
	if err := rec.Err(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	srv.Close()

	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("secret")) {
		t.Errorf("the tape has a secret: %s", text)
	}
	tape, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	proxy = httptest.NewServer(Handler(up, tape))
	defer proxy.Close()
	const again = `{"messages":["in /tmp/b/2 at 2027-01-01T00:00:00.000Z"],"metadata":{"user_id":"u2"},"model":"m"}`
	var got []string
	for range 3 {
		_, text := ask(t, proxy.URL, "/v1/messages?key=another", again)
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{first, second, second}, got); diff != "" {
		t.Errorf("replayed (-want +got):\n%s", diff)
	}
	if _, got := ask(t, proxy.URL, "/v1/messages", `{"messages":["other"]}`); got != other {
		t.Errorf("the other request gets %q, want %q", got, other)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("the model was asked %d times, want 3", n)
	}
}

// TestDirectories: a run in other directories hears of its own.
func TestDirectories(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "data: %s\n\n", body[:30])
		w.(http.Flusher).Flush()
		fmt.Fprintf(w, "data: %s", body)
	}))
	defer srv.Close()
	up, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	var tape bytes.Buffer
	proxy := httptest.NewServer(Handler(up, NewRecorder(http.DefaultTransport, &tape).In("/runs/1/work", "/runs/1")))
	ask(t, proxy.URL, "/v1/messages", `{"in":"/runs/1/work","to":"/runs/1/out"}`)
	proxy.Close()
	if strings.Contains(tape.String(), "/runs/1") {
		t.Errorf("the tape names a directory of its run: %s", tape.String())
	}
	played, err := Read(&tape)
	if err != nil {
		t.Fatal(err)
	}
	proxy = httptest.NewServer(Handler(up, played.In("/elsewhere", "/top")))
	defer proxy.Close()
	_, got := ask(t, proxy.URL, "/v1/messages", `{"to":"/top/out","in":"/elsewhere"}`)
	if want := "data: {\"in\":\"/elsewhere\",\"to\":\"/ru\n\ndata: {\"in\":\"/elsewhere\",\"to\":\"/top/out\"}"; got != want {
		t.Errorf("replayed elsewhere %q, want %q", got, want)
	}
}

// TestUnknownRequest: what is not on the tape is refused, saying what differs.
func TestUnknownRequest(t *testing.T) {
	req := httptest.NewRequest(http.MethodPost, "http://model/v1/messages", nil)
	key, norm := Key(req, []byte(`{"messages":["hello"]}`))
	line := fmt.Sprintf(`{"version":1,"key":%q,"method":"POST","url":"http://model/v1/messages","request":%s,"status":200,"chunks":[{"text":"hi"}]}`, key, norm)
	tape, err := Read(strings.NewReader(line + "\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	req.Body = io.NopCloser(strings.NewReader(`{"messages":["help"]}`))
	_, err = tape.RoundTrip(req) //nolint:bodyclose // there is none
	if fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), `the nearest differs at byte 17`) {
		t.Errorf("an unknown request: %v, want it not found and the place where it differs", err)
	}
	up, _ := url.Parse("http://model")
	proxy := httptest.NewServer(Handler(up, tape))
	defer proxy.Close()
	status, text := ask(t, proxy.URL, "/v1/other", `{}`)
	if status != http.StatusBadRequest || !strings.Contains(text, "none for this method and path was") {
		t.Errorf("another path gets %d %s", status, text)
	}
	if len(tape.next) != 0 {
		t.Errorf("answers were taken from the tape: %v", tape.next)
	}
}

// TestKey: what makes a difference does, and what does not does not.
func TestKey(t *testing.T) {
	of := func(method, url, body string) string {
		key, _ := Key(httptest.NewRequest(method, url, nil), []byte(body))
		return key
	}
	base := of("POST", "http://h/p", `{"a":1,"b":[2]}`)
	for _, same := range []string{of("POST", "http://H:80/p?key=x", ` {"b": [2], "a": 1, "user": "u"}`), of("POST", "http://h/p", `{"a":1,"session_id":"s","b":[2]}`)} {
		if same != base {
			t.Errorf("the key differs: %s, want %s", same, base)
		}
	}
	for _, other := range []string{of("PUT", "http://h/p", `{"a":1,"b":[2]}`), of("POST", "http://i/p", `{"a":1,"b":[2]}`), of("POST", "http://h/q", `{"a":1,"b":[2]}`),
		of("POST", "http://h/p?alt=sse", `{"a":1,"b":[2]}`), of("POST", "http://h/p", `{"a":1,"b":[3]}`), of("POST", "http://h/p", `{"a":1.0,"b":[2]}`)} {
		if other == base {
			t.Errorf("a request that differs has the same key")
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"version":1,"key":"k","method":"GET","url":"u","status":200,"chunks":[{"text":"a"}]}`))
	f.Add([]byte("{}\n[]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tape, err := Read(bytes.NewReader(data))
		if err != nil {
			if fault.Of(err) != fault.InvalidArgument {
				t.Errorf("%v, want an invalid argument", err)
			}
			return
		}
		for key := range tape.all {
			if _, ok := tape.nextExchange(key); !ok {
				t.Errorf("%q is not on the tape", key)
			}
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add([]byte(`{"a":{"metadata":1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req := httptest.NewRequest(http.MethodPost, "http://h/p", nil)
		a, norm := Key(req, body)
		if b, _ := Key(req, body); a != b {
			t.Errorf("two keys: %s and %s", a, b)
		}
		_ = norm
	})
}

// TestKeysThatAreSaid: a key that an agent or a model says is not on the tape, and a
// replay with another key finds the request all the same.
func TestKeysThatAreSaid(t *testing.T) {
	for _, variable := range []string{"SOME_API_KEY", "CROFT_SECRET_MODEL"} {
		t.Run(variable, func(t *testing.T) { keysAreHidden(t, variable) })
	}
}

func keysAreHidden(t *testing.T, variable string) {
	const inHeader, inEnv, likeOne = "not-a-real-key-0001", "not-a-real-key-0002", "ghp_0123456789abcdefABCDEF0123456789abcd"
	t.Setenv(variable, inEnv)
	srv, _ := model(t)
	up, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	say := func(base, key, env string) (int, string) {
		body := fmt.Sprintf(`{"messages":["printenv: KEY=%s OTHER=%s THIRD %s"]}`, key, env, likeOne)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/messages", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	var tape bytes.Buffer
	proxy := httptest.NewServer(Handler(up, NewRecorder(http.DefaultTransport, &tape)))
	defer proxy.Close()
	if _, said := say(proxy.URL, inHeader, inEnv); !strings.Contains(said, inHeader) {
		t.Fatalf("the agent is not answered as the model did: %s", said)
	}
	for _, key := range []string{inHeader, inEnv} {
		if strings.Contains(tape.String(), key) {
			t.Errorf("%s is on the tape: %s", key, tape.String())
		}
	}
	if line, _, _ := strings.Cut(tape.String(), `"status"`); strings.Contains(line, likeOne) {
		t.Errorf("what looks like a key is on the tape: %s", line)
	}
	t.Setenv(variable, "another-secret-0003")
	played, err := Read(&tape)
	if err != nil {
		t.Fatal(err)
	}
	replay := httptest.NewServer(Handler(up, played))
	defer replay.Close()
	if status, said := say(replay.URL, "yet-another-key-0004", "another-secret-0003"); status != http.StatusOK {
		t.Errorf("a replay with other keys: %d %s", status, said)
	}
}
