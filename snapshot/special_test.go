package snapshot

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

// TestSpecialFilesAreNamed: a snapshot, a comparison and a merge say which FIFOs they
// left out.
func TestSpecialFilesAreNamed(t *testing.T) {
	dir := plant(t, map[string]string{"a": "1", "sub/b": "1"})
	must0(t, unix.Mkfifo(filepath.Join(dir, "sub/pipe"), 0o600))
	want := []LeftOut{{Reason: LeftOutSpecial, Total: 1, Paths: []string{"sub/pipe"}}}
	a := inPlaceAdapter(t, dir, nil)
	info, err := a.Snapshot(t.Context(), &driver.SnapshotOptions{})
	must0(t, err)
	if info.Skipped != 1 || !cmp.Equal(info.SkippedPaths, want[0].Paths) {
		t.Errorf("the snapshot left out %d, %q, want %q", info.Skipped, info.SkippedPaths, want[0].Paths)
	}
	now, err := a.snapshotFiles(t.Context(), "", &driver.SnapshotAccess{})
	must0(t, err)
	for name, b := range map[string]Tree{"stored": Files(now), "directory": HostDir(dir, nil)} {
		d, err := Diff(t.Context(), Empty, b, nil)
		must0(t, err)
		if diff := cmp.Diff(want, d.LeftOut); diff != "" {
			t.Errorf("%s: left out by Diff:\n%s", name, diff)
		}
	}
	if d, err := Diff(t.Context(), Empty, Files(now), &DiffOptions{Only: []string{"a"}}); err != nil || d.LeftOut != nil {
		t.Errorf("of another path Diff left out %v, %v", d, err)
	}
	m, err := Merge(t.Context(), Empty, Empty, Files(now), nil)
	must0(t, err)
	if diff := cmp.Diff(want, m.LeftOut); diff != "" {
		t.Errorf("left out by Merge:\n%s", diff)
	}
}
