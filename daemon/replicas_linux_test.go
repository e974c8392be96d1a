package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/daemon"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/provider/filestore"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	sharedKind   = "shared"
	replicaToken = "token-of-all-replicas"
)

// shared is provider filestore over one directory that all replicas reach: a portable provider.
type shared struct{ driver.Provider }

func newShared(snapshots *snapshot.Store) driver.Provider {
	p, err := filestore.New(&filestore.Config{Dir: os.Getenv("DAEMON_TEST_SHARED"), Snapshots: snapshots})
	if err != nil {
		panic(err)
	}
	return p
}

func (shared) Kind() string { return sharedKind }

// Probe claims isolation, so that servers offer it.
func (p shared) Probe(ctx context.Context) (driver.Traits, error) {
	t, err := p.Provider.Probe(ctx)
	t.Isolation = driver.IsolationProcess
	return t, err
}

func (p shared) Features() driver.Features {
	f := p.Provider.Features()
	f.Portable = true
	return f
}

func (p *shared) SetSnapshots(store *snapshot.Store) { p.Provider = newShared(store) }

func (p shared) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	spec.Kind = filestore.Kind
	return renamed(p.Provider.Open(ctx, spec))
}

func (p shared) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	ref.Provider = filestore.Kind
	return renamed(p.Provider.Resolve(ctx, ref))
}

func renamed(d *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil {
		return nil, err
	}
	c := *d
	c.Ref.Provider = sharedKind
	return &c, nil
}

func init() { runReplica = replicaMain }

// replicaMain is croft with a portable provider, and one with commands that is bound to its host.
func replicaMain() int {
	commands, err := testshell.New(filepath.Join(os.Getenv("DAEMON_TEST_REPLICA"), "commands"))
	if err != nil {
		panic(err)
	}
	return daemon.Main(&shared{newShared(nil)}, testshell.Offered{Provider: commands})
}

// A fleet is several replicas on one PostgreSQL.
type fleet struct {
	t        testing.TB
	dir      string
	store    string
	env      []string // further variables of the replicas
	scheme   string   // of their URLs
	replicas map[string]*replicaProcess
	http     *http.Client
}

type replicaProcess struct {
	node, addr, url string
	cmd             *exec.Cmd
	ended           chan struct{}
	log             *syncBuffer
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// clientAddr is the address of the client, which the audit events must show.
const clientAddr = "127.0.0.77"

func newFleet(t testing.TB, pg *testenv.Postgres, nodes ...string) *fleet {
	t.Helper()
	f := prepareFleet(t, pg)
	for _, node := range nodes {
		f.start(node)
	}
	return f
}

// prepareFleet is newFleet without replicas.
func prepareFleet(t testing.TB, pg *testenv.Postgres) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), scheme: "http", store: pg.Database(t), replicas: map[string]*replicaProcess{}, http: &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientAddr)}}).DialContext},
	}}
	t.Cleanup(f.http.CloseIdleConnections)
	for name, text := range map[string]string{
		"croft.yaml": "version: 1\ndefaults: {provider: " + testshell.Kind + "}\n",
		"secret":     strings.Repeat("s3cret", 8),
	} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// start starts the replica of a node, with further variables, and waits until it is ready.
func (f *fleet) start(node string, env ...string) *replicaProcess {
	f.t.Helper()
	r := f.replicas[node]
	if r == nil {
		addr, err := testenv.Loopback()
		if err != nil {
			f.t.Fatal(err)
		}
		r = &replicaProcess{node: node, addr: addr, url: f.scheme + "://" + addr}
		f.replicas[node] = r
	}
	r.log, r.ended = new(syncBuffer), make(chan struct{})
	cmd := f.command(r, filepath.Join(f.dir, node), env...)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	r.cmd = cmd
	ended := r.ended
	go func() { _ = cmd.Wait(); close(ended) }() // its end is the test's doing
	f.t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for till := time.Now().Add(time.Minute); ; {
		if status, _ := f.try("GET", r, "/readyz", "", nil); status == 200 {
			return r
		}
		select {
		case <-ended:
			f.t.Fatalf("replica %s ended:\n%s", node, r.log)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(till) {
			f.t.Fatalf("replica %s is not ready:\n%s", node, r.log)
		}
	}
}

// command returns the command of a replica with a directory of its own, and further variables.
func (f *fleet) command(r *replicaProcess, dir string, env ...string) *exec.Cmd {
	f.t.Helper()
	for _, dir := range []string{filepath.Join(f.dir, "shared"), dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			f.t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "up", "--addr", r.addr, "--log-level", "info")
	cmd.Env = append(os.Environ(),
		"DAEMON_TEST_REPLICA="+dir, "DAEMON_TEST_SHARED="+filepath.Join(f.dir, "shared"), "HOME="+f.dir,
		"CROFT_DATA="+filepath.Join(dir, "data"), "CROFT_CONFIG="+filepath.Join(f.dir, "croft.yaml"), "CROFT_STORE="+f.store, "CROFT_TOKEN="+replicaToken,
		"CROFT_NODE="+r.node, "CROFT_ADVERTISE="+r.url, "CROFT_CLUSTER_SECRET_FILE="+filepath.Join(f.dir, "secret"))
	cmd.Env = slices.Concat(cmd.Env, f.env, env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// kill is kill -9.
func (r *replicaProcess) kill() {
	_ = r.cmd.Process.Kill()
	<-r.ended
}

// try sends a request, and returns its status, 0 without an answer, and its body.
func (f *fleet) try(method string, to *replicaProcess, path, body string, header map[string]string) (int, string) {
	status, text, _ := f.send(method, to, path, body, header)
	return status, text
}

func (f *fleet) send(method string, to *replicaProcess, path, body string, header map[string]string) (int, string, http.Header) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, to.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+replicaToken)
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	res, err := f.http.Do(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return res.StatusCode, string(text), res.Header
}

// do is try for a request that must succeed.
func (f *fleet) do(method string, to *replicaProcess, path, body string, header map[string]string) string {
	f.t.Helper()
	status, text := f.try(method, to, path, body, header)
	if status < 200 || status > 299 {
		f.t.Fatalf("%s %s at %s: %d %s", method, path, to.node, status, text)
	}
	return text
}

// open opens a workspace at a replica.
func (f *fleet) open(at *replicaProcess, kind, name string) string {
	f.t.Helper()
	var ws struct{ ID string }
	text := f.do("POST", at, "/v1/workspaces", fmt.Sprintf(`{"kind": %q, "name": %q}`, kind, name), nil)
	if err := json.Unmarshal([]byte(text), &ws); err != nil {
		f.t.Fatal(err)
	}
	return ws.ID
}

func filePath(id, name string) string { return "/v1/workspaces/" + id + "/files?path=" + name }

//croft:race
func TestReplicasServeEachOther(t *testing.T) {
	f := newFleet(t, testenv.NeedsPostgres(t), "a", "b", "c")
	if log := f.replicas["a"].log.String(); !strings.Contains(log, "has no bucket") {
		t.Errorf("no warning of the missing bucket:\n%s", log)
	}
	var list struct {
		Replicas []struct {
			Node, Address string
			Live          bool
		}
	}
	if err := json.Unmarshal([]byte(f.do("GET", f.replicas["b"], "/v1/replicas", "", nil)), &list); err != nil || len(list.Replicas) != 3 || !list.Replicas[2].Live {
		t.Errorf("replicas: %+v, %v", list, err)
	}
	ids := map[string]string{}
	for node, r := range f.replicas {
		ids[node] = f.open(r, testshell.Kind, "on-"+node)
	}
	for owner, id := range ids {
		for via, r := range f.replicas {
			t.Run(owner+" via "+via, func(t *testing.T) {
				f := *f
				f.t = t
				content := "of " + owner + " via " + via
				f.do("PUT", r, filePath(id, via), content, nil)
				if got := f.do("GET", r, filePath("on-"+owner, via), "", nil); got != content {
					t.Errorf("read %q", got)
				}
				if got := f.do("POST", r, "/v1/workspaces/"+id+"/exec", `{"argv": ["cat", "`+via+`"]}`, nil); !strings.Contains(got, content) {
					t.Errorf("exec: %s", got)
				}
				// The same id is the same workspace, wherever it is opened again.
				f.do("POST", r, "/v1/workspaces", fmt.Sprintf(`{"id": %q, "kind": %q}`, id, testshell.Kind), nil)
				c, err := client.NewClient(client.Config{URL: r.url, Token: replicaToken})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				ws, _, err := c.Attach(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				session, err := ws.Shell.Start(t.Context(), driver.Command{Argv: []string{"sh", "-c", "read line; echo got $line"}, Interactive: true}) // a WebSocket
				if err != nil {
					t.Fatal(err)
				}
				if err := session.Write(t.Context(), []byte("hello\n")); err != nil {
					t.Error(err)
				}
				if res, err := session.Wait(t.Context()); err != nil || !strings.Contains(string(res.Stdout), "got hello") {
					t.Errorf("session: %q, %v", res.Stdout, err)
				}
				if res, err := ws.Shell.Run(t.Context(), driver.Command{Argv: []string{"cat", via}}); err != nil || string(res.Stdout) != content {
					t.Errorf("run: %q, %v", res.Stdout, err)
				}
			})
		}
	}
	t.Run("E2B", func(t *testing.T) { f := *f; f.t = t; f.checkE2B() })
	t.Run("MCP", func(t *testing.T) { f := *f; f.t = t; f.checkMCP() })
	t.Run("forged header", func(t *testing.T) {
		for _, header := range []string{"x", fmt.Sprintf("%d a 10.0.0.1:5 %064x", time.Now().Unix(), 1)} {
			if status, text := f.try("GET", f.replicas["a"], "/v1/workspaces", "", map[string]string{"Croft-Forwarded": header}); status != 401 {
				t.Errorf("%q: %d %s; want 401", header, status, text)
			}
		}
	})
	// The owner's audit event has the address of the client, not of the replica in between.
	a, b := f.replicas["a"], f.replicas["b"]
	f.do("DELETE", b, "/v1/workspaces/"+ids["a"], "", nil)
	events, err := os.ReadFile(filepath.Join(f.dir, "a", "data", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(events)) {
		found = found || strings.Contains(line, ids["a"]) && strings.Contains(line, `"DELETE"`) && strings.Contains(line, clientAddr)
	}
	if !found {
		t.Errorf("no audit event of the DELETE with the address %s", clientAddr)
	}
	if status, text := f.try("GET", a, "/v1/workspaces/"+ids["a"], "", nil); status != 404 {
		t.Errorf("a destroyed workspace: %d %s", status, text)
	}
	if got := f.do("GET", b, "/metrics", "", nil); !strings.Contains(got, "croft_replica_forwarded_total{") {
		t.Error("no metric croft_replica_forwarded_total")
	}
}

// checkE2B is what an SDK sends, each request at another replica.
func (f *fleet) checkE2B() {
	t, a, b, c := f.t, f.replicas["a"], f.replicas["b"], f.replicas["c"]
	var box struct{ SandboxID, EnvdAccessToken string }
	if err := json.Unmarshal([]byte(f.do("POST", a, "/sandboxes", `{"templateID": "base", "timeout": 120}`, nil)), &box); err != nil {
		t.Fatal(err)
	}
	if got := f.do("GET", b, "/sandboxes/"+box.SandboxID, "", nil); !strings.Contains(got, box.SandboxID) {
		t.Errorf("get: %s", got)
	}
	f.do("POST", c, "/sandboxes/"+box.SandboxID+"/timeout", `{"timeout": 300}`, nil)
	byHeader := map[string]string{"E2b-Sandbox-Id": box.SandboxID, "E2b-Sandbox-Port": "49983", "X-Access-Token": box.EnvdAccessToken, "Content-Type": "application/octet-stream"}
	f.do("POST", b, "/files?path=note", "from b", byHeader)
	if got := f.do("GET", c, "/files?path=note", "", byHeader); got != "from b" {
		t.Errorf("by header: %q", got)
	}
	_, port, _ := net.SplitHostPort(c.addr)
	byHost := map[string]string{"Host": "49983-" + box.SandboxID + ".localhost:" + port, "X-Access-Token": box.EnvdAccessToken}
	if got := f.do("GET", c, "/files?path=note", "", byHost); got != "from b" {
		t.Errorf("by host name: %q", got)
	}
	byHeader["X-Access-Token"] = "wrong"
	if status, _ := f.try("GET", c, "/files?path=note", "", byHeader); status != 401 {
		t.Errorf("with another token: %d, want 401", status)
	}
	f.do("DELETE", c, "/sandboxes/"+box.SandboxID, "", nil)
	if status, _ := f.try("GET", a, "/sandboxes/"+box.SandboxID, "", nil); status != 404 {
		t.Errorf("a killed sandbox: %d", status)
	}
}

// checkMCP begins sessions at one replica and continues them at others.
func (f *fleet) checkMCP() {
	t, a, b, c := f.t, f.replicas["a"], f.replicas["b"], f.replicas["c"]
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	accept := func(session string) map[string]string {
		h := map[string]string{"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
		if session != "" {
			h["Mcp-Session-Id"] = session
		}
		return h
	}
	for _, path := range []string{"/mcp", "/mcp?workspace=on-b"} {
		status, text, header := f.send("POST", a, path, begin, accept(""))
		session := header.Get("Mcp-Session-Id")
		if status != 200 || session == "" {
			t.Fatalf("%s: initialize: %d %s", path, status, text)
		}
		f.do("POST", b, path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, accept(session))
		if got := f.do("POST", c, path, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, accept(session)); !strings.Contains(got, `"Read"`) && !strings.Contains(got, `"read`) {
			t.Errorf("%s: tools: %.300s", path, got)
		}
	}
}

func TestAReplicaIsKilledUnderLoad(t *testing.T) {
	f := newFleet(t, testenv.NeedsPostgres(t), "a", "b", "c")
	a := f.replicas["a"]
	bound := f.open(a, testshell.Kind, "bound")
	f.do("PUT", f.replicas["b"], filePath(bound, "kept"), "kept", nil)

	// Load: numbered files through b and c, which forward to a, in each of its portable workspaces.
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[string][]string{}   // id -> files
	killed := time.Time{}            // when a was dead
	served := map[string]time.Time{} // id -> first answer to a request that began after that
	var ids []string
	for i := range 5 {
		id := f.open(a, sharedKind, fmt.Sprintf("portable-%d", i))
		ids = append(ids, id)
		for _, via := range []string{"b", "c"} {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					name, began := fmt.Sprintf("%s-%d", via, i), time.Now()
					if status, _ := f.try("PUT", f.replicas[via], filePath(id, name), name, nil); status < 200 || status > 299 {
						time.Sleep(20 * time.Millisecond) // of a client that tries again
						continue
					}
					mu.Lock()
					acked[id] = append(acked[id], name)
					if _, ok := served[id]; !ok && !killed.IsZero() && began.After(killed) {
						served[id] = time.Now()
					}
					mu.Unlock()
				}
			})
		}
	}
	locked := func(f func() bool) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return f() }
	}
	waitFor(t, "writes before the death", locked(func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return len(acked[id]) < 10 })
	}))
	from := time.Now()
	a.kill()
	mu.Lock()
	killed = time.Now()
	mu.Unlock()
	waitFor(t, "writes after the death", locked(func() bool { return len(served) == len(ids) }))
	stop()
	wg.Wait()
	for _, id := range ids {
		took := served[id].Sub(from)
		t.Logf("another replica served a portable workspace %s after kill -9", took.Round(time.Millisecond))
		if took > 15*time.Second {
			t.Errorf("it took %s; want at most 15 s", took)
		}
		for _, name := range acked[id] {
			if got := f.do("GET", f.replicas["c"], filePath(id, name), "", nil); got != name {
				t.Errorf("the acknowledged file %s is %q", name, got)
			}
		}
	}
	for _, via := range []string{"b", "c"} {
		for _, call := range [][2]string{{"GET", filePath(bound, "kept")}, {"DELETE", "/v1/workspaces/" + bound}} {
			status, text := f.try(call[0], f.replicas[via], call[1], "", nil)
			if status != 503 || !strings.Contains(text, "node a") || !strings.Contains(text, "lost since") {
				t.Errorf("%s of a workspace on the lost host, at %s: %d %s", call[0], via, status, text)
			}
		}
		if status, text := f.try("GET", f.replicas[via], "/v1/workspaces/"+bound, "", nil); status != 200 {
			t.Errorf("its record: %d %s", status, text)
		}
	}
	f.start("a")
	for _, via := range []string{"a", "b", "c"} {
		if got := f.do("GET", f.replicas[via], filePath(bound, "kept"), "", nil); got != "kept" {
			t.Errorf("when the node is back, at %s: %q", via, got)
		}
	}
}

func TestPostgresRestartsUnderReplicas(t *testing.T) {
	pg := testenv.NeedsPostgres(t)
	f := newFleet(t, pg, "a", "b")
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[string]string{} // name -> id
	for _, via := range []string{"a", "b"} {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("%s-%d", via, i)
				var ws struct{ ID string }
				status, text := f.try("POST", f.replicas[via], "/v1/workspaces", fmt.Sprintf(`{"kind": %q, "name": %q}`, sharedKind, name), nil)
				if status < 200 || status > 299 || json.Unmarshal([]byte(text), &ws) != nil {
					time.Sleep(20 * time.Millisecond) // of a client that tries again
					continue
				}
				if status, _ := f.try("PUT", f.replicas[via], filePath(ws.ID, "f"), name, nil); status >= 200 && status < 300 {
					mu.Lock()
					acked[name] = ws.ID
					mu.Unlock()
				}
			}
		})
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(acked) }
	waitFor(t, "workspaces before the restart", func() bool { return count() > 5 })
	pg.Restart(t)
	before := count()
	waitFor(t, "workspaces after the restart", func() bool { return count() > before+5 })
	stop()
	wg.Wait()
	for name, id := range acked {
		if got := f.do("GET", f.replicas["b"], filePath(id, "f"), "", nil); got != name {
			t.Errorf("the acknowledged file of %s is %q", name, got)
		}
	}
}

// BenchmarkReplicas reads a small file of workspaces of provider memory, through one, two and
// three replicas in turn, as a load balancer does: of two replicas half of the requests are
// forwarded, of three two thirds.
func BenchmarkReplicas(b *testing.B) {
	pg := testenv.NeedsPostgres(b)
	for n := 1; n <= 3; n++ {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			nodes := []string{"a", "b", "c"}[:n]
			f := newFleet(b, pg, nodes...)
			f.http.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
			var ids []string
			for i := range 12 {
				at := f.replicas[nodes[i%n]]
				id := f.open(at, "memory", fmt.Sprintf("w%d", i))
				f.do("PUT", at, filePath(id, "f"), strings.Repeat("x", 1024), nil)
				ids = append(ids, id)
			}
			var next atomic.Int64
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := int(next.Add(1))
					if status, text := f.try("GET", f.replicas[nodes[i%n]], filePath(ids[i/n%len(ids)], "f"), "", nil); status != 200 {
						b.Errorf("%d %s", status, text)
						return
					}
				}
			})
		})
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for till := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(till) {
			t.Fatalf("no %s", what)
		}
	}
}
