package bootstrap_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/croft-run/croft/bootstrap"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/stage"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// kinds are the places that the tests run in.
var kinds = []string{memory.Kind, local.Kind, sandbox.Kind}

// everywhere runs a test on a stage of each kind.
func everywhere(t *testing.T, opts stage.Options, f func(t *testing.T, r *rig)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { f(t, open(t, kind, opts)) })
	}
}

// A rig is a stage, its workspace and what is around it.
type rig struct {
	*bootstrap.Reconciler
	st    *stage.Stage
	ws    *workspace.Workspace
	kind  string
	host  string // a directory of the host, next to the workspace's
	store *stage.Artifacts
}

func open(t *testing.T, kind string, opts stage.Options) *rig {
	t.Helper()
	return openWith(t, kind, opts, nil)
}

func openWith(t *testing.T, kind string, opts stage.Options, wopts *workspace.Options) *rig {
	t.Helper()
	outer := t.TempDir()
	if err := os.Chmod(outer, 0o755); err != nil { //nolint:gosec // what runs behind the fence may be another user
		t.Fatal(err)
	}
	var p driver.Provider
	var err error
	switch root := filepath.Join(outer, "ws"); kind {
	case memory.Kind:
		p = new(memory.Provider)
	case local.Kind:
		p, err = local.New(&local.Config{Root: root, Guest: needsGuest(t)})
	default:
		p, err = sandbox.New(&sandbox.Config{Root: root, Guest: needsGuest(t)})
	}
	if err != nil {
		t.Fatal(err)
	}
	if kind == sandbox.Kind {
		if _, err := p.Probe(t.Context()); err != nil {
			t.Skipf("the host lacks what the sandbox needs: %v", err)
		}
	}
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: kind, ID: workspace.NewID()}, wopts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	host := filepath.Join(outer, "host")
	if err := os.Mkdir(host, 0o755); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	if opts.HostRoots == nil {
		opts.HostRoots = []string{host}
	}
	if opts.Artifacts == nil {
		opts.Artifacts = stage.NewArtifacts(bucket(t), "s1")
	}
	st, err := stage.New(ws, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{Reconciler: bootstrap.New(st, nil), st: st, ws: ws, kind: kind, host: host, store: opts.Artifacts}
}

func bucket(t *testing.T) *blob.Bucket {
	t.Helper()
	b := memblob.OpenBucket(nil)
	t.Cleanup(func() { b.Close() })
	return b
}

// files makes files of the host.
func (r *rig) files(t *testing.T, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(r.host, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // as above
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // as above
			t.Fatal(err)
		}
	}
	return r.host
}

// want fails unless a file of the workspace has the given text.
func (r *rig) want(t *testing.T, name, text string) {
	t.Helper()
	data, err := r.ws.ReadFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != text {
		t.Errorf("%s holds %q, want %q", name, data, text)
	}
}

// write makes a file of the workspace.
func (r *rig) write(t *testing.T, name, text string) {
	t.Helper()
	if _, err := r.ws.WriteFile(t.Context(), name, []byte(text), &workspace.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
}

// needsGuest builds the program that runs inside the fence, once.
func needsGuest(t *testing.T) string {
	t.Helper()
	bin, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var guest = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "croft-bootstrap-test-")
	if err != nil {
		return "", err
	}
	guestDir = dir
	bin := filepath.Join(dir, "croft-guest")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/croft-run/croft/cmd/croft-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, os.Chmod(dir, 0o755) //nolint:gosec // as above
})

var guestDir string // to be removed

func TestMain(m *testing.M) {
	code := m.Run()
	if guestDir != "" {
		os.RemoveAll(guestDir)
	}
	os.Exit(code)
}
