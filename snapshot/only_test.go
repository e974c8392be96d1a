package snapshot

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRestoreOnly restores single files: also one whose directory the tree, or the target, does
// not have.
func TestRestoreOnly(t *testing.T) {
	from := map[string]string{"same": "same", "gone/a": "a", "gone/b": "b", "gone/deep/c": "c"}
	have := map[string]string{"same": "same", "new/x": "x", "new/y": "y", "new/deep/z": "z"}
	for _, tt := range []struct {
		only []string
		want []string // besides same
	}{
		{[]string{"new/x"}, []string{"new/deep/z", "new/y"}},
		{[]string{"new/deep/z"}, []string{"new/x", "new/y"}},
		{[]string{"new"}, nil},
		{[]string{"gone/a"}, []string{"gone/a", "new/deep/z", "new/x", "new/y"}},
		{[]string{"gone/deep/c"}, []string{"gone/deep/c", "new/deep/z", "new/x", "new/y"}},
		{[]string{"gone/none"}, []string{"new/deep/z", "new/x", "new/y"}},
		{[]string{"gone", "new/y"}, []string{"gone/a", "gone/b", "gone/deep/c", "new/deep/z", "new/x"}},
	} {
		dir := plant(t, have)
		if _, err := Restore(t.Context(), HostDir(plant(t, from), nil), dir, &RestoreOptions{Only: tt.only}); err != nil {
			t.Fatalf("%v: %v", tt.only, err)
		}
		got := map[string]bool{}
		must0(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if name, _ := filepath.Rel(dir, path); err == nil && !e.IsDir() {
				got[name] = true
			}
			return err
		}))
		if diff := cmp.Diff(append(slices.Clone(tt.want), "same"), slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("only %v (-want +got):\n%s", tt.only, diff)
		}
		if _, err := os.Stat(filepath.Join(dir, "gone")); slices.Equal(tt.only, []string{"gone/none"}) && err == nil {
			t.Errorf("only %v made an empty directory", tt.only)
		}
	}
}
