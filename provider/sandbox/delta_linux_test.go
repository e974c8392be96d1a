package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// TestLayersOfAChangedDirectory opens workspaces from successive captures of a directory:
// the first has a layer with all files, the next ones a layer with the differences over it.
// Each shows its own state, and what it writes stays in it. Layers that a workspace needs
// survive a sweep.
func TestLayersOfAChangedDirectory(t *testing.T) {
	if !here(driver.IsolationNamespaces, driver.IsolationBubblewrap, driver.IsolationGVisor) {
		t.Skip("skipped: level: it has no overlayfs")
	}
	base := t.TempDir()
	p := newProvider(t, base)
	dir := filepath.Join(base, "project")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	layers := func() (names []string) {
		t.Helper()
		entries, err := os.ReadDir(p.layers.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	const show = `find . -type f | LC_ALL=C sort | while read -r f; do echo "$f $(cat $f)"; done`
	var live []string
	open := func() *driver.Workspace {
		t.Helper()
		m, err := p.cfg.Snapshots.Take(t.Context(), snapshot.HostDir(dir, nil), &snapshot.TakeOptions{Info: driver.SnapshotInfo{Labels: map[string]string{"source": dir}}})
		if err != nil {
			t.Fatal(err)
		}
		id := driver.NewID()
		ws, err := p.Open(t.Context(), driver.Spec{ID: id, Kind: Kind, From: driver.Source{Snapshot: m.ID, CrossSession: true}})
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, id)
		t.Cleanup(func() {
			if err := ws.Life.Destroy(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		return ws
	}
	run := func(ws *driver.Workspace, script string) string {
		t.Helper()
		res, err := ws.Shell.Run(t.Context(), driver.Command{Script: script})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%s: %v %d\n%s", script, err, res.ExitCode, res.Stderr)
		}
		return string(res.Stdout)
	}
	for i := range 5 {
		write(fmt.Sprintf("d%d/file", i), "first")
	}
	write("removed", "first")
	write("becomes-dir", "first")
	first := open()
	before := layers()
	if len(before) != 1 {
		t.Fatalf("the first state has the layers %q", before)
	}
	write("d1/file", "second")
	write("d2/new", "second")
	remove("removed")
	remove("d3")
	remove("becomes-dir")
	write("becomes-dir/file", "second")
	second := open()
	if got := layers(); len(got) != 2 || !slices.ContainsFunc(got, func(name string) bool { return strings.HasPrefix(name, deltaPrefix) }) {
		t.Errorf("the second state has the layers %q", got)
	}
	want := "./becomes-dir/file second\n./d0/file first\n./d1/file second\n./d2/file first\n./d2/new second\n./d4/file first\n"
	if got := run(second, show); got != want {
		t.Errorf("the second state is\n%s", got)
	}
	run(second, "echo agent > d0/file; echo agent > d1/file; rm d4/file; echo agent > removed")
	if got := run(first, show); !strings.Contains(got, "./d0/file first\n./d1/file first\n") || !strings.Contains(got, "./removed first\n") {
		t.Errorf("the first state has become\n%s", got)
	}
	again := open() // the same state: nothing is extracted
	if got := run(again, show); got != want || len(layers()) != 2 {
		t.Errorf("the second state again is\n%s, with %q", got, layers())
	}
	if err := p.Sweep(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	write("d4/file", "third")
	third := open()
	if got := run(third, show); got != strings.Replace(want, "d4/file first", "d4/file third", 1) {
		t.Errorf("the third state is\n%s", got)
	}
	if got := run(second, show); !strings.Contains(got, "./d0/file agent\n./d1/file agent\n") || strings.Contains(got, "d4/file") {
		t.Errorf("the second workspace has become\n%s", got)
	}
	changed, err := second.FS.ChangedPaths(t.Context())
	if err != nil || len(changed) == 0 {
		t.Errorf("changed paths: %v, %v", changed, err)
	}
}

// TestLayersStayWhileAStateIsUnreadable: the layers of a live workspace are not known while
// its state can't be read.
func TestLayersStayWhileAStateIsUnreadable(t *testing.T) {
	p := newProvider(t, t.TempDir())
	id := driver.NewID()
	open(t, p, func(s *driver.Spec) { s.ID = id })
	layer := filepath.Join(p.layers.dir, "layer")
	state := p.store.Path(id, wsdir.StateName(Kind))
	good, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(layer, "f"), "x")
	for _, content := range []string{"", "{", string(good)} {
		if err := os.WriteFile(state, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Sweep(t.Context(), []string{id}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(layer); (err == nil) != (content != string(good)) {
			t.Errorf("with the state %q: %v", content, err)
		}
	}
}
