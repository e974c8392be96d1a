package e2b_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/e2b"
	"github.com/croft-run/croft/workspace/driver"
)

func open(t testing.TB, p *e2b.Provider) *driver.Workspace {
	t.Helper()
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: e2b.Kind})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Life.Destroy(context.WithoutCancel(t.Context())) })
	return ws
}

func write(t testing.TB, ws *driver.Workspace, name, text string) {
	t.Helper()
	if _, err := ws.FS.Write(t.Context(), name, strings.NewReader(text), &driver.WriteOptions{}); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
}

func read(t testing.TB, ws *driver.Workspace, name string) string {
	t.Helper()
	body, _, err := ws.FS.Read(t.Context(), name, &driver.ReadOptions{})
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return string(data)
}

// call makes a request to the API about the one sandbox of a data directory.
func call(t testing.TB, dir, method, action string) {
	t.Helper()
	server, key := os.Getenv(serverVar), os.Getenv(keyVar)
	ids, err := e2b.SandboxesOf(t.Context(), server, key, filepath.Join(dir, "ws"))
	if err != nil || len(ids) != 1 {
		t.Fatalf("sandboxes %v, %v; want one", ids, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, server+"/sandboxes/"+ids[0]+action, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s: status %d", method, action, resp.StatusCode)
	}
}

// TestKeyIsStoredNowhere: neither the ref nor a file on this host has it.
func TestKeyIsStoredNowhere(t *testing.T) {
	dir, key := t.TempDir(), os.Getenv(keyVar)
	ws := open(t, newProvider(t, dir))
	if key == "" || bytes.Contains(ws.Ref.Payload, []byte(key)) {
		t.Errorf("the ref is %s", ws.Ref.Payload)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(key)) {
			t.Errorf("%s has the API key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWrongKey(t *testing.T) {
	const wrong = "e2b_0123456789abcdef"
	p := newProvider(t, t.TempDir(), func(c *e2b.Config) { c.Secrets = keys{wrong} })
	_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: e2b.Kind})
	if code := fault.Of(err); code != fault.Unauthenticated && code != fault.PermissionDenied || fault.IsTransient(err) || strings.Contains(err.Error(), wrong) {
		t.Errorf("got %v, want %v for good, without the key", err, fault.Unauthenticated)
	}
	p = newProvider(t, t.TempDir(), func(c *e2b.Config) { c.Options.Key = "no_such_secret" })
	if _, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: e2b.Kind}); err == nil || !strings.Contains(err.Error(), "no_such_secret") {
		t.Errorf("got %v, want an error that names the secret", err)
	}
	if err := p.Sweep(t.Context(), nil); err != nil { // nothing was recorded that only the key can remove
		t.Errorf("Sweep: %v", err)
	}
}

func TestServerIsDown(t *testing.T) {
	p := newProvider(t, t.TempDir(), func(c *e2b.Config) { c.Options.Server = "http://127.0.0.1:1" })
	_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: e2b.Kind})
	if fault.Of(err) != fault.Failed || !fault.IsTransient(err) || !strings.Contains(err.Error(), "not reachable") {
		t.Errorf("got %v, want a transient %v", err, fault.Failed)
	}
}

// TestPausedSandboxIsResumed by the next process that opens the workspace.
func TestPausedSandboxIsResumed(t *testing.T) {
	dir := t.TempDir()
	ws := open(t, newProvider(t, dir))
	write(t, ws, "kept", "acknowledged")
	call(t, dir, http.MethodPost, "/pause")
	again, err := newProvider(t, dir).Resolve(t.Context(), ws.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Life.Close(t.Context())
	if got := read(t, again, "kept"); got != "acknowledged" {
		t.Errorf("the file holds %q", got)
	}
}

// TestSandboxIsDestroyed by others: the files are gone, and no empty ones come instead.
func TestSandboxIsDestroyed(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, dir)
	ws := open(t, p)
	write(t, ws, "kept", "acknowledged")
	call(t, dir, http.MethodDelete, "")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := ws.FS.Stat(t.Context(), "kept", &driver.StatOptions{})
		if fault.Of(err) == fault.Evicted {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the last call returns %v, want %v", err, fault.Evicted)
		}
	}
	if _, err := p.Resolve(t.Context(), ws.Ref); fault.Of(err) != fault.Failed || fault.CauseOf(err) != fault.CauseGone || fault.IsTransient(err) {
		t.Errorf("Resolve returns %v, want %v with the cause %q", err, fault.Failed, fault.CauseGone)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestTwoInstallations with one account have each its own sandboxes, also where workspaces have the
// same id, as after a restore of a backup.
func TestTwoInstallations(t *testing.T) {
	spec := driver.Spec{ID: driver.NewID(), Kind: e2b.Kind}
	dirs := []string{t.TempDir(), t.TempDir()}
	var list []*driver.Workspace
	for _, dir := range dirs {
		ws, err := newProvider(t, dir).Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.Life.Destroy(context.WithoutCancel(t.Context())) })
		write(t, ws, "f", dir)
		list = append(list, ws)
	}
	if got := read(t, list[0], "f"); got != dirs[0] {
		t.Errorf("the file of the first has %q, that of the second", got)
	}
	// The second does not know the workspace any more, and sweeps.
	if err := list[1].Life.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := newProvider(t, dirs[1]).Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dirs[1]); len(left) > 0 {
		t.Errorf("the sweep left %v", left)
	}
	again, err := newProvider(t, dirs[0]).Resolve(t.Context(), list[0].Ref)
	if err != nil {
		t.Fatalf("the workspace of the first, after the second has swept: %v", err)
	}
	defer again.Life.Close(t.Context())
	if got := read(t, again, "f"); got != dirs[0] {
		t.Errorf("the file of the first has %q", got)
	}
}

func TestOptions(t *testing.T) {
	p := newProvider(t, t.TempDir())
	for _, config := range []string{
		`{"server":"ftp://x"}`, `{"server":"https://me:password@x"}`, `{"sandboxes":"x"}`, `{"timeout":1}`, `{"timeout":-1}`, `{"isolation":"strong"}`, `{"from":"x"}`,
	} {
		_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: e2b.Kind, Config: []byte(config)})
		if fault.Of(err) != fault.InvalidArgument || strings.Contains(err.Error(), "password@") {
			t.Errorf("%s: got %v, want %v", config, err, fault.InvalidArgument)
		}
	}
	for what, policy := range map[string]driver.Policy{"isolation": {Isolation: driver.IsolationVM}, "durable": {Durable: true}} {
		if _, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: e2b.Kind, Policy: policy}); fault.Of(err) != fault.Unsupported {
			t.Errorf("%s: got %v, want %v", what, err, fault.Unsupported)
		}
	}
	traits, err := newProvider(t, t.TempDir(), func(c *e2b.Config) { c.Options.Isolation = driver.IsolationVM }).Probe(t.Context())
	if err != nil || traits.Isolation != driver.IsolationVM || !strings.Contains(traits.IsolatedBy.By, "not verified") {
		t.Errorf("with a promised level: %+v, %v", traits, err)
	}
}
