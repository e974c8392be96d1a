package e2b_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/e2b"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// Variables for processes that a test starts: where croft-guest is, and the server with its
// API key.
const (
	guestVar  = "CROFT_TEST_GUEST"
	serverVar = "CROFT_TEST_E2B_SERVER"
	keyVar    = "CROFT_TEST_E2B_KEY"
)

func TestMain(m *testing.M) {
	if os.Getenv(guestVar) != "" {
		os.Exit(m.Run())
	}
	os.Exit(withServer(m))
}

// withServer runs the tests with a guest of this tree, and with a server as croft up has it,
// whose sandboxes are those of provider sandbox.
func withServer(m *testing.M) int {
	dir, err := os.MkdirTemp("", "croft-e2b-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	settings := config.Default()
	sys, err := app.Open(ctx, app.Config{DataDir: filepath.Join(dir, "data"), Settings: settings})
	if err != nil {
		panic(err)
	}
	l, err := app.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	done := make(chan error, 1)
	go func() { done <- sys.Serve(ctx, l) }()
	defer func() {
		stop()
		if err := errors.Join(<-done, sys.Close(context.WithoutCancel(ctx))); err != nil {
			panic(err)
		}
	}()
	os.Setenv(guestVar, testenv.BuildGuest(dir))
	os.Setenv(serverVar, "http://"+l.Addr().String())
	os.Setenv(keyVar, sys.Token)
	return m.Run()
}

// keys are secrets in a test: the API key under its default name.
type keys struct{ key string }

func (k keys) Get(_ context.Context, _, name string) (secret.Value, error) {
	if name != e2b.DefaultKey {
		return secret.Value{}, fs.ErrNotExist
	}
	return secret.NewValue(name, k.key), nil
}

func newProvider(t testing.TB, dir string, mods ...func(*e2b.Config)) *e2b.Provider {
	t.Helper()
	server := os.Getenv(serverVar)
	cfg := &e2b.Config{
		Root: filepath.Join(dir, "ws"), Options: e2b.Options{Server: server, Sandboxes: server}, Secrets: keys{os.Getenv(keyVar)}, Guest: os.Getenv(guestVar), Lease: 2 * time.Minute,
		Snapshots: snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), &snapshot.Options{CacheDir: filepath.Join(dir, "cache")}),
	}
	for _, mod := range mods {
		mod(cfg)
	}
	p, err := e2b.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leftovers lists what is left of workspaces below dir: on this host, and on the server.
func leftovers(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "ws"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != wsdir.LockName(e2b.Kind) {
			names = append(names, e.Name())
		}
	}
	ids, err := e2b.SandboxesOf(t.Context(), os.Getenv(serverVar), os.Getenv(keyVar), filepath.Join(dir, "ws"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		names = append(names, "sandbox "+id)
	}
	return names
}

// TestConformanceServer runs the whole suite through a server of this tree, for some minutes.
//
//croft:slow
func TestConformanceServer(t *testing.T) {
	workspacetest.Run(t, workspacetest.Harness{
		Provider:  func(t testing.TB, dir string) driver.Provider { return newProvider(t, dir) },
		Leftovers: leftovers,
		Secrets:   []string{os.Getenv(keyVar)},
	})
}
