package app_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/server/rest"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
)

func openSystem(t *testing.T, cfg app.Config) *app.System {
	t.Helper()
	if cfg.Settings == nil {
		cfg.Settings = offerAll()
	}
	sys, err := app.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return sys
}

func TestDataDirectoryIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	const n = 8
	tokens := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			sys, err := app.Open(t.Context(), app.Config{DataDir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			tokens[i] = sys.Token
			if err := sys.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, token := range tokens {
		if token != tokens[0] || len(token) < 40 {
			t.Errorf("tokens differ or are short: %q", tokens)
		}
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "token": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%q has mode %o, want %o", name, got, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".new") {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestDefaultDataDir(t *testing.T) {
	for _, tt := range []struct{ data, xdg, home, want string }{
		{"/d", "/x", "/h", "/d"},
		{"", "/x", "/h", "/x/croft"},
		{"", "", "/h", "/h/.local/share/croft"},
		{"", "relative", "/h", "/h/.local/share/croft"},
	} {
		t.Setenv("CROFT_DATA", tt.data)
		t.Setenv("XDG_DATA_HOME", tt.xdg)
		t.Setenv("HOME", tt.home)
		got, err := datadir.Default()
		if err != nil || got != tt.want {
			t.Errorf("%+v: got %q, %v", tt, got, err)
		}
	}
	t.Setenv("HOME", "")
	if _, err := datadir.Default(); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("without HOME: %v", err)
	}
}

func TestCheckAddr(t *testing.T) {
	tests := map[string]struct{ without, with fault.Code }{
		"127.0.0.1:7070":     {"", ""},
		"127.9.9.9:0":        {"", ""},
		"localhost:7070":     {"", ""},
		"[::1]:7070":         {"", ""},
		":7070":              {fault.InvalidArgument, fault.InvalidArgument},
		"7070":               {fault.InvalidArgument, fault.InvalidArgument},
		"127.0.0.1":          {fault.InvalidArgument, fault.InvalidArgument},
		"127.0.0.1:x":        {fault.InvalidArgument, fault.InvalidArgument},
		"127.0.0.1:70700":    {fault.InvalidArgument, fault.InvalidArgument},
		"":                   {fault.InvalidArgument, fault.InvalidArgument},
		"0.0.0.0:7070":       {fault.PermissionDenied, ""},
		"[::]:7070":          {fault.PermissionDenied, ""},
		"192.0.2.1:7070":     {fault.PermissionDenied, ""},
		"croft.example:7070": {fault.PermissionDenied, ""},
	}
	for addr, want := range tests {
		if got := fault.Of(app.CheckAddr(addr, false, true)); got != want.without {
			t.Errorf("%q without a token: %q, want %q", addr, got, want.without)
		}
		if got := fault.Of(app.CheckAddr(addr, true, true)); got != want.with {
			t.Errorf("%q with a token: %q, want %q", addr, got, want.with)
		}
	}
}

func TestTwoProvidersOfOneKind(t *testing.T) {
	_, err := app.Open(t.Context(), app.Config{DataDir: t.TempDir(), Providers: []driver.Provider{new(memory.Provider)}})
	if fault.Of(err) != fault.AlreadyExists || !strings.Contains(err.Error(), `"memory"`) {
		t.Errorf("got %v, want AlreadyExists that names the kind", err)
	}
}

// TestInsideAndOutsideAreOne proves that a client within the process and one on
// the network see the same, and that the types on both sides agree.
//
//croft:slow-race ^(Concurrency|Shell|Sessions|Watch)
func TestInsideAndOutsideAreOne(t *testing.T) {
	sys, url := serve(t, filepath.Join(t.TempDir(), "data"))
	inside, err := sys.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	outside, err := client.NewClient(client.Config{URL: url, Token: sys.Token})
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	ws, err := inside.Create(t.Context(), driver.Spec{Kind: "local", Name: "demo", Labels: map[string]string{"a": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	a, errA := inside.Show(t.Context(), "demo")
	b, errB := outside.Show(t.Context(), ws.ID)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("inside (-) and outside (+) differ:\n%s", diff)
	}
	d, err := outside.Describe(t.Context(), "demo")
	if err != nil || !d.Live || len(d.Holders) != 1 || d.Holders[0].PID != os.Getpid() {
		t.Errorf("Describe: %+v, %v", d, err)
	}
	if v, err := outside.Version(t.Context()); err != nil {
		t.Errorf("Version: %q, %v", v, err)
	}
	if p, err := outside.Profile(t.Context(), "demo"); err != nil || !strings.Contains(string(p), "projects") {
		t.Errorf("Profile: %s, %v", p, err)
	}
}

// TestSweepKnowsItsOwn proves that one client's sweep leaves what others made.
func TestSweepKnowsItsOwn(t *testing.T) {
	sys, url := serve(t, filepath.Join(t.TempDir(), "data"))
	open := func(name string) (*client.Provider, string) {
		p, err := client.New(client.Config{URL: url, Token: sys.Token, Client: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Client.Close)
		id := driver.NewID()
		if _, err := p.Open(t.Context(), driver.Spec{ID: id, Kind: "remote"}); err != nil {
			t.Fatal(err)
		}
		return p, id
	}
	mine, id1 := open("mine")
	_, id2 := open("yours")
	nobody, id3 := open("")
	for _, p := range []*client.Provider{nobody, mine} {
		if err := p.Sweep(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]fault.Code{id1: fault.NotFound, id2: "", id3: ""} {
		if _, err := nobody.Show(t.Context(), id); fault.Of(err) != want {
			t.Errorf("after the sweep %s: %v, want %q", id, err, want)
		}
	}
}

// TestShutdownIsOrdered proves that a request under way ends well, that a watch
// does not hold things up, and that the listener is closed.
//
//croft:slow-race ^(Concurrency|Shell|Sessions|Watch)
func TestShutdownIsOrdered(t *testing.T) {
	sys := openSystem(t, app.Config{DataDir: t.TempDir()})
	l, err := app.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sys.Serve(ctx, l) }()
	url := "http://" + l.Addr().String()
	c, err := client.NewClient(client.Config{URL: url, Token: sys.Token})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ws, err := c.Create(t.Context(), driver.Spec{Kind: "local"})
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := c.Attach(t.Context(), ws.ID)
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := d.FS.Watch(t.Context(), ".", &driver.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()

	body, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		_, err := d.FS.Write(t.Context(), "slow", body, &driver.WriteOptions{})
		wrote <- err
	}()
	// More than all buffers on the way hold, so that the server is reading it.
	w.Write(make([]byte, 16<<20))
	stop()
	for { // the write may show as changes first; the end comes next
		if _, err := watcher.Next(t.Context()); err != nil {
			break
		}
	}
	io.WriteString(w, "and done")
	w.Close()
	if err := <-wrote; err != nil {
		t.Errorf("a write under way: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if res, err := http.Get(url + "/healthz"); err == nil {
		res.Body.Close()
		t.Error("the listener still answers")
	}
}

func TestOneDaemonPerDirectory(t *testing.T) {
	dir := t.TempDir()
	first, second := openSystem(t, app.Config{DataDir: dir}), openSystem(t, app.Config{DataDir: dir})
	unlock, err := first.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Lock(); fault.Of(err) != fault.AlreadyExists {
		t.Errorf("second lock: %v, want AlreadyExists", err)
	}
	unlock()
	unlock, err = second.Lock()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// TestWireTypesAgree holds the client's types against the server's: each keeps
// all that the other says.
func TestWireTypesAgree(t *testing.T) {
	if diff := cmp.Diff(keys(rest.Diagnosis{}), keys(client.Diagnosis{})); diff != "" {
		t.Errorf("server (-) and client (+) differ:\n%s", diff)
	}
}

// TestDiskFull proves that a full disk is a coded error that changes nothing.
func TestDiskFull(t *testing.T) {
	// The databases of a data directory take up to 4 MiB before a file is written.
	dir := testenv.NeedsTmpfs(t, 24<<20)
	sys, url := serve(t, filepath.Join(dir, "data"))
	c, err := client.NewClient(client.Config{URL: url, Token: sys.Token})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, kind := range []string{"local", "filestore"} {
		t.Run(kind, func(t *testing.T) {
			ws, err := c.Create(t.Context(), driver.Spec{Kind: kind})
			if err != nil {
				t.Fatal(err)
			}
			d, _, err := c.Attach(t.Context(), ws.ID)
			if err != nil {
				t.Fatal(err)
			}
			write := func(data []byte) error {
				_, err := d.FS.Write(t.Context(), "f", bytes.NewReader(data), &driver.WriteOptions{})
				return err
			}
			if err := write([]byte("small")); err != nil {
				t.Fatal(err)
			}
			err = write(bytes.Repeat([]byte("x"), 32<<20)) // zeros would be a hole
			if fault.Of(err) != fault.ResourceExhausted {
				t.Errorf("got %v, want ResourceExhausted", err)
			}
			if err != nil && strings.Contains(err.Error(), dir) {
				t.Errorf("the error names a file of the host: %v", err)
			}
			body, _, err := d.FS.Read(t.Context(), "f", &driver.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			if data, err := io.ReadAll(body); err != nil || string(data) != "small" {
				t.Errorf("afterwards the file has %d bytes, %v", len(data), err)
			}
			if err := write([]byte("again")); err != nil {
				t.Errorf("what was not written still takes room: %v", err)
			}
		})
	}
}
