package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
)

// malformed is how many requests TestMalformedRequests sends.
const malformed = 10_000

// oddTexts are values for parameters, parts of paths and texts in bodies.
var oddTexts = []string{
	"", " ", ".", "..", "../../etc/passwd", "/etc/passwd", "\x00", "a\x00b", "\xff\xfe", "%", "%zz", "é", "😀", "a b", "a\nb", "<script>", "'; DROP TABLE api_keys; --",
	"-1", "0", "1", "99999999999999999999", "1e309", "NaN", "true", "null", "[]", "{}", "e2b_", strings.Repeat("x", 300), strings.Repeat("../", 200),
	"shop", "aaaaaaaaaaaaaaaaaaaa", "of-red", "@origin", "@now", "5s", "-5s", "1h", "stdout", "lifecycle.*", "K=V", "=", "sandbox", "memory", "auto", "default",
}

// A generator makes requests that are partly valid: of a known route, with values of the wrong
// form, of another type, or missing.
type generator struct {
	*rand.Rand
	m      *team
	routes []operation
	keys   []string
}

func pick[T any](g *generator, list []T) T { return list[g.IntN(len(list))] }

func (g *generator) text() string {
	if g.IntN(4) == 0 {
		return pick(g, []string{g.m.workspace, g.m.snapshot, g.m.session, g.m.redKey, g.m.template, "secret.txt"})
	}
	return pick(g, oddTexts)
}

// value returns a JSON value of any form.
func (g *generator) value(depth int) any {
	switch n := g.IntN(9); {
	case n < 3 || depth == 0:
		return g.text()
	case n == 3:
		return g.Int64() - 1<<62
	case n == 4:
		return g.IntN(2) == 0
	case n == 5:
		return nil
	case n == 6:
		return []any{g.value(depth - 1), g.value(depth - 1)}
	}
	out := map[string]any{}
	for range g.IntN(4) {
		out[pick(g, bodyKeys)] = g.value(depth - 1)
	}
	return out
}

// bodyKeys are keys that bodies of requests have, and one that none has.
var bodyKeys = []string{
	"id", "kind", "name", "labels", "policy", "limits", "memory", "max", "network", "allow", "host", "credential", "from", "snapshot", "template", "config", "session", "user",
	"script", "args", "env", "dir", "timeout", "source", "language", "context", "signal", "rows", "cols", "path", "target", "old", "new", "edits", "mode", "count", "keep", "maxAge",
	"tenant", "scope", "expires", "to", "metadata", "output", "ignore", "since", "image", "git", "unknown", "__proto__",
}

func (g *generator) body() string {
	switch g.IntN(6) {
	case 0:
		return pick(g, []string{"", "{", "null", "[]", `"x"`, "{}}", `{"a":`, "\xff", "{\"name\":\"a\",\"name\":\"b\"}", strings.Repeat("[", 2000), strings.Repeat(`{"a":`, 500)})
	case 1:
		return g.text()
	}
	body := map[string]any{}
	for range 1 + g.IntN(4) {
		body[pick(g, bodyKeys)] = g.value(3)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return "{"
	}
	return string(data)
}

func (g *generator) request(ctx context.Context) (*http.Request, operation, error) {
	o := pick(g, g.routes)
	parts := strings.Split(o.path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			value := g.text()
			if o.method == http.MethodDelete {
				value = pick(g, oddTexts) // what the other requests are about stays
			}
			parts[i] = url.PathEscape(value)
		}
	}
	q := url.Values{}
	for _, p := range o.Parameters {
		if p.In == "query" && (p.Required || g.IntN(3) == 0) {
			q.Set(p.Name, g.text())
		}
	}
	if g.IntN(10) == 0 {
		q.Add(pick(g, bodyKeys), g.text())
	}
	query := q.Encode()
	if g.IntN(20) == 0 {
		query = pick(g, []string{"%", "a=%zz", ";", "&&&", "path", "=x"})
	}
	method := o.method
	if g.IntN(20) == 0 {
		method = pick(g, []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "FOO"})
	}
	var body io.Reader
	if method != http.MethodGet && method != http.MethodHead && g.IntN(8) > 0 {
		body = strings.NewReader(g.body())
	}
	req, err := http.NewRequestWithContext(ctx, method, g.m.url+"/", body)
	if err != nil {
		return nil, o, err
	}
	req.URL.Opaque = "//" + req.URL.Host + strings.Join(parts, "/") // as it is, without cleaning
	req.URL.RawQuery = query
	if key := pick(g, g.keys); key != "" {
		req.Header.Set(pick(g, []string{"X-API-KEY", "Authorization"}), key)
		if value := req.Header.Get("Authorization"); value != "" {
			req.Header.Set("Authorization", "Bearer "+value)
		}
	}
	req.Header.Set("Content-Type", pick(g, []string{"application/json", "text/plain", "application/octet-stream", "application/x-tar", "x", ""}))
	for _, name := range []string{"Range", "If-Match", "If-None-Match", "Last-Event-ID", "Content-Encoding", "Upgrade", "Accept"} {
		if g.IntN(30) == 0 {
			req.Header.Set(name, strings.Map(printableASCII, g.text()))
		}
	}
	return req, o, nil
}

func printableASCII(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// documented reports whether the OpenAPI document has a status for a route: one of its answers,
// or that of a code. Internal is a defect.
func documented(o operation, status int) bool {
	if _, ok := o.Responses[fmt.Sprint(status)]; ok || status == http.StatusOK || status == http.StatusNoContent || status == http.StatusSwitchingProtocols {
		return true
	}
	if status == http.StatusPartialContent || status == http.StatusNotModified || status == http.StatusMethodNotAllowed || status == http.StatusRequestedRangeNotSatisfiable {
		return true
	}
	return slices.ContainsFunc(fault.All(), func(code fault.Code) bool { return code != fault.Internal && code.Status() == status })
}

// TestMalformedRequests sends requests of every route with wrong values: the answer is always one
// that the document has, never an internal error, and never another tenant's data.
func TestMalformedRequests(t *testing.T) {
	var log syncBuffer
	cfg := settings(t, "version: 1\ndefaults: {provider: memory}\n")
	sys, base := serveWith(t, app.Config{DataDir: t.TempDir(), Settings: cfg, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	m := &team{t: t, sys: sys, url: base}
	m.red, m.redKey = m.key("red", "admin")
	m.redRead, _ = m.key("red", "read")
	m.blue, _ = m.key("blue", "admin")
	var made struct{ ID string }
	m.must("POST", "/v1/workspaces", `{"kind":"memory","name":"shop"}`, &made)
	m.workspace, m.session = made.ID, "x"
	m.must("PUT", "/v1/workspaces/shop/files?path=secret.txt", marker, nil)
	m.must("POST", "/v1/workspaces/shop/snapshots", `{"name":"s"}`, &made)
	m.snapshot, m.template = made.ID, "of-red"
	m.must("POST", "/v1/templates", `{"name":"of-red","snapshot":"`+m.snapshot+`"}`, nil)

	// Red's key is not among them: its changes would make others of the requests valid.
	keys := []string{m.blue, m.blue, m.blue, m.redRead, "", "e2b_", "e2b_" + strings.Repeat("f", 40), sys.Token}
	routes := m.routes()
	const workers = 8
	var mu sync.Mutex
	counts := map[int]int{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			g := &generator{rand.New(rand.NewPCG(21, uint64(w))), m, routes, keys}
			for range malformed / workers {
				status := m.sendMalformed(g)
				mu.Lock()
				counts[status]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("answers by status (0: the server did not answer in time): %v", counts)
	if text := log.String(); strings.Contains(text, "panicked") || strings.Contains(text, "internal error") {
		t.Errorf("the log has %.2000s", text)
	}
	for _, status := range []int{200, 400, 401, 403, 404} {
		if counts[status] < malformed/200 {
			t.Errorf("%d answers have the status %d: the requests are too uniform", counts[status], status)
		}
	}
	if _, text := m.do(m.redRead, "GET", "/v1/workspaces/"+m.workspace+"/files?path=secret.txt", ""); text != marker {
		t.Errorf("the file of red is %q", text)
	}
}

// sendMalformed sends one request and returns its status, 0 for no answer: a stream that waits.
func (m *team) sendMalformed(g *generator) int {
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
	defer cancel()
	req, o, err := g.request(ctx)
	if err != nil {
		m.t.Error(err)
		return 0
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	what := fmt.Sprintf("%s %s", req.Method, req.URL)
	if err != nil {
		if ctx.Err() == nil && !strings.Contains(err.Error(), "invalid") {
			m.t.Errorf("%s: %v", what, err)
		}
		return 0
	}
	defer res.Body.Close()
	if !documented(o, res.StatusCode) {
		data, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		m.t.Errorf("%s: status %d is not documented: %s", what, res.StatusCode, data)
	}
	stop := time.AfterFunc(100*time.Millisecond, cancel) // streams have no end
	defer stop.Stop()
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	key := req.Header.Get("X-API-KEY") + strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	if key != m.redRead && key != m.sys.Token && bytes.Contains(data, []byte(marker)) {
		m.t.Errorf("%s: the answer has what red has: %.300s", what, data)
	}
	return res.StatusCode
}

// A syncBuffer is a buffer for concurrent writers.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(data)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
