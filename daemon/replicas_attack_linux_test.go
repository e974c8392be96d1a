package daemon_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/provider/filestore"
)

// key makes an API key of a tenant, and returns the header with it.
func (f *fleet) key(tenant, scope string) map[string]string {
	f.t.Helper()
	var key struct{ Key string }
	text := f.do("POST", f.replicas["a"], "/v1/keys", fmt.Sprintf(`{"tenant": %q, "scope": %q}`, tenant, scope), nil)
	if err := json.Unmarshal([]byte(text), &key); err != nil || key.Key == "" {
		f.t.Fatalf("%s, %v", text, err)
	}
	return map[string]string{"Authorization": "Bearer " + key.Key}
}

// openAs is open with a key.
func (f *fleet) openAs(at *replicaProcess, as map[string]string, name string) string {
	f.t.Helper()
	var ws struct{ ID string }
	text := f.do("POST", at, "/v1/workspaces", fmt.Sprintf(`{"kind": %q, "name": %q}`, testshell.Kind, name), as)
	if err := json.Unmarshal([]byte(text), &ws); err != nil {
		f.t.Fatal(err)
	}
	return ws.ID
}

// TestRightsHoldThroughAForward: a forwarded request has the rights of its key, and no more.
func TestRightsHoldThroughAForward(t *testing.T) {
	f := newFleet(t, testenv.NeedsPostgres(t), "a", "b")
	a, b := f.replicas["a"], f.replicas["b"]
	red, reader, blue := f.key("red", "run"), f.key("red", "read"), f.key("blue", "run")
	id, other := f.openAs(b, red, "mine"), f.openAs(b, red, "other")
	f.do("PUT", a, filePath(id, "x"), "content", red)
	check := func(what, method, path, body string, as map[string]string, want int) {
		t.Helper()
		status, text := f.try(method, a, path, body, as)
		if status != want {
			t.Errorf("%s: %s %s: %d %s; want %d", what, method, path, status, text, want)
		}
		if strings.Contains(text, b.addr) || strings.Contains(text, "s3cret") {
			t.Errorf("%s: the answer says too much: %s", what, text)
		}
	}
	const exec = `{"argv": ["cat", "x"]}`
	check("another tenant", "GET", filePath(id, "x"), "", blue, 404)
	check("another tenant", "POST", "/v1/workspaces/"+id+"/exec", exec, blue, 404)
	check("another tenant", "DELETE", "/v1/workspaces/"+id, "", blue, 404)
	check("another tenant", "GET", "/sandboxes/"+id, "", blue, 404)
	check("another tenant", "POST", "/v1/workspaces", fmt.Sprintf(`{"id": %q, "kind": %q}`, id, testshell.Kind), blue, 409)
	check("a key to read", "GET", filePath(id, "x"), "", reader, 200)
	check("a key to read", "PUT", filePath(id, "x"), "changed", reader, 403)
	check("a key to read", "POST", "/v1/workspaces/"+id+"/exec", exec, reader, 403)
	var share struct{ Text string }
	if err := json.Unmarshal([]byte(f.do("POST", a, "/v1/workspaces/"+id+"/shares", `{}`, red)), &share); err != nil {
		t.Fatal(err)
	}
	shared := map[string]string{"Authorization": "Bearer " + share.Text}
	check("a share link", "GET", filePath(id, "x"), "", shared, 200)
	check("a share link", "PUT", filePath(id, "x"), "changed", shared, 403)
	check("a share link", "POST", "/v1/workspaces/"+id+"/exec", exec, shared, 403)
	check("a share link", "GET", filePath(other, "x"), "", shared, 404)
	if got := f.do("GET", a, filePath(id, "x"), "", red); got != "content" {
		t.Errorf("the file holds %q", got)
	}

	// While the owner hangs, others still don't learn that the workspace exists.
	if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	check("another tenant, a hung owner", "GET", filePath(id, "x"), "", blue, 404)
	check("another tenant, a hung owner", "GET", "/sandboxes/"+id, "", blue, 404)
	check("a hung owner", "GET", filePath(id, "x"), "", red, 503)
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("a hung owner: answered after %v", took)
	}
	b.kill()
	check("a killed owner", "GET", filePath(id, "x"), "", red, 503)
	check("another tenant, a killed owner", "GET", filePath(id, "x"), "", blue, 404)
	for _, r := range f.replicas {
		events, err := os.ReadFile(filepath.Join(f.dir, r.node, "data", "events.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.log.String()+string(events), "s3cret") {
			t.Errorf("node %s: the secret is in the log or in an event", r.node)
		}
	}
}

// refused starts a replica that must end by itself, and returns what it said.
func (f *fleet) refused(node, dir string, env ...string) string {
	f.t.Helper()
	addr, err := testenv.Loopback()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := f.command(&replicaProcess{node: node, addr: addr, url: "http://" + addr}, dir, env...)
	timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() < 0 {
		f.t.Errorf("node %s with %v: %v; want an error:\n%s", node, env, err, out)
	}
	return string(out)
}

// TestReplicasThatDoNotFitAreRefused: by name, by rights in the store, or by secret. The errors say
// what is wrong, and have no password.
func TestReplicasThatDoNotFitAreRefused(t *testing.T) {
	pg := testenv.NeedsPostgres(t)
	f := newFleet(t, pg, "a", "b")
	a, b := f.replicas["a"], f.replicas["b"]
	id := f.open(b, filestore.Kind, "on-b")
	f.do("PUT", b, filePath(id, "kept"), "kept", nil)
	check := func(what, text, want string) {
		t.Helper()
		if !strings.Contains(text, want) || strings.Contains(text, "pa55word") || strings.Contains(text, "s3cret") {
			t.Errorf("%s: want %q, and no secret:\n%s", what, want, text)
		}
	}
	check("the name of another", f.refused("b", filepath.Join(f.dir, "other")), "another data directory has this name")

	db, err := sql.Open("pgx", f.store)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		`CREATE ROLE nothing LOGIN`, `CREATE ROLE plain LOGIN`, `CREATE ROLE reader LOGIN`,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain, reader`,
		`ALTER ROLE reader SET default_transaction_read_only = on`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	as := func(store, user string) string {
		u, err := url.Parse(store)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("user", user)
		q.Set("password", "pa55word")
		u.RawQuery = q.Encode()
		return "CROFT_STORE=" + u.String()
	}
	check("no rights", f.refused("n", filepath.Join(f.dir, "n"), as(f.store, "nothing")), "permission denied")
	check("no rights in an empty store", f.refused("n", filepath.Join(f.dir, "n"), as(pg.Database(t), "plain")), "permission denied")
	check("a store that is read-only", f.refused("n", filepath.Join(f.dir, "n"), as(f.store, "reader")), "read-only")
	check("no store", f.refused("n", filepath.Join(f.dir, "n"), "CROFT_STORE=postgres://u:pa55word@127.0.0.1:1/x"), "connection refused")
	f.start("plain", as(f.store, "plain")) // the store is migrated, so it creates nothing

	// A replica whose secret differs answers 503, not 401: the key of the client is right.
	if err := os.WriteFile(filepath.Join(f.dir, "another"), []byte(strings.Repeat("another s3cret", 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := f.start("c", "CROFT_CLUSTER_SECRET_FILE="+filepath.Join(f.dir, "another"))
	status, text := f.try("GET", c, filePath(id, "kept"), "", nil)
	if status != 503 {
		t.Errorf("another secret: %d", status)
	}
	check("another secret", text, "node b refuses requests of node c")
	waitFor(t, "the reason in the log", func() bool { return strings.Contains(c.log.String(), "not made by a replica") })
	check("another secret, in the log", c.log.String(), "was not made by a replica of this cluster")
	check("another secret, in the log of warnings", c.log.String(), `level=WARN msg="a request was not forwarded"`)

	// The name of a lost node is for its data directory: workspaces that are not in it would fail.
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-b.ended
	check("the name of a lost node", f.refused("b", filepath.Join(f.dir, "other")), "DELETE /v1/replicas/b")
	f.start("b")
	if got := f.do("GET", a, filePath(id, "kept"), "", nil); got != "kept" {
		t.Errorf("read %q", got)
	}
}

// TestAForwardedAnswerIsTheSame as that of the owner, with its headers, whatever was asked.
//
//croft:race
func TestAForwardedAnswerIsTheSame(t *testing.T) {
	f := newFleet(t, testenv.NeedsPostgres(t), "a", "b")
	a, b := f.replicas["a"], f.replicas["b"]
	id := f.open(b, testshell.Kind, "on-b")
	f.do("PUT", b, filePath(id, "x"), "content", nil)
	at := "/v1/workspaces/" + id
	for _, tt := range []struct {
		method, path, body string
		header             map[string]string
	}{
		{"GET", filePath(id, "x"), "", nil},
		{"HEAD", filePath(id, "x"), "", nil},
		{"GET", filePath(id, "x"), "", map[string]string{"Range": "bytes=1-3"}},
		{"GET", filePath(id, "none"), "", nil},
		{"GET", at + "/files/?path=x", "", nil},
		{"GET", at + "%2Ffiles?path=x", "", nil},
		{"GET", at + "/../" + id + "/files?path=x", "", nil},
		{"GET", "/v1/workspaces/on-b/files?path=x", "", nil},
		{"GET", "/v1/workspaces/on-b/files?path=x&owner=nobody", "", nil},
		{"PATCH", filePath(id, "x"), "", nil},
		{"POST", at + "/exec", `{"argv": ["cat", "x"]}`, nil},
		{"POST", at + "/exec", `{"argv": `, nil},
		{"POST", at + "/exec", `{"argv": ["cat"], "env": {"x": "` + strings.Repeat("x", 20<<20) + `"}}`, nil},
		{"POST", at + "/exec", `{"argv": ["cat", "x"]}`, map[string]string{"Authorization": "Bearer wrong"}},
		{"POST", at + "/exec", `{"argv": ["cat", "x"]}`, map[string]string{"Origin": "http://other.example"}},
		{"POST", at + "/exec", `{"argv": ["cat", "x"]}`, map[string]string{"Host": "other.example"}},
		{"POST", at + "/exec", `{"argv": ["cat", "x"]}`, map[string]string{"Upgrade": "strange", "Connection": "Upgrade"}},
		{"POST", at + "/exec", `{"argv": ["cat", "x"]}`, map[string]string{"Accept-Encoding": "gzip"}},
		{"GET", at + "/exec", "", nil},
		{"GET", "/sandboxes/" + id, "", nil},
		{"GET", "/files?path=x", "", map[string]string{"E2b-Sandbox-Id": id, "E2b-Sandbox-Port": "49983"}},
		{"GET", "/x", "", map[string]string{"E2b-Sandbox-Id": id, "E2b-Sandbox-Port": "8080"}},
	} {
		var answers []string
		for _, via := range []*replicaProcess{b, a} {
			status, text, header := f.send(tt.method, via, tt.path, tt.body, tt.header)
			if len(header["X-Request-Id"]) != 1 {
				t.Errorf("%s %s: request ids %q", tt.method, tt.path, header["X-Request-Id"])
			}
			for _, name := range []string{"Date", "X-Request-Id", "Connection", "Content-Length"} {
				header.Del(name)
			}
			if i := strings.Index(text, `"duration`); i >= 0 {
				text = text[:i]
			}
			answers = append(answers, fmt.Sprintf("%d %.600s\n%v", status, text, header))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s %s %.60s %v: the owner answers\n%s\nand through another\n%s", tt.method, tt.path, tt.body, tt.header, answers[0], answers[1])
		}
	}
}

// TestAReplicaThatWasStopped for longer than its lease does not use what others own by then.
func TestAReplicaThatWasStopped(t *testing.T) {
	f := newFleet(t, testenv.NeedsPostgres(t), "a", "b")
	a, b := f.replicas["a"], f.replicas["b"]
	id := f.open(b, sharedKind, "moves")
	f.do("PUT", b, filePath(id, "x"), "of b", nil)
	if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "replica that is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
	waitFor(t, "replica that takes the workspace over", func() bool {
		status, _ := f.try("PUT", a, filePath(id, "x"), "of a", nil)
		return status >= 200 && status < 300
	})
	if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	node := func(via *replicaProcess) string {
		t.Helper()
		var ws struct{ Node string }
		if err := json.Unmarshal([]byte(f.do("GET", via, "/v1/workspaces/"+id, "", nil)), &ws); err != nil {
			t.Fatal(err)
		}
		return ws.Node
	}
	forwarded := func() bool { return strings.Contains(b.log.String(), "forwarded=a") }
	for range 50 {
		if got := f.do("GET", b, filePath(id, "x"), "", nil); got != "of a" {
			t.Fatalf("b, which was stopped, reads %q", got)
		}
	}
	if node(a) != "a" {
		t.Errorf("the workspace is on node %s", node(a))
	}
	waitFor(t, "note of a forward in the log", forwarded)
	f.do("PUT", b, filePath(id, "x"), "through b", nil)
	if got := f.do("GET", a, filePath(id, "x"), "", nil); got != "through b" {
		t.Errorf("a reads %q", got)
	}
}
