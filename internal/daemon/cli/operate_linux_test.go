package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A testServer is a croft up of a test.
type testServer struct {
	t     *testing.T
	cmd   *exec.Cmd
	URL   string `json:"url"`
	Token string `json:"token"`
	Try   []string
}

// startServer starts croft up on a data directory, with further flags, each with a value, and
// variables.
func startServer(t *testing.T, data string, extra ...string) *testServer {
	t.Helper()
	args, env := []string{"up", "--addr", "127.0.0.1:0", "--json"}, extra
	for len(env) > 1 && strings.HasPrefix(env[0], "--") {
		args, env = append(args, env[:2]...), env[2:]
	}
	s := &testServer{t: t, cmd: croft(t, data, args...)}
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(out).Decode(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// do sends a request, with a body if it is not "", and returns the answer.
func (s *testServer) do(method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

// text is do for an answer of status 2xx, as a whole.
func (s *testServer) text(method, path, body string, header ...string) string {
	s.t.Helper()
	res := s.do(method, path, body, header...)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		s.t.Fatalf("%s %s: status %d, %v: %s", method, path, res.StatusCode, err, data)
	}
	return string(data)
}

// stop ends the server with SIGTERM and waits for it.
func (s *testServer) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("croft up after SIGTERM: %v", err)
	}
}

// TestDataDirectoryIsRemoved removes the data directory of a server: no workspace is opened
// any more, the server ends with an error, and makes no file at the path again.
func TestDataDirectoryIsRemoved(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, data)
	s.text("POST", "/v1/workspaces", `{"name":"box","kind":"shelltest"}`)
	for {
		err := os.RemoveAll(data)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.ENOTEMPTY) { // the server made a file meanwhile
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/v1/workspaces", strings.NewReader(`{"name":"late","kind":"local"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	req.Header.Set("Content-Type", "application/json")
	if res, err := http.DefaultClient.Do(req); err == nil { // else the server has ended already
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "data directory was removed") {
			t.Errorf("a new workspace: status %d: %s", res.StatusCode, text)
		}
	}
	if err := s.cmd.Wait(); err == nil {
		t.Error("croft up ended with status 0")
	}
	if left, err := os.ReadDir(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data directory is there again, with %v, %v", left, err)
	}
}

// TestDrain sends SIGTERM while commands run: no connection is accepted any more, requests
// end within the bound, a detached command continues, an attached one ends, and the exit
// status is 0.
func TestDrain(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, data)
	s.text("POST", "/v1/workspaces", `{"name":"box","kind":"shelltest"}`)
	if got := s.text("GET", "/readyz", ""); !strings.Contains(got, `"ready":true`) {
		t.Errorf("/readyz before: %s", got)
	}
	s.text("POST", "/v1/workspaces/box/sessions", `{"script":"sleep 3; echo after > detached.txt","detached":true}`)
	running := s.do("POST", "/v1/workspaces/box/exec", `{"script":"echo begun; sleep 1000"}`)
	defer running.Body.Close()
	lines := bufio.NewReader(running.Body)
	if line, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for refused := false; !refused; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("connections are still accepted")
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", at.Host)
		if refused = err != nil; !refused {
			conn.Close()
		}
	}
	rest, _ := io.ReadAll(lines) // the connection may be cut off
	if bytes.Contains(rest, []byte(`"exitCode":0`)) {
		t.Errorf("the attached command ended with %s", rest)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("croft up: %v, want exit status 0", err)
	}
	if took := time.Since(begun); took > 45*time.Second {
		t.Errorf("the drain took %s", took)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		out, err := croft(t, data, "ws", "cat", "box", "detached.txt").Output()
		if err == nil && string(out) == "after\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the detached command did not continue: %q, %v", out, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	if out, err := croft(t, data, "ws", "ps", "box").Output(); err != nil || strings.Contains(string(out), "running") {
		t.Errorf("processes are left:\n%s%v", out, err)
	}
	if out, err := croft(t, data, "ws", "rm", "box").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestDrainDelay: /readyz answers 503 after SIGTERM, and other requests are answered until the
// delay has passed.
func TestDrainDelay(t *testing.T) {
	s := startServer(t, filepath.Join(t.TempDir(), "data"), "--drain-delay", "2s")
	s.text("GET", "/readyz", "")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	begun, status, text := time.Now(), 0, []byte(nil)
	for status != http.StatusServiceUnavailable && time.Since(begun) < time.Second {
		res := s.do("GET", "/readyz", "")
		status = res.StatusCode
		text, _ = io.ReadAll(res.Body)
		res.Body.Close()
	}
	if status != http.StatusServiceUnavailable || !bytes.Contains(text, []byte(`{"name":"draining","ok":false}`)) {
		t.Errorf("/readyz while the server drains: %d %s, want 503", status, text)
	}
	s.text("POST", "/v1/workspaces", `{"kind":"memory"}`)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("croft up: %v, want exit status 0", err)
	}
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("the server stopped after %s, want the delay first", took)
	}
}

// collector is an OpenTelemetry collector that keeps spans.
type collector struct {
	mu    sync.Mutex
	spans []span
}

type span struct{ name, trace, id, parent string }

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req collectortrace.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
		return // metrics
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, res := range req.ResourceSpans {
		for _, scope := range res.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{s.Name, hexOf(s.TraceId), hexOf(s.SpanId), hexOf(s.ParentSpanId)})
			}
		}
	}
}

func hexOf(id []byte) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range id {
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

// TestTraceReachesTheProcess follows one trace from the header of a client over the spans
// of the server into the environment of a process in a sandbox.
func TestTraceReachesTheProcess(t *testing.T) {
	c := &collector{}
	otlp := httptest.NewServer(c)
	defer otlp.Close()
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, data, "OTEL_EXPORTER_OTLP_ENDPOINT="+otlp.URL)
	s.text("POST", "/v1/workspaces", `{"name":"box","kind":"sandbox"}`)
	const trace, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	out := s.text("POST", "/v1/workspaces/box/exec", `{"script":"echo $TRACEPARENT"}`, "Traceparent", "00-"+trace+"-"+client+"-01")
	inside := regexp.MustCompile(`00-` + trace + `-([0-9a-f]{16})-01`).FindStringSubmatch(out)
	if inside == nil {
		t.Errorf("the process has no TRACEPARENT of trace %s: %s", trace, out)
	}
	s.text("DELETE", "/v1/workspaces/box", "")
	s.stop() // exports what is left
	c.mu.Lock()
	defer c.mu.Unlock()
	find := func(name string) span {
		at := slices.IndexFunc(c.spans, func(s span) bool { return s.name == name && s.trace == trace })
		if at < 0 {
			t.Fatalf("no span %s of trace %s in %v", name, trace, c.spans)
		}
		return c.spans[at]
	}
	request, run := find("POST"), find("workspace.run")
	if request.parent != client || run.parent != request.id {
		t.Errorf("spans %+v and %+v, want client -> POST -> workspace.run", request, run)
	}
	if inside != nil && inside[1] != run.id {
		t.Errorf("the process continues span %s, want %s of workspace.run", inside[1], run.id)
	}
}

var (
	metricName   = regexp.MustCompile(`\b(croft|workspace)_[a-z0-9_]+`)
	metricLabels = regexp.MustCompile(`\b((?:croft|workspace)_[a-z0-9_]+)\{([^}]*)\}`)
	labelName    = regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"`)
)

// TestDocumentedMetricsExist compares the metrics that the documentation, the dashboard and
// the alerts name with those of a server that has worked.
func TestDocumentedMetricsExist(t *testing.T) {
	s := startServer(t, filepath.Join(t.TempDir(), "data"))
	s.text("POST", "/v1/workspaces", `{"name":"box","kind":"filestore"}`)
	s.text("PUT", "/v1/workspaces/box/files?path=f", "text", "Content-Type", "application/octet-stream")
	page := s.text("GET", "/metrics", "")
	s.stop()
	served, helped := map[string]bool{}, map[string]bool{}
	labels := map[string]bool{} // by NAME LABEL
	for _, m := range metricLabels.FindAllStringSubmatch(page, -1) {
		for _, label := range labelName.FindAllStringSubmatch(m[2], -1) {
			labels[m[1]+" "+label[1]] = true
		}
	}
	for line := range strings.Lines(page) {
		if name := metricName.FindString(line); strings.HasPrefix(line, "# TYPE "+name) && name != "" {
			helped[name] = true
		} else if name != "" && strings.HasPrefix(line, name) {
			served[name] = true
		}
	}
	files := []string{"../../../docs/operate.md"}
	err := filepath.WalkDir("../../../deploy", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			if !served[name] && !helped[name] && !onDemand[name] {
				t.Errorf("%s names %s, which /metrics does not have", file, name)
			}
			named[name] = named[name] || strings.HasSuffix(file, "operate.md")
		}
		for _, m := range metricLabels.FindAllStringSubmatch(string(text), -1) {
			for _, label := range labelName.FindAllStringSubmatch(m[2], -1) {
				if !labels[m[1]+" "+label[1]] && !onDemand[m[1]] {
					t.Errorf("%s names the label %s of %s, which /metrics does not have", file, label[1], m[1])
				}
			}
		}
	}
	for name := range helped {
		if !named[name] {
			t.Errorf("docs/operate.md does not name %s", name)
		}
	}
}

// onDemand are metrics that appear with the first event that they count.
var onDemand = map[string]bool{"croft_collected_total": true, "croft_e2b_ignored_total": true, "workspace_ended_total": true, "croft_replica_forwarded_total": true}

// TestJSONLog: with --log-format json standard error has nothing but JSON, notes included.
func TestJSONLog(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	cmd := croft(t, data, "up", "--addr", "127.0.0.1:0", "--log-format", "json")
	cmd.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cmd.Dir, "croft.yaml"), []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	send := func(s syscall.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasPrefix(lines.Text(), "Press Ctrl-C"); { // then it serves
	}
	send(syscall.SIGHUP)
	var got []string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var record struct{ Level, Msg string }
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil || record.Level != "INFO" {
			t.Errorf("the line %s: %v", lines.Bytes(), err)
		}
		if got = append(got, record.Msg); record.Msg == "reload: done" {
			send(syscall.SIGTERM)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if want := []string{"the croft.yaml in this directory is not read; name it with --config to use it", "reload: done", "stopped"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// TestHangup sends SIGHUP to a server: quotas, policies and keys are read again, and a file
// with a mistake changes nothing.
func TestHangup(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	configure := func(text string) {
		t.Helper()
		if err := os.MkdirAll(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "croft.yaml"), []byte("version: 1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("tenants: {red: {maxWorkspaces: 1}}\n")
	s := startServer(t, data)
	defer s.stop()
	newKey := func() (id, text string) {
		t.Helper()
		var key struct{ ID, Key string }
		if err := json.Unmarshal([]byte(s.text("POST", "/v1/keys", `{"tenant":"red","scope":"run"}`)), &key); err != nil {
			t.Fatal(err)
		}
		return key.ID, key.Key
	}
	_, red := newKey()
	id, revoked := newKey()
	status := func(key, method, path, body string) int {
		t.Helper()
		res := s.do(method, path, body, "Authorization", "Bearer "+key)
		res.Body.Close()
		return res.StatusCode
	}
	open := func(name, policy string) int {
		t.Helper()
		return status(red, "POST", "/v1/workspaces"+policy, `{"kind":"memory","name":"`+name+`"}`)
	}
	hangup := func() {
		t.Helper()
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, status int, get func() int) {
		t.Helper()
		got := 0
		for range 100 {
			if got = get(); got == status {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("%s: status %d, want %d", what, got, status)
	}
	want("the metrics of all tenants", 403, func() int { return status(red, "GET", "/metrics", "") })
	want("the first workspace", 200, func() int { return open("one", "") })
	want("a workspace over the quota", 429, func() int { return open("two", "") })
	want("an unknown policy", 404, func() int { return open("two", "?policy=late") })
	want("a valid key", 200, func() int { return status(revoked, "GET", "/v1/workspaces", "") })

	if out, err := croft(t, data, "key", "revoke", id).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	configure("tenants: {red: {maxWorkspaces: 3}}\npolicies: {late: {readOnly: true}}\n")
	hangup()
	want("within the new quota", 200, func() int { return open("two", "") })
	want("the new policy", 200, func() int { return open("three", "?policy=late") })
	want("the new quota", 429, func() int { return open("four", "") })
	want("a key that was revoked on the data directory", 401, func() int { return status(revoked, "GET", "/v1/workspaces", "") })

	configure("tenants: {red: {maxWorkspaces: many}}\n")
	hangup()
	time.Sleep(500 * time.Millisecond)
	want("the quota after a file with a mistake", 429, func() int { return open("four", "") })
	want("removal", 204, func() int { return status(red, "DELETE", "/v1/workspaces/two", "") })
	want("a workspace after a file with a mistake", 200, func() int { return open("four", "") })
}

// TestCommandsNameTheConfiguration: what croft up and the page print works in any directory, and reaches
// the store of the server.
func TestCommandsNameTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	file, data := filepath.Join(dir, "croft.yaml"), filepath.Join(dir, "data")
	if err := os.WriteFile(file, []byte("version: 1\nstore: {url: 'sqlite:"+filepath.Join(dir, "servers.db")+"'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, file)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, data, "--config", relative)
	defer s.stop()
	for _, line := range s.Try {
		if !strings.Contains(line, " --config "+file) {
			t.Errorf("croft up prints %q, want --config %s", line, file)
		}
	}
	if got := s.text("GET", "/page/host", "", "Croft-Page", "1"); !strings.Contains(got, `"config":"`+file+`"`) {
		t.Errorf("/page/host: %s, want %s", got, file)
	}
	var stderr bytes.Buffer
	cmd := croft(t, data, "key", "create")
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), "--config") {
		t.Errorf("a key without the configuration: %v, %s", err, stderr.String())
	}
}
