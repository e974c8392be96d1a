package e2b_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/e2b"
	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const token = "token-of-the-server"

// A host is a server over one provider.
type host struct {
	t        *testing.T
	url      string
	registry *registry.Registry
	store    *countingStore
	open     atomic.Int64 // limit of open requests; 0 is no limit
	routes   chan string  // of answered requests, as long as there is room
}

// A countingStore counts lists of all records.
type countingStore struct {
	registry.Store
	lists atomic.Int64
}

func (c *countingStore) List(ctx context.Context, f registry.Filter) ([]registry.Record, error) {
	c.lists.Add(1)
	return c.Store.List(ctx, f)
}

// newHost returns a host over the provider memory.
func newHost(t *testing.T) *host { return newHostOver(t, new(memory.Provider)) }

func newHostOver(t *testing.T, provider driver.Provider) *host {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	opened, err := registry.OpenStore(ctx, "sqlite:"+filepath.Join(dir, "croft.db"))
	if err != nil {
		t.Fatal(err)
	}
	store := &countingStore{Store: opened}
	t.Cleanup(func() { store.Close() })
	reg, err := registry.New(ctx, store, workspace.NewMux(provider), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, registry: reg, store: store, routes: make(chan string, 100)}
	server, err := e2b.New(ctx, e2b.Config{
		Registry: reg, Envd: envd.New(envd.Config{}), Key: []byte("key"), Dir: filepath.Join(dir, "e2b"), Volumes: filepath.Join(dir, "volumes"), Domain: "boxes.example",
		Guard:   httpguard.Guard{Token: token, Hosts: []string{"api.example"}, Open: &auth.Open{Limit: func(string) int { return int(h.open.Load()) }}},
		Secrets: func(context.Context) ([]string, error) { return []string{"forge", "model"}, nil },
		Admit: func(_ context.Context, spec *driver.Spec) error {
			if len(spec.Policy.Network.Allow) > 0 { // memory has no network
				return fmt.Errorf("network %+v: %w", spec.Policy.Network, fault.Unsupported)
			}
			if spec.Kind = provider.Kind(); spec.Kind == memory.Kind {
				spec.Config = nil
			}
			return nil
		},
		AdmitPolicy: func(context.Context, string, driver.Policy, *driver.Policy) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(httplog.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !server.Handles(r) {
			http.Error(w, "of another handler", http.StatusTeapot)
			return
		}
		server.ServeHTTP(w, r)
	}), httplog.Config{Observe: func(r httplog.Request) {
		select {
		case h.routes <- r.Route:
		default:
		}
	}}))
	t.Cleanup(listener.Close)
	h.url = listener.URL
	return h
}

// An answered request.
type answered struct {
	status int
	header http.Header
	body   string
}

// do sends a request; a line of header is "Name: value", and Host sets the host.
func (h *host) do(method, path, body string, header ...string) answered {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", token)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answered{res.StatusCode, res.Header, string(data)}
}

type box struct {
	SandboxID, EnvdAccessToken, State string
	EndAt                             time.Time
}

// create creates a sandbox with more keys of the body, such as `,"timeout":60`.
func (h *host) create(more string) box {
	h.t.Helper()
	a := h.do("POST", "/v2/sandboxes", `{"templateID":"base"`+more+`}`)
	var b box
	if err := json.Unmarshal([]byte(a.body), &b); err != nil || a.status != http.StatusCreated {
		h.t.Fatalf("create: %d %s", a.status, a.body)
	}
	h.t.Cleanup(func() {
		if err := h.registry.Destroy(context.WithoutCancel(h.t.Context()), b.SandboxID); err != nil && fault.Of(err) != fault.NotFound {
			h.t.Error(err)
		}
	})
	return b
}

// list returns the ids of a page, and the token of the next one.
func (h *host) list(query string) (ids []string, next string) {
	h.t.Helper()
	a := h.do("GET", "/v2/sandboxes?"+query, "")
	var list []box
	if err := json.Unmarshal([]byte(a.body), &list); err != nil {
		h.t.Fatalf("list: %d %s", a.status, a.body)
	}
	for _, b := range list {
		ids = append(ids, b.SandboxID)
	}
	return ids, a.header.Get("X-Next-Token")
}

func TestListPages(t *testing.T) {
	h := newHost(t)
	var made []string
	for i := range 5 {
		made = append(made, h.create(fmt.Sprintf(`,"metadata":{"n":"%d","all":"yes & no"}`, i)).SandboxID)
	}
	for _, order := range []string{"asc", "desc"} {
		var got []string
		next, pages := "", 0
		for {
			ids, token := h.list("limit=2&order=" + order + "&nextToken=" + url.QueryEscape(next))
			got, next, pages = append(got, ids...), token, pages+1
			if next == "" || pages > 5 {
				break
			}
		}
		want := slices.Clone(made)
		if order == "desc" {
			slices.Reverse(want)
		}
		if pages != 3 || !slices.Equal(got, want) {
			t.Errorf("%s: %d pages with %v, want 3 with %v", order, pages, got, want)
		}
	}
	// The last element of a page may be gone when the next one is read.
	ids, next := h.list("limit=2&order=asc")
	if a := h.do("DELETE", "/sandboxes/"+ids[1], ""); a.status != http.StatusNoContent {
		t.Fatalf("kill: %d %s", a.status, a.body)
	}
	if rest, _ := h.list("limit=2&order=asc&nextToken=" + next); !slices.Equal(rest, made[2:4]) {
		t.Errorf("the page after a removed element is %v, want %v", rest, made[2:4])
	}
	for query, want := range map[string][]string{
		"metadata=" + url.QueryEscape("n=3"):                                              {made[3]},
		"metadata=" + url.QueryEscape("n=3&n=4"):                                          {made[4]},
		"metadata=" + url.QueryEscape("all="+url.QueryEscape("yes & no")+"&n=0"):          {made[0]},
		"metadata=" + url.QueryEscape("n=9"):                                              nil,
		"state=paused":                                                                    nil,
		"template=base&metadata=" + url.QueryEscape("n=2"):                                {made[2]},
		"template=other":                                                                  nil,
		"startedAfter=" + url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)): nil,
	} {
		if got, _ := h.list(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "order=up", "state=gone", "nextToken=!", "metadata=%25zz", "startedAfter=now"} {
		if a := h.do("GET", "/v2/sandboxes?"+query, ""); a.status != http.StatusBadRequest || !strings.Contains(a.body, query[:strings.IndexByte(query, '=')]) {
			t.Errorf("%s: %d %s, want 400 that names the parameter", query, a.status, a.body)
		}
	}
}

func TestTimeouts(t *testing.T) {
	h := newHost(t)
	b := h.create(`,"timeout":60`)
	end := func() time.Duration {
		t.Helper()
		a := h.do("GET", "/sandboxes/"+b.SandboxID, "")
		var got box
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != http.StatusOK {
			t.Fatalf("get: %d %s", a.status, a.body)
		}
		return time.Until(got.EndAt).Round(10 * time.Second)
	}
	for _, step := range []struct {
		path, body string
		status     int
		want       time.Duration // until the end, to within 5 seconds
	}{
		{"/sandboxes/ID/timeout", `{"timeout":600}`, 204, 10 * time.Minute},
		{"/sandboxes/ID/timeout", `{"timeout":120}`, 204, 2 * time.Minute},
		{"/sandboxes/ID/refreshes", `{"duration":30}`, 204, 2 * time.Minute}, // never sooner
		{"/sandboxes/ID/refreshes", `{"duration":300}`, 204, 5 * time.Minute},
		{"/v2/sandboxes/ID/connect", `{"timeout":60}`, 200, 5 * time.Minute},
		{"/v2/sandboxes/ID/connect", `{"timeout":900}`, 200, 15 * time.Minute},
		{"/sandboxes/ID/timeout", `{"timeout":-1}`, 400, 15 * time.Minute},
		{"/sandboxes/ID/timeout", `{"timeout":2592001}`, 400, 15 * time.Minute},
		{"/sandboxes/ID/timeout", `{}`, 400, 15 * time.Minute},
		{"/sandboxes/ID/timeout", `{"timeout":"x"}`, 400, 15 * time.Minute},
		{"/sandboxes/ID/fork", `{"count":101}`, 400, 15 * time.Minute},
	} {
		a := h.do("POST", strings.Replace(step.path, "ID", b.SandboxID, 1), step.body)
		if a.status != step.status || end() != step.want {
			t.Errorf("%s %s: %d %s, end in %s; want %d and %s", step.path, step.body, a.status, a.body, end(), step.status, step.want)
		}
	}
	// A sandbox whose time has passed is gone at once, before it is removed.
	if a := h.do("POST", "/sandboxes/"+b.SandboxID+"/timeout", `{"timeout":0}`); a.status != 204 {
		t.Errorf("time-out 0: %d %s", a.status, a.body)
	}
	if a := h.do("GET", "/sandboxes/"+b.SandboxID, ""); a.status != http.StatusNotFound {
		t.Errorf("after its end: %d %s", a.status, a.body)
	}
	if ids, _ := h.list(""); len(ids) != 0 {
		t.Errorf("after its end the list is %v", ids)
	}
}

// TestRouting: host names and headers address the ports of a sandbox; everything else is the
// control plane, or not of this package.
func TestRouting(t *testing.T) {
	h := newHost(t)
	b := h.create("")
	id := b.SandboxID
	write := h.do("POST", "/files?path=a.txt", "content", "E2b-Sandbox-Id: "+id, "E2b-Sandbox-Port: 49983", "X-Access-Token: "+b.EnvdAccessToken, "Content-Type: application/octet-stream")
	if write.status != http.StatusOK {
		t.Fatalf("write: %d %s", write.status, write.body)
	}
	for _, step := range []struct {
		name, path string
		header     []string
		status     int
		want       string
	}{
		{"host name", "/files?path=a.txt", []string{"Host: 49983-" + id + ".boxes.example", "X-Access-Token: " + b.EnvdAccessToken}, 200, "content"},
		{"host name with a port, in capitals", "/health", []string{"Host: 49983-" + strings.ToUpper(id) + ".BOXES.example:443"}, 204, ""},
		{"host name with a client id", "/health", []string{"Host: 49983-" + id + "-abc.boxes.example"}, 204, ""},
		{"headers", "/files?path=a.txt", []string{"E2b-Sandbox-Id: " + id, "E2b-Sandbox-Port: 49983", "X-Access-Token: " + b.EnvdAccessToken}, 200, "content"},
		{"headers, other host of the server", "/health", []string{"Host: api.example", "E2b-Sandbox-Id: " + id, "E2b-Sandbox-Port: 49983"}, 204, ""},
		{"the host name counts", "/health", []string{"Host: 49983-" + id + ".boxes.example", "E2b-Sandbox-Id: other", "E2b-Sandbox-Port: 1"}, 204, ""},
		{"without a token", "/files?path=a.txt", []string{"Host: 49983-" + id + ".boxes.example"}, 401, "signature"},
		{"the API key is no access token", "/envs", []string{"E2b-Sandbox-Id: " + id, "E2b-Sandbox-Port: 49983"}, 401, "X-Access-Token"},
		{"another sandbox", "/health", []string{"Host: 49983-i0000000000000000000.boxes.example"}, 502, `"sandboxId":"i0000000000000000000"`},
		{"a port without a program", "/", []string{"Host: 8080-" + id + ".boxes.example"}, 502, `"port":8080`},
		{"a port out of range", "/", []string{"Host: 70000-" + id + ".boxes.example"}, 400, "1 to 65535"},
		{"a header without a port", "/", []string{"E2b-Sandbox-Id: " + id}, 400, "E2b-Sandbox-Port"},
		{"a foreign host with headers", "/health", []string{"Host: evil.example", "E2b-Sandbox-Id: " + id, "E2b-Sandbox-Port: 49983"}, 403, "evil.example"},
		{"a foreign domain", "/health", []string{"Host: 49983-" + id + ".evil.example"}, 418, ""},
		{"the control plane", "/sandboxes/" + id, nil, 200, id},
		{"an unknown part of the control plane", "/teams", nil, 501, "docs/e2b.md"},
		{"a method that a route has not", "/v3/templates", nil, 405, "no such method"},
		{"a path of another handler", "/v1/workspaces", nil, 418, ""},
	} {
		if a := h.do("GET", step.path, "", step.header...); a.status != step.status || !strings.Contains(a.body, step.want) {
			t.Errorf("%s: %d %s, want %d with %q", step.name, a.status, a.body, step.status, step.want)
		}
	}
}

// TestSecrets: secrets are listed by name, and network rules send them as bearer tokens.
func TestSecrets(t *testing.T) {
	h := newHost(t)
	const create = "POST /v2/sandboxes"
	rules := func(rules string) string { return `{"templateID":"base","network":` + rules + `}` }
	for _, step := range []struct {
		route, body string
		status      int
		want        string
	}{
		{"GET /secrets", "", 200, `"name":"forge"`},
		{"GET /secrets?limit=1", "", 200, `"secretID":"forge"`},
		{"GET /secrets/MODEL", "", 200, `"name":"model"`},
		{"GET /secrets/none", "", 404, "Secret.list"},
		{"POST /secrets", `{"name":"a","value":"b"}`, 501, "tenants.NAME.secrets of croft.yaml"},
		{"POST /secrets/model", `{"value":"b"}`, 501, "change of secrets"},
		{"DELETE /secrets/model", "", 501, "change of secrets"},
		{create, rules(`{"rules":{"api.example.com":[{"transform":{"headers":{"authorization":"Bearer ${e2b.secrets.Model}"}}}]}}`), 501,
			"Allow:[{Host:api.example.com Ports:[] Methods:[] Private:false Credential:model}]"},
		{create, rules(`{"allowOut":["a.example","api.example.com"],"rules":{"api.example.com":[{"transform":{"headers":{"Authorization":"Bearer ${e2b.secrets.model}"}}}]}}`), 501,
			"Allow:[{Host:a.example Ports:[] Methods:[] Private:false Credential:} {Host:api.example.com Ports:[] Methods:[] Private:false Credential:model}]"},
		{create, rules(`{"rules":{"api.example.com":[{"transform":{"headers":{"X-Key":"${e2b.secrets.model}"}}}]}}`), 501, `header \"X-Key\"`},
		{create, rules(`{"rules":{"api.example.com":[{"transform":{"headers":{"Authorization":"Bearer literal"}}}]}}`), 501, "no other header"},
		{create, rules(`{"rules":{"api.example.com":[]}}`), 201, "sandboxID"},
	} {
		method, path, _ := strings.Cut(step.route, " ")
		if a := h.do(method, path, step.body); a.status != step.status || !strings.Contains(a.body, step.want) {
			t.Errorf("%s %s: %d %s, want %d with %q", step.route, step.body, a.status, a.body, step.status, step.want)
		}
	}
}

// TestUnknownFields: a field of a newer SDK is ignored and named in the answer; one of the network
// is refused, and so is a known one in other letters.
func TestUnknownFields(t *testing.T) {
	h := newHost(t)
	a := h.do("POST", "/v2/sandboxes", `{"templateID":"base","futureField":{"a":[1]},"another":1}`)
	if got, want := a.header.Get("Croft-Ignored-Fields"), `"futureField", "another"`; a.status != 201 || got != want {
		t.Errorf("%d %s, ignored %s, want %s", a.status, a.body, got, want)
	}
	for body, want := range map[string]string{
		`{"templateID":"base","network":{"denyIn":["a"]}}`: "network.denyIn",
		`{"templateID":"base","TimeOut":1}`:                "TimeOut",
	} {
		if a := h.do("POST", "/v2/sandboxes", body); a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want 400 with %s", body, a.status, a.body, want)
		}
	}
}
