package app_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/registry"
)

// TestWhatOthersMadeIsRefused: one who owns a file of the data directory knows
// the token in it, or sends the data elsewhere.
func TestWhatOthersMadeIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: host: it lacks the right to give files away (run as root)")
	}
	for _, name := range []string{"", "token", "version"} {
		dir := t.TempDir()
		ready(t, dir)
		if err := os.Chown(filepath.Join(dir, name), 4242, 4242); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, dir, "user 4242")
	}
}

func TestSymlinksAreRefused(t *testing.T) {
	for _, name := range []string{"token", "version"} {
		dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
		ready(t, dir)
		if err := os.Rename(filepath.Join(dir, name), elsewhere); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, dir, "symlink")
	}
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, link, "symlink")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("there is %v, %v; want nothing", entries, err)
	}
}

// ready makes a data directory.
func ready(t *testing.T, dir string) {
	t.Helper()
	sys, err := app.Open(t.Context(), app.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := sys.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantRefused(t *testing.T, dir, why string) {
	t.Helper()
	sys, err := app.Open(t.Context(), app.Config{DataDir: dir})
	if err == nil {
		sys.Close(t.Context())
	}
	if fault.Of(err) != fault.PermissionDenied || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v, want PermissionDenied for %q", dir, err, why)
	}
}

func TestBlankTokenIsRefused(t *testing.T) {
	_, err := app.Open(t.Context(), app.Config{DataDir: t.TempDir(), Token: " \t"})
	if fault.Of(err) != fault.InvalidArgument {
		t.Errorf("got %v, want InvalidArgument", err)
	}
}

// TestShortTokenStaysOnLoopback binds every interface with a token that can be
// guessed.
func TestShortTokenStaysOnLoopback(t *testing.T) {
	sys := openSystem(t, app.Config{DataDir: t.TempDir(), Token: "fifteen letters"})
	l, err := app.Listen(t.Context(), "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := sys.Serve(t.Context(), l); fault.Of(err) != fault.InvalidArgument || strings.Contains(err.Error(), "fifteen letters") {
		t.Errorf("got %v, want InvalidArgument that does not tell the token", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

// TestOptionsWantsTheToken: net/http would answer OPTIONS * by itself.
func TestOptionsWantsTheToken(t *testing.T) {
	sys := openSystem(t, app.Config{DataDir: t.TempDir()})
	l, err := app.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- sys.Serve(ctx, l) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d, want 401", res.StatusCode)
	}
}

// TestServesOnAfterALostStore proves that a refused sweep does not keep the
// daemon from serving.
//
//croft:slow-race ^(Concurrency|Shell|Sessions|Watch)
func TestServesOnAfterALostStore(t *testing.T) {
	cfg := app.Config{DataDir: filepath.Join(t.TempDir(), "data")}
	fill(t, cfg)
	removeAll(t, cfg.DataDir, "croft.db*")
	sys := openSystem(t, cfg)
	l, err := app.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- sys.Serve(ctx, l) }()
	res, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("healthz: %v, %v", res, err)
	} else {
		res.Body.Close()
	}
	if recs, err := sys.Registry.List(t.Context(), registry.Filter{}); err != nil || len(recs) != 0 {
		t.Errorf("%d records, %v", len(recs), err)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	dirs, err := os.ReadDir(filepath.Join(cfg.DataDir, "ws"))
	if err != nil || len(dirs) == 0 {
		t.Errorf("the workspaces are gone: %v, %v", dirs, err)
	}
}
