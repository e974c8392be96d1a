package stage_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace"
)

// kinds are the places that the tests run in.
var kinds = testshell.Kinds

// everywhere runs a test on a stage of each kind.
func everywhere(t *testing.T, opts stage.Options, f func(t *testing.T, r *rig)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { f(t, open(t, kind, opts)) })
	}
}

// A rig is a stage, its workspace and what is around it.
type rig struct {
	*stage.Stage
	ws    *workspace.Workspace
	kind  string
	host  string // a directory of the host, next to the workspace's
	store *stage.Artifacts
}

func open(t *testing.T, kind string, opts stage.Options) *rig {
	t.Helper()
	p, host := testshell.NewProvider(t, kind)
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{Kind: kind, ID: workspace.NewID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
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
	return &rig{Stage: st, ws: ws, kind: kind, host: host, store: opts.Artifacts}
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
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
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

// names lists all paths of the workspace.
func (r *rig) names(t *testing.T) []string {
	t.Helper()
	page, err := r.ws.List(t.Context(), ".", &workspace.ListOptions{Depth: -1, Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range page.Entries {
		list = append(list, e.Path)
	}
	return list
}

func TestMain(m *testing.M) {
	if os.Getenv(crashEnv) != "" {
		crash()
	}
	testshell.Main(m)
}
