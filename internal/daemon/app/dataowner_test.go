package app_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/provider/filestore"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// fill makes a workspace of each kind that lasts, with a file in it, and returns
// their ids.
func fill(t *testing.T, cfg app.Config) []string {
	t.Helper()
	cfg.Operator = true
	sys, err := app.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, kind := range []string{local.Kind, filestore.Kind} {
		rec, err := sys.Registry.Create(t.Context(), workspace.Spec{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		ws, err := sys.Registry.Acquire(t.Context(), rec.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ws.WriteFile(t.Context(), "precious", []byte("work"), nil); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, rec.ID)
	}
	if err := sys.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ids
}

// wantFiles reads what fill wrote.
func wantFiles(t *testing.T, cfg app.Config, ids []string) {
	t.Helper()
	sys := openSystem(t, cfg)
	for _, id := range ids {
		ws, err := sys.Registry.Acquire(t.Context(), id)
		if err != nil {
			t.Errorf("acquire: %v", err)
			continue
		}
		if got, err := ws.ReadFile(t.Context(), "precious"); err != nil || string(got) != "work" {
			t.Errorf("the file is %q, %v", got, err)
		}
	}
}

// TestALostStoreTakesNoWorkspaceWithIt is what croft up does after croft.db was
// deleted, emptied, or replaced by another store: nothing is removed, and with
// the right store all is there again.
func TestALostStoreTakesNoWorkspaceWithIt(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, cfg *app.Config){
		"deleted": func(t *testing.T, cfg *app.Config) { removeAll(t, cfg.DataDir, "croft.db*") },
		"emptied": func(t *testing.T, cfg *app.Config) {
			removeAll(t, cfg.DataDir, "croft.db-*")
			if err := os.Truncate(filepath.Join(cfg.DataDir, "croft.db"), 0); err != nil {
				t.Fatal(err)
			}
		},
		"another": func(t *testing.T, cfg *app.Config) {
			cfg.StoreURL = "sqlite:" + filepath.Join(t.TempDir(), "other.db")
		},
		"of a version that left no mark": func(t *testing.T, cfg *app.Config) {
			removeAll(t, cfg.DataDir, "croft.db*")
			removeAll(t, cfg.DataDir, "store-id*")
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := app.Config{DataDir: filepath.Join(t.TempDir(), "data")}
			ids := fill(t, cfg)
			saved, err := os.ReadFile(filepath.Join(cfg.DataDir, "croft.db"))
			if err != nil {
				t.Fatal(err)
			}
			mark, err := os.ReadFile(filepath.Join(cfg.DataDir, "store-id"))
			if err != nil {
				t.Fatal(err)
			}
			wrong := cfg
			lose(t, &wrong)
			sweepRefused(t, wrong)
			fill(t, wrong) // who works on nevertheless adds to it
			sweepRefused(t, wrong)

			removeAll(t, cfg.DataDir, "croft.db*")
			if err := os.WriteFile(filepath.Join(cfg.DataDir, "croft.db"), saved, 0o600); err != nil {
				t.Fatal(err)
			}
			sweepRefused(t, cfg)
			wantFiles(t, cfg, ids)

			// Giving up what the other store knows is said by hand.
			if err := os.WriteFile(filepath.Join(cfg.DataDir, "store-id"), mark, 0o600); err != nil {
				t.Fatal(err)
			}
			sys := openSystem(t, cfg)
			if err := sys.Registry.Sweep(t.Context()); err != nil {
				t.Errorf("sweep by the one store: %v", err)
			}
			wantFiles(t, cfg, ids)
		})
	}
}

func removeAll(t *testing.T, dir, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// sweepRefused wants an error that says what to do.
func sweepRefused(t *testing.T, cfg app.Config) {
	t.Helper()
	sys, err := app.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(context.WithoutCancel(t.Context()))
	err = sys.Registry.Sweep(t.Context())
	if fault.Of(err) != fault.WrongState || !strings.Contains(err.Error(), filepath.Join(cfg.DataDir, "store-id")) {
		t.Errorf("sweep: %v, want WrongState that says what to do", err)
	}
}

// A lasting provider is one that Croft does not have by itself, and whose workspaces
// are in a place that Croft does not know.
type lasting struct {
	memory.Provider
	has bool
	err error
}

func (*lasting) Kind() string { return "lasting" }

func (p *lasting) Features() driver.Features {
	return driver.Features{HasWorkspaces: func(context.Context) (bool, error) { return p.has, p.err }}
}

// TestEveryProviderIsAsked: what a provider of another module keeps is not swept by a
// store that does not know it.
func TestEveryProviderIsAsked(t *testing.T) {
	with := func(p *lasting) app.Config {
		return app.Config{DataDir: t.TempDir(), Providers: []driver.Provider{p}}
	}
	sweepRefused(t, with(&lasting{has: true}))
	if err := openSystem(t, with(&lasting{})).Registry.Sweep(t.Context()); err != nil {
		t.Errorf("a provider that has no workspaces: %v", err)
	}
	broken := errors.New("broken")
	if err := openSystem(t, with(&lasting{err: broken})).Registry.Sweep(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a provider that can't tell: %v, want its error", err)
	}
}

// TestAnEmptyDirectoryTakesAnyStore is about a store that is lost with nothing
// to lose.
func TestAnEmptyDirectoryTakesAnyStore(t *testing.T) {
	cfg := app.Config{DataDir: t.TempDir()}
	openSystem(t, cfg)
	cfg.StoreURL = "sqlite:" + filepath.Join(t.TempDir(), "other.db")
	if err := openSystem(t, cfg).Registry.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAnotherDataDirectoryIsRefused is a server or a command on the right store with the data
// directory of another one, or a new one: it would find all files gone, and mark the workspaces failed.
func TestAnotherDataDirectoryIsRefused(t *testing.T) {
	right := app.Config{DataDir: filepath.Join(t.TempDir(), "data"), StoreURL: "sqlite:" + filepath.Join(t.TempDir(), "shared.db")}
	ids := fill(t, right)
	other := t.TempDir()
	fill(t, app.Config{DataDir: other})
	for name, dir := range map[string]string{"new": filepath.Join(t.TempDir(), "new"), "of another store": other} {
		t.Run(name, func(t *testing.T) {
			wrong := right
			wrong.DataDir = dir
			for range 2 { // the first time leaves nothing that lets the second in
				sys, err := app.Open(t.Context(), wrong)
				if err == nil {
					sys.Close(context.WithoutCancel(t.Context()))
				}
				if fault.Of(err) != fault.WrongState || !strings.Contains(err.Error(), "--data") {
					t.Fatalf("open: %v, want WrongState that names --data", err)
				}
			}
			wantFiles(t, right, ids)
		})
	}
	// What is lost for good is given up by hand.
	lost := right
	lost.DataDir = t.TempDir()
	mark, err := os.ReadFile(filepath.Join(right.DataDir, "store-id"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lost.DataDir, "version"), []byte("2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lost.DataDir, "store-id"), mark, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openSystem(t, lost).Registry.Acquire(t.Context(), ids[0]); fault.Of(err) != fault.Failed {
		t.Errorf("acquire in a directory that was given the store: %v, want Failed", err)
	}
}

// TestNoKeyInAStoreThatTheServerDoesNotUse is croft key create on a server's data directory without the
// configuration that names the server's store: nobody would know the key.
func TestNoKeyInAStoreThatTheServerDoesNotUse(t *testing.T) {
	server := app.Config{DataDir: t.TempDir(), StoreURL: "sqlite:" + filepath.Join(t.TempDir(), "servers.db"), Operator: true, Replica: true}
	createKey := func(cfg app.Config) error {
		sys := openSystem(t, cfg)
		api, err := sys.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.CreateKey(t.Context(), client.KeyRequest{Scope: "run"})
		return err
	}
	if err := createKey(server); err != nil {
		t.Fatal(err)
	}
	command := server
	command.Replica, command.StoreURL = false, ""
	for range 2 {
		if err := createKey(command); fault.Of(err) != fault.WrongState || !strings.Contains(err.Error(), "--config") {
			t.Errorf("a key in another store: %v, want WrongState that names --config", err)
		}
	}
	command.StoreURL = server.StoreURL
	if err := createKey(command); err != nil {
		t.Errorf("a key in the store of the server: %v", err)
	}
	command.StoreURL, command.Replica = "", true
	if err := createKey(command); err != nil {
		t.Errorf("a key of a server on another store: %v", err)
	}
}
