package app_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// serve opens a data directory and serves it on a real listener until the test
// ends, as croft up does.
func serve(t testing.TB, dir string) (sys *app.System, url string) {
	t.Helper()
	return serveWith(t, app.Config{DataDir: dir, Settings: offerAll()})
}

// offerAll is the default configuration of a server that offers every provider.
func offerAll() *config.Config {
	c := config.Default()
	c.Server.Providers = []string{"memory", "local", "filestore", "sandbox", "docker"}
	return c
}

func serveWith(t testing.TB, cfg app.Config) (sys *app.System, url string) {
	t.Helper()
	sys, err := app.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := app.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- sys.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := sys.Close(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return sys, "http://" + l.Addr().String()
}

// harness is the suite over client over HTTP over a provider of the
// given kind.
func harness(kind string) workspacetest.Harness {
	return workspacetest.Harness{
		Provider: func(t testing.TB, dir string) driver.Provider {
			sys, url := serve(t, filepath.Join(dir, "data"))
			p, err := client.New(client.Config{URL: url, Token: sys.Token, Client: "suite", Kind: kind})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Client.Close)
			return p
		},
		Leftovers: leftovers,
	}
}

// leftovers lists the records and directories that are there.
func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	dir = filepath.Join(dir, "data")
	sys, err := app.Open(t.Context(), app.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(t.Context())
	list, err := sys.Registry.List(t.Context(), registry.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, r := range list {
		left = append(left, "record "+r.ID)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "ws"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".lock") {
			left = append(left, "directory "+e.Name())
		}
	}
	return left
}

//croft:slow
//croft:slow-race ^(Concurrency|Shell|Sessions|Watch)
func TestRemoteOverLocal(t *testing.T) { workspacetest.Run(t, harness("local")) }

//
//croft:slow-race ^(Concurrency|Shell|Sessions|Watch)
//croft:slow
func TestRemoteOverMemory(t *testing.T) { workspacetest.Run(t, harness("memory")) }

//croft:slow
//croft:slow-race ^(Concurrency|Shell|Sessions|Watch)
func TestRemoteOverFilestore(t *testing.T) { workspacetest.Run(t, harness("filestore")) }
