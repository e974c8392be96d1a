package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	containers "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/telemetry"
	"github.com/croft-run/croft/internal/testenv"
)

// send sends a request to a URL or path with a header, and returns the status and the body.
func (m *team) send(method, url, header, value, body string) (int, string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
	defer cancel()
	if strings.HasPrefix(url, "/") {
		url = m.url + url
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	if header != "" {
		req.Header.Set(header, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// requestBuild requests a build of a template of red.
func (m *team) requestBuild(name string) (template, build string) {
	m.t.Helper()
	var made struct{ TemplateID, BuildID string }
	m.must("POST", "/v3/templates", `{"name":"`+name+`"}`, &made)
	return made.TemplateID, made.BuildID
}

// uploadURL returns where the files of a template are sent to.
func (m *team) uploadURL(template, hash string) string {
	m.t.Helper()
	var link struct{ URL string }
	m.must("GET", "/templates/"+template+"/files/"+hash, "", &link)
	return link.URL
}

// build runs a build to its end, and returns its status and how often its log was full.
func (m *team) build(template, build, steps string) (status, reason string) {
	m.t.Helper()
	m.must("POST", "/v2/templates/"+template+"/builds/"+build, `{"steps":`+steps+`}`, nil)
	for range 600 {
		var now struct {
			Status string
			Reason struct{ Message string }
		}
		m.must("GET", "/templates/"+template+"/builds/"+build+"/status", "", &now)
		if now.Status == "ready" || now.Status == "error" {
			return now.Status, now.Reason.Message
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.t.Fatal("the build does not end")
	return "", ""
}

func (m *team) needsSandbox() {
	m.t.Helper()
	p, err := m.sys.Mux.Provider("sandbox")
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := p.Probe(m.t.Context()); err != nil {
		m.t.Skipf("skipped: host: it lacks isolation: %v", err)
	}
}

// A build's programs can't fill the disk of the server with their output.
func TestAttackBuildOutput(t *testing.T) {
	m := newTeam(t, "")
	m.needsSandbox()
	template, build := m.requestBuild("loud")
	if status, reason := m.build(template, build, `[{"type":"RUN","args":["head -c 30000000 /dev/zero | tr '\\0' '\\n'; yes | head -c 5000000"]}]`); status != "ready" {
		t.Fatalf("the build has the status %s: %s", status, reason)
	}
	info, err := os.Stat(filepath.Join(m.sys.Dir, "e2b", "builds", build+".jsonl"))
	if err != nil || info.Size() > 8<<20 {
		t.Errorf("the log is %v, %v", info, err)
	}
	_, log := m.do(m.red, "GET", "/templates/"+template+"/builds/"+build+"/logs?direction=backward&limit=3", "")
	if !strings.Contains(log, "further output is left out") || !strings.Contains(log, "Build finished") {
		t.Errorf("the log ends with %s", log)
	}
	testenv.ReportAttack(t, "output of a build fills the disk", "server", testenv.Prevented, "")
}

// Files are stored for a build that was requested, until it ends; the URL of an upload does
// not outlive its template.
func TestAttackUploads(t *testing.T) {
	m := newTeam(t, "")
	m.needsSandbox()
	const hash = "0123456789abcdef"
	template, build := m.requestBuild("uploads")
	url := m.uploadURL(template, hash)
	for _, bad := range []string{
		strings.Replace(url, hash, "0123456789abcdee", 1), strings.Replace(url, "/files/"+hash, "/files/..%2f..%2f"+hash, 1),
		strings.Replace(url, template, "aaaaaaaaaaaaaaaaaaaa", 1), url + "0", strings.Replace(url, "token=", "token=x&token=", 1),
	} {
		if status, text := m.send("PUT", bad, "", "", "x"); status != http.StatusUnauthorized {
			t.Errorf("PUT %s: %d %s", bad, status, text)
		}
	}
	if status, text := m.send("PUT", url, "", "", "x"); status != http.StatusOK {
		t.Fatalf("upload: %d %s", status, text)
	}
	uploads := filepath.Join(m.sys.Dir, "e2b", "uploads", template)
	if _, err := os.Stat(filepath.Join(uploads, hash)); err != nil {
		t.Error(err)
	}
	if status, reason := m.build(template, build, `[]`); status != "ready" {
		t.Fatalf("the build has the status %s: %s", status, reason)
	}
	if status, text := m.send("PUT", url, "", "", "x"); status != http.StatusConflict {
		t.Errorf("an upload without a build: %d %s", status, text)
	}
	if status, text := m.do(m.red, "DELETE", "/templates/"+template, ""); status != http.StatusNoContent {
		t.Fatalf("delete: %d %s", status, text)
	}
	if status, text := m.send("PUT", url, "", "", "x"); status != http.StatusNotFound {
		t.Errorf("an upload to a deleted template: %d %s", status, text)
	}
	if _, err := os.Stat(uploads); !os.IsNotExist(err) {
		t.Errorf("the uploads of a build that has ended are still there (%v)", err)
	}
	_, events := m.do(m.sys.Token, "GET", "/events?kind=api.call&after=0&follow=false", "")
	for _, want := range []string{`"status":200`, `"status":409`} {
		found := false
		for line := range strings.Lines(events) {
			found = found || strings.Contains(line, "/files/{hash}") && strings.Contains(line, want) && strings.Contains(line, `"tenant":"red"`)
		}
		if !found {
			t.Errorf("no audit event of an upload with %s", want)
		}
	}
	testenv.ReportAttack(t, "files of a template without a build, or after its end", "server", testenv.Prevented, "")
}

// A tenant can't fill the memory of the server with requests for builds.
func TestAttackManyBuilds(t *testing.T) {
	m := newTeam(t, "")
	const most = 100
	var template, first string
	for i := range most + 20 {
		var build string
		template, build = m.requestBuild("many")
		if i == 0 {
			first = build
		}
	}
	var shown struct{ Builds []struct{ BuildID string } }
	m.must("GET", "/templates/"+template, "", &shown)
	if len(shown.Builds) != most {
		t.Errorf("%d builds are kept, want %d", len(shown.Builds), most)
	}
	if status, _ := m.do(m.red, "GET", "/templates/"+template+"/builds/"+first+"/status", ""); status != http.StatusNotFound {
		t.Errorf("the oldest build: %d, want 404", status)
	}
	testenv.ReportAttack(t, "requests for builds without end", "server", testenv.Prevented, "")
}

// What a build used is removed when the server starts after a crash.
func TestInterruptedBuild(t *testing.T) {
	dir := t.TempDir()
	var box struct{ ID string }
	var image, template string
	t.Run("before", func(t *testing.T) { // its end stops the server
		m := newTeamIn(t, dir, "")
		m.needsSandbox()
		m.must("POST", "/v1/workspaces", `{"kind":"sandbox","name":"build"}`, &box)
		var made struct{ ID string }
		m.must("POST", "/v1/workspaces/build/snapshots", `{"name":"image"}`, &made)
		image = made.ID
		template, _ = m.requestBuild("cut-off")
	})
	if template == "" {
		t.Skip("skipped: host: it lacks isolation")
	}
	file := filepath.Join(dir, "e2b", "templates", template+".json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// As a crash would leave it.
	crashed := strings.Replace(string(data), `"status":"waiting"`, `"status":"building","workspace":"`+box.ID+`","rootfs":"`+image+`"`, 1)
	if crashed == string(data) {
		t.Fatalf("no build waits: %s", data)
	}
	if err := os.WriteFile(file, []byte(crashed), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newTeamIn(t, dir, "")
	for range 100 {
		if data, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), box.ID) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if status, text := m.do(m.red, "GET", "/v1/workspaces/"+box.ID, ""); status != http.StatusNotFound {
		t.Errorf("the workspace of the build: %d %s", status, text)
	}
	if _, text := m.do(m.red, "GET", "/v1/snapshots", ""); strings.Contains(text, image) {
		t.Errorf("the image of the build is still there: %s", text)
	}
	if strings.Contains(string(data), image) || !strings.Contains(string(data), `"status":"error"`) {
		t.Errorf("the build is stored as %s", data)
	}
}

// A build that fails does not leave the files of its image.
func TestFailedBuildOfAnImage(t *testing.T) {
	m := newTeam(t, "")
	m.needsSandbox()
	images := httptest.NewServer(containers.New(containers.Logger(log.New(io.Discard, "", 0))))
	defer images.Close()
	ref := strings.TrimPrefix(images.URL, "http://") + "/tools:1"
	at, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(1000, 1)
	if err == nil {
		err = remote.Write(at, image)
	}
	if err != nil {
		t.Fatal(err)
	}
	operator := func(method, path, body string, out any) { // tenants pull from the public internet alone
		t.Helper()
		if status, text := m.do(m.sys.Token, method, path, body); status/100 != 2 {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		} else if out != nil {
			if err := json.Unmarshal([]byte(text), out); err != nil {
				t.Fatal(err)
			}
		}
	}
	var made struct{ TemplateID, BuildID string }
	operator("POST", "/v3/templates", `{"name":"tools"}`, &made)
	operator("POST", "/v2/templates/"+made.TemplateID+"/builds/"+made.BuildID, `{"fromImage":"`+ref+`","steps":[{"type":"RUN","args":["false"]}]}`, nil)
	var now struct {
		Status     string
		LogEntries []struct{ Message string }
	}
	for range 600 {
		operator("GET", "/templates/"+made.TemplateID+"/builds/"+made.BuildID+"/status", "", &now)
		if now.Status == "error" || now.Status == "ready" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	// The second entry is that of the workspace or of the step, after the image was pulled.
	if now.Status != "error" || len(now.LogEntries) < 2 || strings.Contains(now.LogEntries[1].Message, "image") {
		t.Fatalf("the build is %+v", now)
	}
	var stored struct{ Snapshots []struct{ ID, Name string } }
	operator("GET", "/v1/snapshots", "", &stored)
	if len(stored.Snapshots) > 0 {
		t.Errorf("the failed build left %+v", stored.Snapshots)
	}
}

// A snapshot that is refused leaves nothing in the store: its files would have a name there, so that
// garbage collection would not remove them.
func TestAttackRefusedSnapshots(t *testing.T) {
	m := newTeam(t, "")
	m.needsSandbox()
	var box struct{ SandboxID string }
	m.must("POST", "/sandboxes", `{"templateID":"base"}`, &box)
	m.requestBuild("taken")
	count := func() int {
		var stored struct{ Snapshots []struct{ ID string } }
		m.must("GET", "/v1/snapshots", "", &stored)
		return len(stored.Snapshots)
	}
	before := count()
	if status, text := m.do(m.red, "POST", "/sandboxes/"+box.SandboxID+"/snapshots", `{"name":"taken"}`); status != http.StatusConflict || !strings.Contains(text, "a template has this name") {
		t.Fatalf("%d %s", status, text)
	}
	if after := count(); after != before {
		t.Errorf("%d snapshots are stored, %d before", after, before)
	}
	m.must("POST", "/sandboxes/"+box.SandboxID+"/snapshots", `{"name":"free"}`, nil)
	if after := count(); after != before+1 {
		t.Errorf("%d snapshots are stored after one that was not refused, %d before", after, before)
	}
	testenv.ReportAttack(t, "snapshots that are refused fill the store", "server", testenv.Prevented, "")
}

// Croft's own API says which workspaces E2B's SDKs can connect to.
func TestSandboxesAreMarked(t *testing.T) {
	m := newTeam(t, "")
	m.needsSandbox()
	var box struct{ SandboxID string }
	m.must("POST", "/sandboxes", `{"templateID":"base"}`, &box)
	var shown struct{ Sandbox bool }
	if m.must("GET", "/v1/workspaces/"+box.SandboxID, "", &shown); !shown.Sandbox {
		t.Error("the workspace of a sandbox is not marked")
	}
}

// Volumes of one name can't be made at once, and writes to them are audited.
func TestAttackVolumes(t *testing.T) {
	m := newTeam(t, "")
	var wait sync.WaitGroup
	statuses := make(chan int, 20)
	for range cap(statuses) {
		wait.Go(func() {
			status, _ := m.do(m.red, "POST", "/volumes", `{"name":"shared"}`)
			statuses <- status
		})
	}
	wait.Wait()
	close(statuses)
	made := 0
	for status := range statuses {
		if status == http.StatusCreated {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d volumes of one name were made", made)
	}
	var volume struct{ VolumeID, Token string }
	m.must("GET", "/volumes/shared", "", &volume)
	content := "/volumecontent/" + volume.VolumeID + "/file?path=a"
	if status, text := m.send("PUT", content, "Authorization", "Bearer "+volume.Token, "x"); status != http.StatusCreated {
		t.Fatalf("write: %d %s", status, text)
	}
	if _, events := m.do(m.sys.Token, "GET", "/events?kind=api.call&after=0&follow=false", ""); !strings.Contains(events, "/volumecontent/") {
		t.Errorf("a write to a volume is not among the events: %s", events)
	}
	if status, _ := m.do(m.red, "DELETE", "/volumes/"+volume.VolumeID, ""); status != http.StatusNoContent {
		t.Fatalf("delete: %d", status)
	}
	_, events := m.do(m.sys.Token, "GET", "/events?kind=api.call&after=0&follow=false", "")
	for _, call := range []string{`"method":"POST","route":"/volumes","status":201,"target":"` + volume.VolumeID, `"method":"DELETE","route":"/volumes/{volume}","status":204,"target":"` + volume.VolumeID} {
		if !strings.Contains(events, call) {
			t.Errorf("no audit event with %s: %s", call, events)
		}
	}
	if status, text := m.send("PUT", content, "Authorization", "Bearer "+volume.Token, "x"); status != http.StatusNotFound {
		t.Errorf("the token of a deleted volume: %d %s", status, text)
	}
	testenv.ReportAttack(t, "two volumes of one name, and the token of a deleted one", "server", testenv.Prevented, "")
}

// The requests per second of a tenant are also those to its sandboxes, and a request without a
// token does not use them up.
func TestAttackRates(t *testing.T) {
	m := newTeam(t, "tenants: {red: {requestsPerSecond: 5}}\n")
	m.needsSandbox()
	var box struct{ SandboxID, EnvdAccessToken string }
	m.must("POST", "/v2/sandboxes", `{"templateID":"base"}`, &box)
	count := func(token string) int {
		limited := 0
		for range 30 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.url+"/envs", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("E2b-Sandbox-Id", box.SandboxID)
			req.Header.Set("E2b-Sandbox-Port", "49983")
			req.Header.Set("X-Access-Token", token)
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode == http.StatusTooManyRequests {
				limited++
			}
		}
		return limited
	}
	if got := count("wrong"); got != 0 {
		t.Errorf("%d requests with a wrong token are limited", got)
	}
	if got := count(box.EnvdAccessToken); got < 10 {
		t.Errorf("%d of 30 requests are limited, want most", got)
	}
	testenv.ReportAttack(t, "requests to sandboxes beyond requestsPerSecond", "server", testenv.Prevented, "")
}

// A tenant can't fill the memory of the server with the bodies of many requests.
func TestAttackManyBodies(t *testing.T) {
	for _, kind := range []string{"Content-Type: application/json\r\n", "Content-Type: text/plain\r\n", ""} {
		attackManyBodies(t, kind)
	}
	testenv.ReportAttack(t, "bodies of many requests fill the memory", "server", testenv.Prevented, "")
}

// attackManyBodies begins requests with large bodies, and a header that says what they are.
func attackManyBodies(t *testing.T, kind string) {
	m := newTeam(t, "")
	addr := strings.TrimPrefix(m.url, "http://")
	const size, most = 16 << 20, 8
	open := func(path string) net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n%sContent-Length: %d\r\n\r\n{", path, m.red, kind, size)
		return conn
	}
	for range most {
		defer open("/v1/workspaces").Close()
	}
	var status int
	for range 50 { // the others are read by other goroutines
		conn := open("/v1/workspaces")
		conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			status = res.StatusCode
			res.Body.Close()
		}
		conn.Close()
		if status != 0 {
			break
		}
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("a further large request with %q: %d, want 429", kind, status)
	}
	if status, text := m.do(m.blue, "POST", "/v1/workspaces", `{"kind":"memory"}`); status != http.StatusOK {
		t.Errorf("another tenant: %d %s", status, text)
	}
	var list struct{ Workspaces []json.RawMessage }
	m.must("GET", "/v1/workspaces", "", &list)
}

// A stream ends soon after the key by which it was opened is revoked.
func TestAttackStreamsOfRevokedKey(t *testing.T) {
	m := newTeam(t, "")
	var made struct{ ID string }
	m.must("POST", "/v1/workspaces", `{"kind":"memory","name":"shop"}`, &made)
	streams := []string{"/events?after=0", "/v1/workspaces/shop/watch?path=."}
	ended := make(chan string, len(streams))
	for _, path := range streams {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-KEY", m.redRun)
		res, err := http.DefaultTransport.RoundTrip(req) //nolint:bodyclose // it is closed below
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, res.Status)
		}
		go func() {
			io.Copy(io.Discard, res.Body)
			ended <- path
		}()
	}
	keys, err := m.client(m.red).Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if key.Scope == "run" {
			if _, err := m.client(m.red).RevokeKey(t.Context(), key.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	late := time.After(20 * time.Second)
	for range streams {
		select {
		case <-ended:
		case <-late:
			t.Fatal("a stream outlives its key")
		}
	}
	testenv.ReportAttack(t, "stream of a revoked key", "server", testenv.Prevented, "")
}

// The metrics are those of the whole server: a tenant does not see them.
func TestAttackMetrics(t *testing.T) {
	tel, err := telemetry.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tel.Shutdown(context.WithoutCancel(t.Context())) })
	sys, url := serveWith(t, app.Config{DataDir: t.TempDir(), Settings: settings(t, "version: 1\n"), Telemetry: tel})
	m := &team{t: t, sys: sys, url: url}
	red, _ := m.key("red", "admin")
	scraper, _ := m.key("", "read")
	for key, want := range map[string]int{red: http.StatusForbidden, scraper: http.StatusOK, sys.Token: http.StatusOK, "": http.StatusUnauthorized} {
		status, text := m.do(key, "GET", "/metrics", "")
		if status != want || status != http.StatusOK && strings.Contains(text, "croft_workspaces") {
			t.Errorf("key %q: %d %.200s, want %d", key, status, text, want)
		}
	}
	testenv.ReportAttack(t, "metrics of the server with a key of a tenant", "server", testenv.Prevented, "")
}

// The logs of a sandbox have no calls of another tenant, which may name any sandbox.
func TestAttackLogs(t *testing.T) {
	m := newTeam(t, "")
	m.needsSandbox()
	var box struct{ SandboxID string }
	m.must("POST", "/v2/sandboxes", `{"templateID":"base"}`, &box)
	for _, path := range []string{"/v1/workspaces/" + box.SandboxID, "/sandboxes/" + box.SandboxID} {
		if status, text := m.do(m.blue, "DELETE", path, ""); status != http.StatusNotFound {
			t.Errorf("DELETE %s by another tenant: %d %s", path, status, text)
		}
		_, logs := m.do(m.red, "GET", "/v2/sandboxes/"+box.SandboxID+"/logs", "")
		if !strings.Contains(logs, "ready") || strings.Contains(logs, "DELETE") {
			t.Errorf("the logs are %s", logs)
		}
	}
	testenv.ReportAttack(t, "calls of another tenant in a sandbox's logs", "server", testenv.Prevented, "")
}

// A tenant's workspaces reach the public internet at most, not the network of the server,
// unless a policy says so.
func TestAttackNetwork(t *testing.T) {
	m := newTeam(t, "")
	m.needsSandbox()
	var box struct{ SandboxID string }
	m.must("POST", "/v2/sandboxes", `{"templateID":"base","network":{"allowOut":["8.8.8.8","example.com","0.0.0.0/0"]}}`, &box)
	attacks := []struct{ method, path, body string }{
		{"POST", "/v2/sandboxes", `{"templateID":"base","network":{"allowOut":["127.0.0.1"]}}`},
		{"POST", "/v2/sandboxes", `{"templateID":"base","network":{"allowOut":["example.com","::ffff:127.0.0.1"]}}`},
		{"POST", "/v2/sandboxes", `{"templateID":"base","network":{"allowOut":["10.0.0.0/8"]}}`},
		{"POST", "/v2/sandboxes", `{"templateID":"base","network":{"allowOut":["169.254.169.254"]}}`},
		{"POST", "/v2/sandboxes", `{"templateID":"base","network":{"allowOut":["127.0.0.0/7"]}}`},
		{"PUT", "/sandboxes/" + box.SandboxID + "/network", `{"allowOut":["127.0.0.1"]}`},
		{"POST", "/v1/workspaces", `{"kind":"sandbox","policy":{"network":{"open":true}}}`},
		{"POST", "/v1/workspaces", `{"kind":"sandbox","policy":{"network":{"allow":[{"host":"localhost","private":true}]}}}`},
		{"POST", "/v1/workspaces", `{"kind":"sandbox","policy":{"network":{"allow":[{"host":"127.0.0.1","ports":[5432]}]}}}`},
		{"POST", "/v1/workspaces", `{"kind":"sandbox","policy":{"network":{"allow":[{"host":"0.0.0.0/0"}]}}}`},
		{"PATCH", "/v1/workspaces/" + box.SandboxID, `{"policy":{"network":{"allow":[{"host":"[::1]"}]}}}`},
	}
	for _, a := range attacks {
		if status, text := m.do(m.red, a.method, a.path, a.body); status != http.StatusForbidden {
			t.Errorf("%s %s %s: %d %s", a.method, a.path, a.body, status, text)
		}
	}
	if status, text := m.do(m.sys.Token, "POST", "/v2/sandboxes", attacks[0].body); status != http.StatusCreated {
		t.Errorf("the operator: %d %s", status, text)
	}
	allowing := newTeam(t, "policies: {default: {network: {allow: [{host: 127.0.0.1}]}}}\n")
	if status, text := allowing.do(allowing.red, "POST", "/v2/sandboxes", attacks[0].body); status != http.StatusCreated {
		t.Errorf("by a policy: %d %s", status, text)
	}
	testenv.ReportAttack(t, "network of the server, by a key of a tenant", "server", testenv.Prevented, "")
}

// A page among the files of a sandbox does not run with the origin of the server.
func TestAttackPageOfSandbox(t *testing.T) {
	m := newTeam(t, "")
	m.needsSandbox()
	var box struct{ SandboxID, EnvdAccessToken string }
	m.must("POST", "/v2/sandboxes", `{"templateID":"base"}`, &box)
	m.must("PUT", "/v1/workspaces/"+box.SandboxID+"/files?path=a.html", "<script>1</script>", nil)
	for host, want := range map[string]string{"": "sandbox", "49983-" + box.SandboxID + ".localhost": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.url+"/files?path=a.html", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Access-Token", box.EnvdAccessToken)
		if req.Host = host; host == "" {
			req.Header.Set("E2b-Sandbox-Id", box.SandboxID)
			req.Header.Set("E2b-Sandbox-Port", "49983")
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Content-Security-Policy"); res.StatusCode != http.StatusOK || got != want {
			t.Errorf("host %q: %s with the policy %q, want %q", host, res.Status, got, want)
		}
	}
	testenv.ReportAttack(t, "page among the files of a sandbox, with the server's origin", "server", testenv.Prevented, "")
}
