package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// e2bCall sends a request to a server and returns the status and the body.
func (u *upServer) e2bCall(method, path, key, body string) (int, string) {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), method, "http://"+u.addr+path, strings.NewReader(body))
	if err != nil {
		u.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-API-KEY", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		u.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// newKey creates an API key.
func (u *upServer) newKey(tenant, scope string) string {
	u.t.Helper()
	status, body := u.e2bCall(http.MethodPost, "/v1/keys", testToken, `{"tenant":"`+tenant+`","scope":"`+scope+`"}`)
	var key struct {
		Text string `json:"key"`
	}
	if err := json.Unmarshal([]byte(body), &key); err != nil || key.Text == "" {
		u.t.Fatalf("create a key: %d %s", status, body)
	}
	return key.Text
}

// e2bRoutes are routes of E2B's API about one sandbox, template or volume.
var e2bRoutes = []string{
	"GET /sandboxes/ID", "DELETE /sandboxes/ID", "POST /sandboxes/ID/connect", "POST /v2/sandboxes/ID/connect", "POST /sandboxes/ID/resume",
	"POST /sandboxes/ID/pause", "POST /sandboxes/ID/timeout", "POST /sandboxes/ID/refreshes", "POST /sandboxes/ID/fork", "POST /sandboxes/ID/snapshots",
	"PUT /sandboxes/ID/network", "GET /sandboxes/ID/metrics", "GET /sandboxes/ID/logs", "GET /v2/sandboxes/ID/logs",
	"GET /templates/TEMPLATE", "DELETE /templates/TEMPLATE", "GET /templates/TEMPLATE/tags", "GET /templates/aliases/TEMPLATE",
	"GET /templates/TEMPLATE/files/0123456789abcdef", "POST /v2/templates/TEMPLATE/builds/x", "GET /templates/TEMPLATE/builds/x/status",
	"GET /templates/TEMPLATE/builds/x/logs", "GET /volumes/VOLUME", "DELETE /volumes/VOLUME",
}

// TestE2BTenants: no route answers without a key, another tenant's key finds nothing, a key
// that may read changes nothing, and malformed requests are never internal errors.
func TestE2BTenants(t *testing.T) {
	server := startUp(t, buildCroft(t), t.TempDir())
	red, blue, reader := server.newKey("red", "run"), server.newKey("blue", "run"), server.newKey("red", "read")
	ids := map[string]string{}
	for name, call := range map[string]string{"ID": "/v2/sandboxes", "TEMPLATE": "/v3/templates", "VOLUME": "/volumes"} {
		field := map[string]string{"ID": "sandboxID", "TEMPLATE": "templateID", "VOLUME": "volumeID"}[name]
		body := map[string]string{"ID": `{"templateID":"base","metadata":{"secret":"of red"}}`, "TEMPLATE": `{"name":"of-red"}`, "VOLUME": `{"name":"of-red"}`}[name]
		status, text := server.e2bCall(http.MethodPost, call, red, body)
		var made map[string]any
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			t.Fatalf("%s: %d %s", call, status, text)
		}
		if ids[name], _ = made[field].(string); ids[name] == "" {
			t.Fatalf("%s: %d %s", call, status, text)
		}
	}
	fill := strings.NewReplacer("ID", ids["ID"], "TEMPLATE", ids["TEMPLATE"], "VOLUME", ids["VOLUME"])
	valid := map[string]string{"timeout": `{"timeout":60}`}
	for _, route := range e2bRoutes {
		method, path, _ := strings.Cut(fill.Replace(route), " ")
		body := valid[path[strings.LastIndex(path, "/")+1:]]
		if status, text := server.e2bCall(method, path, "", body); status != http.StatusUnauthorized {
			t.Errorf("%s without a key: %d %s, want 401", route, status, text)
		}
		if status, text := server.e2bCall(method, path, blue, body); status != http.StatusNotFound {
			t.Errorf("%s with another tenant's key: %d %s, want 404", route, status, text)
		}
		if method == http.MethodGet {
			continue
		}
		if status, text := server.e2bCall(method, path, reader, body); status != http.StatusForbidden {
			t.Errorf("%s with a key that may read: %d %s, want 403", route, status, text)
		}
	}
	for _, path := range []string{"/sandboxes", "/v2/sandboxes", "/snapshots", "/volumes", "/templates"} {
		if _, text := server.e2bCall(http.MethodGet, path, blue, ""); strings.Contains(text, "red") || strings.Contains(text, ids["ID"]) {
			t.Errorf("GET %s shows another tenant: %s", path, text)
		}
	}
	if _, text := server.e2bCall(http.MethodGet, "/v2/sandboxes", red, ""); !strings.Contains(text, ids["ID"]) {
		t.Errorf("the tenant's own list is %s", text)
	}
	malformed(t, server, fill, red)
}

// malformed sends odd bodies and queries to every route.
func malformed(t *testing.T, server *upServer, fill *strings.Replacer, key string) {
	t.Helper()
	bodies := []string{"", "{", "[]", "null", "1", `{"timeout":"x"}`, `{"timeout":-1}`, `{"timeout":1e99}`, `{"count":0}`, `{"unknown":1}`, `{"name":"../x"}`,
		`{"templateID":"` + strings.Repeat("a", 1000) + `"}`, `{"allowOut":["not a host!"]}`, "\x00\xff", `{"steps":[{"type":"X"}]}`}
	allowed := []int{200, 201, 202, 204, 400, 401, 403, 404, 405, 409, 413, 429, 501}
	routes := append(slices.Clone(e2bRoutes), "POST /sandboxes", "POST /v2/sandboxes", "POST /v3/templates", "POST /templates/tags", "DELETE /templates/tags", "POST /volumes", "GET /sandboxes/metrics",
		"PATCH /templates/x", "GET /teams", "GET /nodes", "POST /admin/x", "GET /api-keys", "GET /sandboxes/%00", "GET /sandboxes/a%2Fb", "GET /v2/x", "GET /v3")
	for _, route := range routes {
		method, path, _ := strings.Cut(fill.Replace(route), " ")
		if strings.HasSuffix(path, "/fork") || method == http.MethodDelete || strings.HasSuffix(path, "/pause") {
			path = strings.ReplaceAll(path, "sandboxes/", "sandboxes/x") // keep the sandbox
		}
		for _, body := range bodies {
			for _, query := range []string{"", "?limit=x&state=y&nextToken=!&metadata=%25zz&logsOffset=-1&start=z"} {
				status, text := server.e2bCall(method, path+query, key, body)
				if !slices.Contains(allowed, status) {
					t.Errorf("%s%s %.60q: %d %s", route, query, body, status, text)
				}
				if status >= 400 {
					var problem struct {
						Code    int
						Message string
					}
					if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&problem); err != nil || problem.Code != status || problem.Message == "" {
						t.Errorf("%s %.60q: the error is %q", route, body, text)
					}
				}
			}
		}
	}
}
