package docker

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// TestForgedLabels: a container inherits the labels of its image, and any image can have Croft's
// labels. A container with these labels and another name is not Croft's, and stays.
func TestForgedLabels(t *testing.T) {
	f := newFake(nil)
	root := t.TempDir()
	p, err := New(&Config{Root: root, Engine: f, Guest: os.Getenv(guestVar)})
	if err != nil {
		t.Fatal(err)
	}
	id := driver.NewID()
	labels := map[string]string{LabelWorkspace: id, LabelHost: hostID(), LabelRoot: filepath.Join(root, "gone")}
	f.units["database"] = &State{ID: "database", Name: "database", Labels: labels}
	f.units[containerName(id)] = &State{ID: containerName(id), Name: containerName(id), Labels: labels}
	f.kept["data"] = Volume{Name: "data", Labels: labels}
	f.kept[containerName(id)] = Volume{Name: containerName(id), Labels: labels}
	old := map[string]string{LabelGuest: "older"}
	f.image["mine"] = Image{ID: "1", Names: []string{"mine:1"}, Labels: old}
	f.image["own"] = Image{ID: "2", Names: []string{"also-mine:1", OwnImages + ":abc"}, Labels: old}
	removed, err := p.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Leftover{{Name: containerName(id), Workspace: id, Root: labels[LabelRoot]}, {Name: containerName(id), Volume: true, Workspace: id, Root: labels[LabelRoot]}}
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"RemoveImage " + OwnImages + ":abc"}, f.called("RemoveImage")); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

// TestPlantedBox: where the workload is the same user as this process, what it left
// in the place of the guest's directories leads nobody elsewhere.
func TestPlantedBox(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	if err := os.Chmod(out, 0o755); err != nil {
		t.Fatal(err)
	}
	l := &launch{dir: dir, proof: &engineProof{HostUID: os.Geteuid()}}
	if err := os.Mkdir(l.boxPath(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{guestproto.ContainerLog, guestproto.ContainerConfig} {
		if err := os.Symlink(out, l.boxPath(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.prepareBox("v", Image{}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(out); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("what is outside has the mode %v, %v", info.Mode(), err)
	}
	for name, want := range map[string]fs.FileMode{guestproto.ContainerLog: fs.ModeDir, guestproto.ContainerConfig: 0} {
		if info, err := os.Lstat(l.boxPath(name)); err != nil || info.Mode().Type() != want {
			t.Errorf("%s is %v, %v", name, info, err)
		}
	}
}
