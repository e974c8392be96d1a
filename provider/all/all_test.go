package all

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func TestProvidersShareADataDirectory(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	host := engine(t)
	providers, err := Providers(Config{Data: data, DockerHost: host})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was made before anything was opened")
	}
	mux := workspace.NewMux(providers...)
	if diff := cmp.Diff([]string{"docker", "e2b", "filestore", "local", "memory", "sandbox", "ssh"}, mux.Kinds()); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	for _, kind := range mux.Kinds() {
		if kind == "docker" && host == "" {
			t.Log("skipped: host: no Docker engine can be started: " + testenv.DockerMissing())
			continue
		}
		if kind == "e2b" {
			continue // it needs a server; see its own tests
		}
		spec := workspace.Spec{ID: driver.NewID(), Kind: kind}
		if kind == "ssh" {
			if testenv.SSHDMissing() != "" {
				t.Log("skipped: host: no sshd can be started: " + testenv.SSHDMissing())
				continue
			}
			spec.Config = machine(t)
		}
		ws, err := mux.Open(t.Context(), spec, nil)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if _, err := ws.WriteFile(t.Context(), "f", []byte(kind), nil); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		// Sweeping the others must not touch it.
		for _, p := range providers {
			if p.Kind() != kind {
				if err := p.Sweep(t.Context(), nil); err != nil {
					t.Errorf("sweep %s: %v", p.Kind(), err)
				}
			}
		}
		if got, err := ws.ReadFile(t.Context(), "f"); err != nil || string(got) != kind {
			t.Errorf("%s: read %q, %v after the others were swept", kind, got, err)
		}
	}
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data directory: %v, %v; want mode 0700", info.Mode(), err)
	}
	for _, p := range providers {
		if err := p.Close(); err != nil {
			t.Errorf("close %s: %v", p.Kind(), err)
		}
	}
}

// machine starts an sshd and returns the options of a workspace on it.
func machine(t *testing.T) []byte {
	t.Helper()
	s, err := testenv.StartSSHD(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	t.Setenv("PATH", s.Bin+":"+os.Getenv("PATH"))
	options, err := json.Marshal(map[string]string{"host": s.Host})
	if err != nil {
		t.Fatal(err)
	}
	return options
}

// engine starts a Docker engine and returns where it listens; "" where the host
// can't.
func engine(t *testing.T) string {
	t.Helper()
	if testenv.DockerMissing() != "" {
		return ""
	}
	d, err := testenv.StartDockerd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Errorf("stop dockerd: %v", err)
		}
	})
	return d.Host()
}

func TestDataDirectoryIsRequired(t *testing.T) {
	_, err := Providers(Config{})
	if got := fault.Of(err); got != fault.InvalidArgument && err != nil {
		t.Errorf("got %v, want InvalidArgument", err)
	}
	if err == nil {
		t.Error("a config without a data directory is accepted")
	}
}

func TestDataDirectoryIsNoWorkspace(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	parts := []string{data, filepath.Join(data, "filestore"), filepath.Dir(data)}
	if err := os.MkdirAll(parts[1], 0o700); err != nil {
		t.Fatal(err)
	}
	providers, err := Providers(Config{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range providers {
		if kind := p.Kind(); kind != "local" && kind != "sandbox" {
			continue // has no directories in place
		}
		for _, dir := range parts {
			_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: p.Kind(), Dir: dir})
			if got, want := fault.Of(err), fault.InvalidArgument; got != want {
				t.Errorf("%s in %s: got %v (%s), want %s", p.Kind(), dir, err, got, want)
			}
		}
	}
}
