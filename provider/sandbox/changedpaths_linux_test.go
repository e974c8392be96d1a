package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// TestChangedPaths changes files of a workspace that starts with a template, and of one
// that starts with a snapshot: the changed paths are listed, and no others.
func TestChangedPaths(t *testing.T) {
	template := t.TempDir()
	for _, name := range []string{"kept", "edited", "removed", "dir/kept", "dir/edited"} {
		path := filepath.Join(template, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const change = "echo x >> edited; echo x >> dir/edited; rm removed; mkdir new; echo x > new/file"
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		if level == driver.IsolationBubblewrap || level == driver.IsolationProcess {
			t.Skip("skipped: Traits: no template")
		}
		whole, err := p.cfg.Snapshots.Take(t.Context(), snapshot.HostDir(template, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, start := range map[string]func(*driver.Spec){
			"template": func(s *driver.Spec) { s.From.Template = template },
			"snapshot": func(s *driver.Spec) { s.From.Snapshot, s.From.CrossSession = whole.ID, true },
		} {
			ws := open(t, p, start)
			if list, err := ws.FS.ChangedPaths(t.Context()); err != nil || len(list) > 0 {
				t.Errorf("%s: at the start %v, %v", name, list, err)
			}
			output(t, ws, change)
			list, err := ws.FS.ChangedPaths(t.Context())
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var got []string
			for _, c := range list {
				got = append(got, c.Path)
			}
			slices.Sort(got)
			if diff := cmp.Diff([]string{"dir", "dir/edited", "edited", "new", "new/file", "removed"}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			// A sealed layer has changes, too: the list would lack them.
			if _, err := ws.Life.Snapshot.Seal(t.Context(), &driver.SnapshotOptions{}); err != nil {
				t.Fatal(err)
			}
			if list, err := ws.FS.ChangedPaths(t.Context()); fault.Of(err) != fault.Unsupported {
				t.Errorf("%s: of a sealed workspace %v, %v", name, list, err)
			}
		}
	})
}

// TestLockedFiles takes the owner's rights to the files away from inside: the workspace can
// be snapshotted and opened again.
func TestLockedFiles(t *testing.T) {
	template := t.TempDir()
	if err := os.Chmod(template, 0o755); err != nil {
		t.Fatal(err)
	}
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		starts := []func(*driver.Spec){func(*driver.Spec) {}}
		if level != driver.IsolationBubblewrap && level != driver.IsolationProcess {
			starts = append(starts, func(s *driver.Spec) { s.From.Template = template })
		}
		for i, start := range starts {
			ws := open(t, p, start)
			output(t, ws, "echo x > f; chmod 000 .")
			if ws.FS.ChangedPaths != nil {
				if list, err := ws.FS.ChangedPaths(t.Context()); err != nil || len(list) != 1 {
					t.Errorf("changed paths %v, %v", list, err)
				}
			}
			if err := ws.Life.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			again, err := p.Resolve(t.Context(), ws.Ref)
			if err != nil {
				t.Error(err)
				continue
			}
			if _, err := again.Life.Snapshot.Snapshot(t.Context(), &driver.SnapshotOptions{}); err != nil {
				t.Error(err)
			}
			if i > 0 {
				continue // while the guest lives, its overlayfs has the old mode: no command starts
			}
			if got := output(t, again, "cat f"); got != "x" {
				t.Errorf("f has %q", got)
			}
		}
	})
}

func TestLockedFilesUnprivileged(t *testing.T) { asNobody(t, "^TestLockedFiles$") }
