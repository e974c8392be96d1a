package e2b_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

func TestMain(m *testing.M) { testshell.Main(m) }

// TestOnlyAuthorizedTrafficResumes: a request without a token leaves a paused sandbox as it is.
func TestOnlyAuthorizedTrafficResumes(t *testing.T) {
	provider, _ := testshell.NewProvider(t, sandbox.Kind)
	h := newHostOver(t, provider)
	b := h.create(`,"timeout":600,"autoPause":true,"autoResume":{"enabled":true},"network":{"allowPublicTraffic":false}`)
	id := b.SandboxID
	to := func(port int, header ...string) []string {
		return append(header, "X-API-KEY: ", fmt.Sprintf("Host: %d-%s.boxes.example", port, id))
	}
	rpc := func(method string) string { return "/process.Process/" + method }
	json, access, other := "Content-Type: application/json", "X-Access-Token: "+b.EnvdAccessToken, "X-Access-Token: other"
	const resumes = "resumes"
	for _, step := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		then                     string
	}{
		{"envd without a token", "POST", rpc("List"), "{}", to(envd.Port, json), 401, ""},
		{"envd with another token", "POST", rpc("List"), "{}", to(envd.Port, json, other), 401, ""},
		{"files without a token", "GET", "/files?path=a", "", to(envd.Port), 401, ""},
		{"files with another token", "GET", "/files?path=a", "", to(envd.Port, other), 401, ""},
		{"files with another signature", "GET", "/files?path=a&signature=v1_x", "", to(envd.Port), 401, ""},
		{"files with another signature at the server", "GET", "/files?path=a&signature=v1_x", "", nil, 401, ""},
		{"health", "GET", "/health", "", to(envd.Port), 502, ""},
		{"health of the interpreter", "GET", "/health", "", to(envd.CodePort), 502, ""},
		{"the interpreter", "GET", "/contexts", "", to(envd.CodePort), 401, ""},
		{"a private port", "GET", "/", "", to(8080), 403, ""},
		{"a private port with the other token", "GET", "/", "", to(8080, access), 403, ""},

		{"envd", "POST", rpc("List"), "{}", to(envd.Port, json, access), 200, resumes},
		{"health with a token", "GET", "/health", "", to(envd.Port, access), 204, resumes},
		{"a signed URL", "GET", signed(b), "", nil, 404, resumes},
	} {
		a := h.do("POST", "/sandboxes/"+id+"/pause", "{}")
		if a.status == http.StatusNotImplemented {
			t.Skipf("skipped: host: %s", a.body)
		}
		if a.status != http.StatusNoContent && a.status != http.StatusConflict {
			t.Fatalf("%s: pause: %d %s", step.name, a.status, a.body)
		}
		if a := h.do(step.method, step.path, step.body, step.header...); a.status != step.status {
			t.Errorf("%s: %d %s, want %d", step.name, a.status, a.body, step.status)
		}
		want := `"state":"paused"`
		if step.then == resumes {
			want = `"state":"running"`
		}
		if a := h.do("GET", "/sandboxes/"+id, ""); !strings.Contains(a.body, want) {
			t.Errorf("%s: the sandbox is %s, want %s", step.name, a.body, want)
		}
	}
}

// signed returns a signed URL to read the file a.
func signed(b box) string {
	query := url.Values{"path": {"a"}}
	query.Set("signature", envd.Signature(http.MethodGet, query, b.EnvdAccessToken))
	return "/files?" + query.Encode()
}

// TestSignedURLs: a URL that names no sandbox is for the one whose token signed it, and records are
// listed only for a signature that is not known yet.
func TestSignedURLs(t *testing.T) {
	h := newHost(t)
	var boxes []box
	for i := range 3 {
		b := h.create("")
		boxes = append(boxes, b)
		at := []string{"E2b-Sandbox-Id: " + b.SandboxID, "E2b-Sandbox-Port: 49983", "X-Access-Token: " + b.EnvdAccessToken, "Content-Type: application/octet-stream"}
		if a := h.do("POST", "/files?path=a", fmt.Sprint("content ", i), at...); a.status != 200 {
			t.Fatalf("write: %d %s", a.status, a.body)
		}
		if a := h.do("GET", signed(b), ""); a.status != 200 || a.body != fmt.Sprint("content ", i) {
			t.Errorf("sandbox %d: %d %s", i, a.status, a.body)
		}
	}
	before := h.store.lists.Load()
	for i, b := range boxes {
		if a := h.do("GET", signed(b), ""); a.status != 200 || a.body != fmt.Sprint("content ", i) {
			t.Errorf("sandbox %d again: %d %s", i, a.status, a.body)
		}
	}
	if got := h.store.lists.Load() - before; got != 0 {
		t.Errorf("known signers were looked for in %d lists, want none", got)
	}
	if a := h.do("DELETE", "/sandboxes/"+boxes[0].SandboxID, ""); a.status != 204 {
		t.Fatalf("kill: %d %s", a.status, a.body)
	}
	if a := h.do("GET", signed(boxes[0]), ""); a.status != 502 {
		t.Errorf("a killed sandbox: %d %s, want 502", a.status, a.body)
	}
}

// echoServer answers with the headers of a request. It never answers a request for /wait.
const echoServer = `
import http.server, threading
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/wait":
            print("waits", flush=True)
            threading.Event().wait()
        self.send_response(200)
        self.send_header("Cache-Control", "public, max-age=60")
        self.end_headers()
        self.wfile.write(str(self.headers).encode())
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Echo)
print("ready", flush=True)
server.serve_forever()
`

// startEcho runs echoServer in a sandbox until the test ends. It returns a channel with what the
// program prints.
func startEcho(t *testing.T, h *host, id string) <-chan string {
	t.Helper()
	testenv.NeedsProgram(t, "python3")
	ws, err := h.registry.Acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	printed, ended := make(chan string, 10), make(chan struct{})
	go func() {
		defer close(ended)
		res, err := ws.Run(ctx, driver.Command{Argv: []string{"python3", "-c", echoServer}, OnStdout: func(data []byte) error {
			printed <- string(data)
			return nil
		}})
		if ctx.Err() == nil {
			t.Errorf("the program ended: %s %v", res.Stderr, err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case <-printed:
	case <-ended:
		t.FailNow()
	}
	return printed
}

// TestOpenConnections: a tenant's open connections to ports are limited, apart from its other requests.
func TestOpenConnections(t *testing.T) {
	provider, _ := testshell.NewProvider(t, sandbox.Kind)
	h := newHostOver(t, provider)
	b := h.create("")
	printed := startEcho(t, h, b.SandboxID)
	host := fmt.Sprintf("Host: 8080-%s.boxes.example", b.SandboxID)
	envdHost := fmt.Sprintf("Host: 49983-%s.boxes.example", b.SandboxID)
	h.open.Store(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/wait", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, req.Host, _ = strings.Cut(host, ": ")
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
			res.Body.Close()
		}
	}()
	<-printed
	if a := h.do("GET", "/", "", host); a.status != 429 || !strings.Contains(a.body, "connections to ports open, and its quota maxConnections is 1") {
		t.Errorf("a second connection: %d %s, want 429 that names the quota", a.status, a.body)
	}
	if a := h.do("GET", "/envs", "", envdHost, "X-Access-Token: "+b.EnvdAccessToken); a.status != 200 {
		t.Errorf("envd: %d %s", a.status, a.body)
	}
	if a := h.do("GET", "/sandboxes/"+b.SandboxID, ""); a.status != 200 {
		t.Errorf("the control plane: %d %s", a.status, a.body)
	}
	cancel()
	<-waited
	for a := h.do("GET", "/", "", host); a.status != 200; a = h.do("GET", "/", "", host) { // when the server has seen the end
		if a.status != 429 {
			t.Fatalf("after the first has ended: %d %s", a.status, a.body)
		}
	}
}

// TestPortOnTheHostOfTheServer: an answer of a program, at an address of the server's own pages, can
// neither run there nor be kept by a cache before the server.
func TestPortOnTheHostOfTheServer(t *testing.T) {
	provider, _ := testshell.NewProvider(t, sandbox.Kind)
	h := newHostOver(t, provider)
	b := h.create("")
	startEcho(t, h, b.SandboxID)
	a := h.do("GET", "/assets/app.js", "", "E2b-Sandbox-Id: "+b.SandboxID, "E2b-Sandbox-Port: 8080")
	if a.status != 200 || !slices.Contains(a.header.Values("Cache-Control"), "no-store") || a.header.Get("Content-Security-Policy") != "sandbox" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("by headers: %d %v", a.status, a.header)
	}
	a = h.do("GET", "/assets/app.js", "", fmt.Sprintf("Host: 8080-%s.boxes.example", b.SandboxID))
	if a.status != 200 || a.header.Get("Cache-Control") != "public, max-age=60" || a.header.Get("Content-Security-Policy") != "" {
		t.Errorf("by a host name of its own: %d %v", a.status, a.header)
	}
}

// TestPortsGetNoKeys: a program in the sandbox gets its own credentials, and none of this server.
func TestPortsGetNoKeys(t *testing.T) {
	provider, _ := testshell.NewProvider(t, sandbox.Kind)
	h := newHostOver(t, provider)
	b := h.create("")
	startEcho(t, h, b.SandboxID)
	const key = "e2b_0123456789012345678901234567890123456789"
	for _, tt := range []struct {
		header string
		kept   bool
	}{
		{"X-API-KEY: " + token, false},
		{"X-API-KEY: " + key, false},
		{"Authorization: Bearer " + token, false},
		{"Authorization: Bearer " + key, false},
		{"X-Access-Token: " + b.EnvdAccessToken, false},
		{"E2b-Traffic-Access-Token: x", false},
		{"X-API-KEY: of-the-program", true},
		{"Authorization: Bearer of-the-program", true},
		{"Authorization: Basic " + token, true},
		{"X-Access-Token: of-the-program", true},
	} {
		header := []string{tt.header, fmt.Sprintf("Host: 8080-%s.boxes.example", b.SandboxID)}
		if !strings.HasPrefix(tt.header, "X-API-KEY") {
			header = append(header, "X-API-KEY: ")
		}
		a := h.do("GET", "/", "", header...)
		_, value, _ := strings.Cut(tt.header, ": ")
		if got := strings.Contains(a.body, value+"\n"); a.status != 200 || got != tt.kept {
			t.Errorf("%s: %d, the program gets %q, want the header there: %t", tt.header, a.status, a.body, tt.kept)
		}
	}
}

// TestRouteNames: each request has the name of a route in logs and metrics, without ids.
func TestRouteNames(t *testing.T) {
	h := newHost(t)
	b := h.create("")
	<-h.routes
	to := func(port int) []string {
		return []string{fmt.Sprintf("Host: %d-%s.boxes.example", port, b.SandboxID), "X-Access-Token: " + b.EnvdAccessToken, "Content-Type: application/json"}
	}
	for _, tt := range []struct {
		method, path string
		header       []string
		want         string
	}{
		{"POST", "/v2/sandboxes", nil, "POST /v2/sandboxes"},
		{"GET", "/sandboxes/" + b.SandboxID, nil, "GET /sandboxes/{sandbox}"},
		{"GET", "/files?path=a", to(envd.Port), "GET envd/files"},
		{"POST", "/process.Process/List", to(envd.Port), "envd/process.Process/List"},
		{"POST", "/process.Process/" + b.SandboxID, to(envd.Port), "envd/process.Process/"},
		{"POST", "/filesystem.Filesystem/Stat", to(envd.Port), "envd/filesystem.Filesystem/Stat"},
		{"POST", "/" + b.SandboxID, to(envd.Port), "envd/"},
		{"POST", "/execute", to(envd.CodePort), "POST code/execute"},
		{"DELETE", "/contexts/" + b.SandboxID, to(envd.CodePort), "DELETE code/contexts/{id}"},
		{"GET", "/" + b.SandboxID, to(8080), "port/"},
		{"GET", "/teams/" + b.SandboxID, nil, ""},
	} {
		h.do(tt.method, tt.path, "{}", tt.header...)
		if got := <-h.routes; got != tt.want {
			t.Errorf("%s %s: the route is %q, want %q", tt.method, tt.path, got, tt.want)
		}
	}
}
