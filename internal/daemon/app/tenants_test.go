package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/testenv"
)

// A team is a server with two tenants, red and blue. Everything that red has holds marker.
type team struct {
	t   *testing.T
	sys *app.System
	url string

	red, redRead, redRun, blue string // keys
	redKey                     string // id of the key red

	workspace, snapshot, template, session, artifact, context, share string // of red
}

func newTeam(t *testing.T, settingsText string) *team {
	t.Helper()
	return newTeamIn(t, t.TempDir(), settingsText)
}

// newTeamIn is newTeam on a data directory.
func newTeamIn(t *testing.T, dir, settingsText string) *team {
	t.Helper()
	sys, base := serveWith(t, app.Config{DataDir: dir, Settings: settings(t, "version: 1\n"+settingsText)})
	m := &team{t: t, sys: sys, url: base}
	m.red, m.redKey = m.key("red", "admin")
	m.redRead, _ = m.key("red", "read")
	m.redRun, _ = m.key("red", "run")
	m.blue, _ = m.key("blue", "admin")
	return m
}

// key creates a key with the server's token, and returns its text and id.
func (m *team) key(tenant, scope string) (text, id string) {
	m.t.Helper()
	k, err := m.client(m.sys.Token).CreateKey(m.t.Context(), client.KeyRequest{Tenant: tenant, Scope: scope, Expires: "90d"})
	if err != nil {
		m.t.Fatal(err)
	}
	return k.Text, k.ID
}

func (m *team) client(key string) *client.Client {
	m.t.Helper()
	c, err := client.NewClient(client.Config{URL: m.url, Token: key})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	return c
}

// do sends a request with a key as X-API-KEY, and returns the status and the body.
func (m *team) do(key, method, path, body string) (int, string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.url+path, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-API-KEY", key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		m.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil && ctx.Err() == nil {
		m.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, string(data)
}

// must is do with red's key for a request that succeeds; it decodes the answer.
func (m *team) must(method, path, body string, out any) {
	m.t.Helper()
	status, text := m.do(m.red, method, path, body)
	if status/100 != 2 {
		m.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(text), out); err != nil {
			m.t.Fatal(err)
		}
	}
}

// fill gives red one of everything.
func (m *team) fill() {
	m.t.Helper()
	if p, err := m.sys.Mux.Provider("sandbox"); err != nil {
		m.t.Fatal(err)
	} else if _, err := p.Probe(m.t.Context()); err != nil {
		m.t.Skipf("skipped: host: it lacks isolation: %v", err)
	}
	var made struct{ ID string }
	m.must("POST", "/v1/workspaces", `{"kind":"sandbox","name":"shop","labels":{"team":"`+marker+`"}}`, &made)
	m.workspace = made.ID
	one := "/v1/workspaces/" + m.workspace
	m.must("PUT", one+"/files?path=secret.txt", marker, nil)
	m.must("POST", one+"/snapshots", `{"name":"`+marker+`"}`, &made)
	m.snapshot = made.ID
	m.template = "of-red"
	m.must("POST", "/v1/templates", `{"name":"`+m.template+`","snapshot":"`+m.snapshot+`"}`, nil)
	m.must("POST", one+"/sessions", `{"script":"echo `+marker+`; sleep 1000"}`, &made)
	m.session, m.artifact, m.context = made.ID, "report.txt", "x"
	m.must("PUT", one+"/artifacts/content?name="+m.artifact, marker, nil)
	m.must("POST", one+"/shares", `{}`, &made)
	m.share = made.ID
}

// An operation is a route of the OpenAPI document.
type operation struct {
	method, path string
	Parameters   []struct {
		Name, In string
		Required bool
		Schema   struct{ Type any }
	}
	RequestBody *struct{ Content map[string]any }
	Responses   map[string]any
	Security    []map[string][]string
}

// scope is the scope that the document says.
func (o operation) scope() string {
	if len(o.Security) == 0 {
		return ""
	}
	return o.Security[0]["token"][0]
}

// routes returns the routes of the OpenAPI document.
func (m *team) routes() []operation {
	m.t.Helper()
	status, text := m.do(m.redRead, "GET", "/v1/openapi.json", "")
	if status != http.StatusOK {
		m.t.Fatalf("%d %s", status, text)
	}
	var doc struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		m.t.Fatal(err)
	}
	var out []operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			op.method, op.path = strings.ToUpper(method), path
			out = append(out, op)
		}
	}
	slices.SortFunc(out, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return out
}

// request returns the path and body of a request about what red has.
func (m *team) request(o operation) (path, body string) {
	path = strings.NewReplacer("{id}", m.workspace, "{snapshot}", m.snapshot, "{template}", m.template,
		"{sid}", m.session, "{context}", m.context, "{key}", m.redKey, "{port}", "8080", "{share}", m.share, "{run}", "2026-01-01T00-00-00-000Z").Replace(o.path)
	q := url.Values{}
	for _, p := range o.Parameters {
		switch {
		case p.In == "query" && p.Name == "name":
			q.Set(p.Name, m.artifact)
		case p.In == "query" && p.Required, p.In == "query" && p.Name == "path":
			q.Set(p.Name, "secret.txt")
		case p.In == "query" && p.Name == "follow":
			q.Set(p.Name, "false")
		case p.In == "query" && p.Name == "after":
			q.Set(p.Name, "0")
		case p.In == "query" && p.Name == "crossSession":
			q.Set(p.Name, "true")
		}
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	if o.RequestBody != nil {
		body = "{}"
	}
	return path, body
}

// TestEveryRouteHasItsKey walks the OpenAPI document: without a key every route is 401, with the
// key of another tenant what red has is 404, and with too small a scope the answer is 403.
func TestEveryRouteHasItsKey(t *testing.T) {
	m := newTeam(t, "")
	m.fill()
	routes := m.routes()
	for _, o := range routes {
		path, body := m.request(o)
		what := o.method + " " + o.path
		status, text := m.do("", o.method, path, body)
		want := http.StatusUnauthorized
		if o.scope() == "" { // health and readiness
			want = http.StatusOK
		}
		if status != want {
			t.Errorf("%s without a key: %d %.200s, want %d", what, status, text, want)
		}
		if o.scope() == "" {
			continue
		}
		if status, text := m.do("e2b_"+strings.Repeat("0", 40), o.method, path, body); status != http.StatusUnauthorized {
			t.Errorf("%s with an unknown key: %d %.200s", what, status, text)
		}
		if o.scope() != "read" {
			status, text := m.do(m.redRead, o.method, path, body)
			if status != http.StatusForbidden || !strings.Contains(text, o.scope()) {
				t.Errorf("%s with a key to read: %d %.200s, want 403 that names %s", what, status, text, o.scope())
			}
		}
		if o.scope() == "admin" || o.scope() == "operator" {
			if status, text := m.do(m.redRun, o.method, path, body); status != http.StatusForbidden {
				t.Errorf("%s with a key to run: %d %.200s, want 403", what, status, text)
			}
		}
		status, text = m.do(m.blue, o.method, path, body)
		leaked := strings.Contains(text, marker) || strings.Contains(text, `"tenant":"red"`)
		if o.path != "/events" && !strings.Contains(path, m.workspace) { // there are events of blue's own refused calls
			leaked = leaked || strings.Contains(text, m.workspace)
		}
		if leaked {
			t.Errorf("%s answers another tenant with what red has: %.300s", what, text)
		}
		switch {
		case o.scope() == "operator":
			want = http.StatusForbidden
		case strings.Contains(o.path, "{"):
			want = http.StatusNotFound
		default:
			continue // of the tenant itself
		}
		if status != want {
			t.Errorf("%s with the key of another tenant: %d %.200s, want %d", what, status, text, want)
		}
	}
	for _, path := range []string{"/mcp", "/sse", "/v1/openapi.json", "/v1/openapi.yaml", "/nowhere", "/v1/workspaces/"} {
		if status, text := m.do("", "GET", path, ""); status != http.StatusUnauthorized {
			t.Errorf("GET %s without a key: %d %.200s", path, status, text)
		}
	}
	// Nothing of red has changed.
	if _, text := m.do(m.redRead, "GET", "/v1/workspaces/"+m.workspace+"/files?path=secret.txt", ""); text != marker {
		t.Errorf("the file of red is %q", text)
	}
	for _, path := range []string{"/v1/templates/" + m.template, "/v1/workspaces/shop", "/v1/workspaces/" + m.workspace + "/sessions/" + m.session} {
		if status, text := m.do(m.redRead, "GET", path, ""); status != http.StatusOK {
			t.Errorf("GET %s with red's key: %d %s", path, status, text)
		}
	}
	if _, text := m.do(m.redRead, "GET", "/v1/snapshots", ""); !strings.Contains(text, m.snapshot) {
		t.Errorf("red does not list its snapshot: %s", text)
	}
	// Blue may use the same names, and the operator sees both.
	if status, text := m.do(m.blue, "POST", "/v1/workspaces", `{"kind":"memory","name":"shop"}`); status != http.StatusOK {
		t.Errorf("blue's shop: %d %s", status, text)
	}
	if status, text := m.do(m.blue, "POST", "/v1/workspaces", `{"kind":"sandbox","from":{"snapshot":"`+m.snapshot+`","crossSession":true}}`); status != http.StatusNotFound {
		t.Errorf("blue starts from red's snapshot: %d %s", status, text)
	}
	if status, text := m.do(m.blue, "POST", "/v1/workspaces", `{"kind":"sandbox","from":{"template":"`+m.template+`"}}`); status != http.StatusNotFound {
		t.Errorf("blue starts from red's template: %d %s", status, text)
	}
	if list, err := m.client(m.sys.Token).List(t.Context(), client.Filter{}); err != nil || len(list) != 3 { // one was opened on the walk
		t.Errorf("the operator lists %v, %v", list, err)
	}
	// What a destroyed workspace leaves stays red's.
	m.must("DELETE", "/v1/workspaces/"+m.workspace, "", nil)
	gone := "/v1/workspaces/" + m.workspace + "/artifacts/content?name=" + m.artifact
	if _, text := m.do(m.redRead, "GET", gone, ""); text != marker {
		t.Errorf("the artifact of a destroyed workspace is %q", text)
	}
	if status, text := m.do(m.blue, "GET", gone, ""); status != http.StatusNotFound {
		t.Errorf("blue reads the artifact of a destroyed workspace: %d %s", status, text)
	}
	for _, path := range []string{"/v1/snapshots", "/v1/artifacts", "/events?after=0&follow=false"} {
		if _, text := m.do(m.redRead, "GET", path, ""); !strings.Contains(text, m.workspace) {
			t.Errorf("GET %s with red's key has nothing of the destroyed workspace: %s", path, text)
		}
		if _, text := m.do(m.blue, "GET", path, ""); strings.Contains(text, `"tenant":"red"`) || strings.HasPrefix(path, "/v1") && strings.Contains(text, m.workspace) {
			t.Errorf("GET %s shows blue the destroyed workspace: %s", path, text)
		}
	}
}

func (m *team) mcp(key string) *mcp.ClientSession {
	m.t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(m.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: m.url + "/mcp?toolset=both", HTTPClient: &http.Client{Transport: withToken(key)}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { s.Close() })
	return s
}

// TestToolsOfTenants calls every tool with the key of another tenant, and with a key to read.
func TestToolsOfTenants(t *testing.T) {
	m := newTeam(t, "")
	m.fill()
	n := &neighbours{t: t, sys: m.sys, url: m.url}
	red, reader := m.mcp(m.red), m.mcp(m.redRead)
	if text := n.must(red, "Read", map[string]any{"workspace": "shop", "file_path": "secret.txt"}); !strings.Contains(text, marker) {
		t.Errorf("red reads %s", text)
	}
	long := strings.Repeat(marker+"\n", 20000)
	n.must(red, "workspace_write_file", map[string]any{"workspace": "shop", "path": "long.txt", "content": long})
	handle := result.FindString(n.must(red, "workspace_read_file", map[string]any{"workspace": "shop", "path": "long.txt", "limit": 50000}))
	if handle == "" {
		t.Fatal("the long answer has no handle")
	}
	if status, text := m.do(m.blue, "POST", "/v1/workspaces", `{"kind":"sandbox","name":"shop"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := m.do(m.blue, "POST", "/v1/workspaces", `{"kind":"sandbox","name":"other"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	blue := m.mcp(m.blue)
	values := map[string][]string{"workspace": {m.workspace}, "snapshot": {m.snapshot, marker}, "session": {m.session, handle}}
	tools := 0
	for x, err := range blue.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools++
		if text, ok := n.call(blue, x.Name, map[string]any{"workspace": m.workspace}); ok || strings.Contains(text, marker) {
			t.Errorf("%s in red's workspace with blue's key: %.300s", x.Name, text)
		}
		for kind, list := range values {
			for _, arg := range named[kind] {
				name, ok := strings.CutPrefix(arg, x.Name+" ")
				for _, value := range list {
					if !ok {
						break
					}
					if text, done := n.call(blue, x.Name, map[string]any{"workspace": "shop", name: value}); done || strings.Contains(strings.ReplaceAll(text, `\"`+marker, ""), "belongs-to-other\n") {
						t.Errorf("%s with %s %q and blue's key: %.300s", x.Name, name, value, text)
					}
				}
			}
		}
	}
	if tools < 50 {
		t.Errorf("%d tools were called", tools)
	}
	for _, uri := range []string{"workspace://" + m.workspace + "/secret.txt", "workspace://shop/secret.txt", "croft-result:///" + handle} {
		if res, err := blue.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("blue reads the resource %s: %v", uri, res.Contents[0])
		}
	}
	for r, err := range blue.Resources(t.Context(), nil) {
		if err != nil || strings.Contains(r.URI, m.workspace) {
			t.Errorf("blue lists the resource %v, %v", r, err)
		}
	}
	for x, err := range reader.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if !x.Annotations.ReadOnlyHint {
			t.Errorf("a key to read is offered %s", x.Name)
		}
	}
	for _, name := range []string{"Write", "Bash", "workspace_write_file", "secret"} {
		if text, ok := n.call(reader, name, map[string]any{"workspace": "shop"}); ok {
			t.Errorf("a key to read calls %s: %s", name, text)
		}
	}
	n.must(reader, "Read", map[string]any{"workspace": "shop", "file_path": "secret.txt"})
	if status, text := m.do(m.redRead, "GET", "/v1/workspaces/"+m.workspace+"/files?path=secret.txt", ""); text != marker {
		t.Errorf("the file of red is now %d %q", status, text)
	}
}

// TestSessionsBelongToTheirKey: the id of an MCP session is of no use with another key.
func TestSessionsBelongToTheirKey(t *testing.T) {
	m := newTeam(t, "")
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	send := func(key, method, path, session, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, m.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	session := send(m.red, "POST", "/mcp", "", initialize).Header.Get("Mcp-Session-Id") //nolint:bodyclose // send closes it
	if session == "" {
		t.Fatal("no session")
	}
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`
	for _, method := range []string{"POST", "GET", "DELETE"} {
		for _, key := range []string{m.blue, m.redRead, m.sys.Token} {
			res, none := send(key, method, "/mcp", session, list), send(key, method, "/mcp", "no-session", list) //nolint:bodyclose // likewise
			got, gotErr := io.ReadAll(res.Body)
			want, wantErr := io.ReadAll(none.Body)
			if err := errors.Join(gotErr, wantErr); err != nil || res.StatusCode != http.StatusNotFound || none.StatusCode != http.StatusNotFound || string(got) != string(want) {
				t.Errorf("%s in the session of another key: %d %q, %v; in none: %d %q; want 404 and the same", method, res.StatusCode, got, err, none.StatusCode, want)
			}
		}
	}
	if res := send(m.red, "POST", "/mcp", session, list); res.StatusCode != http.StatusOK { //nolint:bodyclose // likewise
		t.Errorf("red in its own session: %d", res.StatusCode)
	}
	stream := send(m.red, "GET", "/sse", "", "") //nolint:bodyclose // likewise
	buf := make([]byte, 200)
	n, err := stream.Body.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_, endpoint, _ := strings.Cut(string(buf[:n]), "data: ")
	endpoint = strings.TrimSpace(endpoint)
	if !strings.HasPrefix(endpoint, "/sse?sessionid=") {
		t.Fatalf("the endpoint is %q", endpoint)
	}
	if res := send(m.blue, "POST", endpoint, "", initialize); res.StatusCode != http.StatusNotFound { //nolint:bodyclose // likewise
		t.Errorf("blue in the SSE session of red: %d, want 404", res.StatusCode)
	}
	if res := send(m.red, "POST", endpoint, "", initialize); res.StatusCode != http.StatusAccepted { //nolint:bodyclose // likewise
		t.Errorf("red in its own SSE session: %d", res.StatusCode)
	}
}

// TestHostIsForTheOperator: tenants get at no directory and no bucket of the host.
func TestHostIsForTheOperator(t *testing.T) {
	testenv.ReportAttack(t, "directory of the host as a tenant", "REST", testenv.Prevented, "")
	m := newTeam(t, "")
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/f", []byte(marker), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, body string }{
		{"/v1/workspaces", `{"kind":"sandbox","dir":"` + dir + `"}`},
		{"/v1/workspaces", `{"kind":"sandbox","from":{"template":"` + dir + `"}}`},
		{"/v1/workspaces", `{"kind":"sandbox","from":{"template":"` + dir + `","live":true}}`},
		{"/v1/workspaces", `{"kind":"sandbox","config":{"binds":[{"path":"` + dir + `"}]}}`},
		{"/v1/workspaces", `{"kind":"sandbox","config":{"template":"` + dir + `"}}`},
		{"/v1/templates", `{"name":"t","dir":"` + dir + `"}`},
		{"/v1/templates", `{"name":"t","git":"` + dir + `"}`},
		{"/v1/templates", `{"name":"t","image":"` + dir + `"}`},
		{"/v1/snapshots/import", `{"from":"file://` + dir + `"}`},
		{"/v1/snapshots/gc", ``},
	} {
		if status, text := m.do(m.red, "POST", tt.path, tt.body); status != http.StatusForbidden || !strings.Contains(text, "operator") {
			t.Errorf("POST %s %s: %d %s, want 403 for the operator", tt.path, tt.body, status, text)
		}
	}
	if status, text := m.do(m.sys.Token, "POST", "/v1/templates", `{"name":"shared","dir":"`+dir+`"}`); status != http.StatusOK {
		t.Fatalf("the operator: %d %s", status, text)
	}
	// The server's templates are for all, and only the operator deletes them.
	if status, text := m.do(m.red, "GET", "/v1/templates/shared", ""); status != http.StatusOK {
		t.Errorf("a shared template: %d %s", status, text)
	}
	if status, text := m.do(m.red, "DELETE", "/v1/templates/shared", ""); status != http.StatusForbidden {
		t.Errorf("red deletes a shared template: %d %s", status, text)
	}
	if status, text := m.do(m.red, "POST", "/v1/workspaces", `{"kind":"memory","from":{"template":"shared"}}`); status != http.StatusOK {
		t.Errorf("red starts from a shared template: %d %s", status, text)
	}
}

// TestSecretsOfTenants: a tenant's workspaces have the tenant's secrets and no other.
func TestSecretsOfTenants(t *testing.T) {
	t.Setenv("CROFT_SECRET_SHARED", "value-of-the-operator")
	t.Setenv("RED_SECRET_KEY", "value-of-tenant-red")
	m := newTeam(t, "tenants: {red: {secrets: {env: RED_SECRET_}}}\n")
	n := &neighbours{t: t, sys: m.sys, url: m.url}
	for _, key := range []string{m.red, m.blue, m.sys.Token} {
		if status, text := m.do(key, "POST", "/v1/workspaces", `{"kind":"memory","name":"shop"}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	for _, tt := range []struct {
		who, key, want string
	}{{"red", m.red, "key"}, {"the operator", m.sys.Token, "shared"}, {"blue", m.blue, ""}} {
		text, _ := n.call(m.mcp(tt.key), "secrets_available", map[string]any{"workspace": "shop"})
		for _, name := range []string{"key", "shared"} {
			if got := strings.Contains(text, `"text":"`+name); got != (name == tt.want) {
				t.Errorf("%s sees the secret %s: %v (%s)", tt.who, name, got, text)
			}
		}
	}
}

func TestQuotas(t *testing.T) {
	m := newTeam(t, "tenants: {red: {maxWorkspaces: 2}}\ntenantDefaults: {requestsPerSecond: 1000}\n")
	open := func(key, body string) (int, string) { return m.do(key, "POST", "/v1/workspaces", body) }
	const plain = `{"kind":"memory"}`
	for range 2 {
		if status, text := open(m.red, plain); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	status, text := open(m.red, plain)
	if status != http.StatusTooManyRequests || !strings.Contains(text, "maxWorkspaces is 2") {
		t.Errorf("a third workspace: %d %s, want 429 that names the quota", status, text)
	}
	for _, key := range []string{m.blue, m.sys.Token} {
		if status, text := open(key, plain); status != http.StatusOK {
			t.Errorf("another tenant: %d %s", status, text)
		}
	}
	// A reload raises one quota and sets another.
	if _, err := m.sys.Reload(t.Context(), settings(t, "version: 1\ntenants: {red: {memory: 3G}, blue: {requestsPerSecond: 2}}\n")); err != nil {
		t.Fatal(err)
	}
	if status, text := open(m.red, plain); status != http.StatusBadRequest || !strings.Contains(text, "limit memory") {
		t.Errorf("a workspace without the limit: %d %s", status, text)
	}
	limited := `{"kind":"memory","policy":{"limits":{"memory":{"max":2147483648,"bestEffort":true}}}}`
	if status, text := open(m.red, limited); status != http.StatusOK {
		t.Errorf("2 of 3 GiB: %d %s", status, text)
	}
	if status, text := open(m.red, limited); status != http.StatusTooManyRequests || !strings.Contains(text, "quota of memory, 3 GiB") {
		t.Errorf("4 of 3 GiB: %d %s, want 429 that names the quota", status, text)
	}
	refused := 0
	for range 20 {
		status, text := m.do(m.blue, "GET", "/v1/version", "")
		if status == http.StatusTooManyRequests && strings.Contains(text, "2 requests per second") {
			refused++
		}
	}
	if refused < 15 {
		t.Errorf("%d of 20 requests are refused, want at least 15", refused)
	}
}

// TestRetryAfter: E2B's SDKs repeat a request whose answer has Retry-After, which is of use beyond
// requestsPerSecond, and not where a quota is full.
func TestRetryAfter(t *testing.T) {
	m := newTeam(t, "tenants: {red: {maxWorkspaces: 1}, blue: {requestsPerSecond: 1}}\n")
	m.must("POST", "/v1/workspaces", `{"kind":"memory"}`, nil)
	send := func(key, method, path string) (status int, retry string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, m.url+path, strings.NewReader(`{"templateID":"base"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-KEY", key)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode, res.Header.Get("Retry-After")
	}
	if status, retry := send(m.red, http.MethodPost, "/v2/sandboxes"); status != http.StatusTooManyRequests || retry != "" {
		t.Errorf("beyond maxWorkspaces: %d, Retry-After %q, want 429 without it", status, retry)
	}
	for _, path := range []string{"/v2/sandboxes", "/v1/version"} {
		status, retry := send(m.blue, http.MethodGet, path)
		for range 20 {
			if status == http.StatusTooManyRequests {
				break
			}
			status, retry = send(m.blue, http.MethodGet, path)
		}
		if status != http.StatusTooManyRequests || retry != "1" {
			t.Errorf("GET %s beyond requestsPerSecond: %d, Retry-After %q, want 429 and 1", path, status, retry)
		}
	}
}

// TestMaxConnections: streams count until they end. What ends something is accepted.
func TestMaxConnections(t *testing.T) {
	m := newTeam(t, "tenants: {red: {maxConnections: 2}}\n")
	m.must("POST", "/v1/workspaces", `{"kind":"memory","name":"shop"}`, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"/events?follow=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-KEY", m.redRead)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		defer res.Body.Close()
	}
	if status, text := m.do(m.red, "GET", "/v1/version", ""); status != http.StatusTooManyRequests || !strings.Contains(text, "maxConnections is 2") {
		t.Errorf("beyond the quota: %d %s, want 429 that names it", status, text)
	}
	for _, key := range []string{m.blue, m.sys.Token} {
		if status, text := m.do(key, "GET", "/v1/version", ""); status != http.StatusOK {
			t.Errorf("another tenant: %d %s", status, text)
		}
	}
	m.must("GET", "/v2/sandboxes", "", nil)
	m.must("DELETE", "/v1/workspaces/shop", "", nil)
	cancel()
	for status := http.StatusTooManyRequests; status != http.StatusOK; { // when the server has seen the end
		var text string
		if status, text = m.do(m.red, "GET", "/v1/version", ""); status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Fatalf("after the streams have ended: %d %s", status, text)
		}
	}
}

// TestAudit: every call that may change something is one event, also a refused one.
func TestAudit(t *testing.T) {
	m := newTeam(t, "")
	var made struct{ ID string }
	m.must("POST", "/v1/workspaces", `{"kind":"memory","name":"shop"}`, &made)
	m.must("PUT", "/v1/workspaces/shop/files?path=a", "x", nil)
	m.must("GET", "/v1/workspaces/shop/files?path=a", "", nil)
	m.do(m.redRead, "DELETE", "/v1/workspaces/shop", "")
	m.do(m.blue, "DELETE", "/v1/workspaces/"+made.ID, "")
	n := &neighbours{t: t, sys: m.sys, url: m.url}
	s := m.mcp(m.red)
	n.must(s, "Write", map[string]any{"workspace": "shop", "file_path": "b", "content": "x"})
	n.must(s, "Read", map[string]any{"workspace": "shop", "file_path": "b"})

	_, text := m.do(m.sys.Token, "GET", "/events?kind=api.call&after=0&follow=false", "")
	var got []string
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		e, err := event.Unmarshal([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		f := e.Fields
		if f[event.FieldRoute] == "/v1/keys" {
			continue
		}
		if id, _ := f[event.FieldKey].(string); !strings.HasPrefix(id, "key-") || f[event.FieldAddress] == "" {
			t.Errorf("the event %s lacks the key or the address", data)
		}
		target := strings.ReplaceAll(fmt.Sprint(f[event.FieldTarget]), made.ID, "ID")
		got = append(got, fmt.Sprintf("%s %v %v %s %v", e.Tenant, f[event.FieldMethod], f[event.FieldRoute], target, f[event.FieldStatus]))
	}
	want := []string{
		"red POST /v1/workspaces ID 200", "red PUT /v1/workspaces/{id}/files shop 200", "red DELETE /v1/workspaces/{id} shop 403",
		"blue DELETE /v1/workspaces/{id} ID 404", "red Write /mcp shop 200",
	}
	if !slices.Equal(got, want) {
		t.Errorf("audit events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, text := m.do(m.blue, "GET", "/events?kind=api.call&after=0&follow=false", ""); strings.Contains(text, `"tenant":"red"`) {
		t.Errorf("blue sees the calls of red: %s", text)
	}
}

// TestRevokedKey: a revoked key is refused at once by the server that revoked it.
func TestRevokedKey(t *testing.T) {
	m := newTeam(t, "")
	if status, text := m.do(m.red, "GET", "/v1/version", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if _, err := m.client(m.blue).RevokeKey(t.Context(), m.redKey); fault.Of(err) != fault.NotFound {
		t.Errorf("blue revokes red's key: %v", err)
	}
	if _, err := m.client(m.red).RevokeKey(t.Context(), m.redKey); err != nil {
		t.Fatal(err)
	}
	if status, text := m.do(m.red, "GET", "/v1/version", ""); status != http.StatusUnauthorized || !strings.Contains(text, "revoked") {
		t.Errorf("a revoked key: %d %s", status, text)
	}
	data, err := os.ReadFile(m.sys.Dir + "/croft.db")
	if err != nil || bytes.Contains(data, []byte(m.red)) || bytes.Contains(data, []byte(m.red[4:])) {
		t.Errorf("the store has the text of a key (%v)", err)
	}
}
