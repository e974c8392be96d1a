package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/wrap/pool"
	"github.com/croft-run/croft/workspace/driver"
)

func settings(t testing.TB, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newClient(t *testing.T, sys *app.System, url string) *client.Client {
	t.Helper()
	c, err := client.NewClient(client.Config{URL: url, Token: sys.Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestProviderByNeed proves that auto is the first provider that gives what is
// asked for, and says of each why it does not where none does.
func TestProviderByNeed(t *testing.T) {
	cfg := settings(t, "version: 1\nserver: {providers: [memory, filestore, files, local]}\ndefaults: {provider: auto, prefer: [memory, filestore, files, local]}\nproviders: {files: {kind: local}}\n")
	sys, url := serveWith(t, app.Config{DataDir: t.TempDir(), Settings: cfg})
	c := newClient(t, sys, url)
	dir := t.TempDir()
	for _, test := range []struct {
		name string
		spec driver.Spec
		want string
	}{
		{"nothing", driver.Spec{}, "memory"},
		{"by its name", driver.Spec{Kind: "auto"}, "memory"},
		{"what outlives the process", driver.Spec{Policy: driver.Policy{Persist: true}}, "filestore"},
		{"a shell", driver.Spec{Want: driver.NewCapabilities(driver.CapShell)}, "local"},
		{"code", driver.Spec{Want: driver.NewCapabilities(driver.CapCode)}, "local"},
		{"a directory", driver.Spec{Dir: dir}, "local"},
		{"another, by its name", driver.Spec{Kind: "local"}, "local"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ws, err := c.Create(t.Context(), test.spec)
			if err != nil {
				t.Fatal(err)
			}
			if ws.Kind != test.want {
				t.Errorf("got %s, want %s", ws.Kind, test.want)
			}
		})
	}
	_, err := c.Create(t.Context(), driver.Spec{Policy: driver.Policy{Isolation: driver.IsolationVM}})
	if fault.Of(err) != fault.Unsupported {
		t.Errorf("a virtual machine: %v, want Unsupported", err)
	}
	for _, kind := range []string{"memory:", "filestore:", "files:", "local:"} {
		if !strings.Contains(err.Error(), kind) {
			t.Errorf("the error does not say why %s was not chosen: %v", kind, err)
		}
	}
}

// TestDecoratorsOfTheConfiguration proves that croft.yaml puts a pool, bounds and
// a record around a provider.
func TestDecoratorsOfTheConfiguration(t *testing.T) {
	cfg := settings(t, `
version: 1
server: {providers: [local]}
providers:
  local: {pool: {size: 1}, limit: {workspaces: 3}, retry: {retries: 2}, record: calls.jsonl}
`)
	dir := t.TempDir()
	sys, url := serveWith(t, app.Config{DataDir: dir, Settings: cfg})
	c := newClient(t, sys, url)
	p, err := sys.Mux.Provider("local")
	if err != nil {
		t.Fatal(err)
	}
	pooled, ok := driver.Find[*pool.Provider](p)
	if !ok {
		t.Fatal("there is no pool")
	}
	open := func() (string, error) {
		ws, err := c.Create(t.Context(), driver.Spec{Kind: "local"})
		if err != nil {
			return "", err
		}
		_, _, err = c.Attach(t.Context(), ws.ID)
		return ws.ID, err
	}
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sys.Registry.Lookup(t.Context(), "", first)
	if err != nil {
		t.Fatal(err)
	}
	spec := rec.Spec
	for pooled.Warm(spec) == 0 {
		time.Sleep(time.Millisecond)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "pool", "local"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("marks: %v, %v, want one", entries, err)
	}
	if second, err := open(); err != nil || second != entries[0].Name() {
		t.Errorf("the second is %s, %v, want %s, which was warm", second, err, entries[0].Name())
	}
	if _, err := open(); err != nil {
		t.Error(err)
	}
	if _, err := open(); fault.Of(err) != fault.ResourceExhausted {
		t.Errorf("the fourth of three: %v, want ResourceExhausted", err)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "calls.jsonl"))
	if err != nil || bytes.Count(lines, []byte(`"verb":"open"`)) < 4 {
		t.Errorf("the record is %s, %v; want the four that were asked for", lines, err)
	}
}
