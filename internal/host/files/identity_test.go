package files

import (
	"os"
	"path/filepath"
	"testing"
)

func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"real": "real", "link": "real", "link/": "real", "link/new/deep": "real/new/deep", "new": "new", "link/../new": "new",
	} {
		if got := Resolve(dir + "/" + path); got != filepath.Join(dir, want) {
			t.Errorf("Resolve(%s) = %s, want %s", path, got, want)
		}
	}
	if got := Resolve("/"); got != "/" {
		t.Errorf("Resolve(/) = %s", got)
	}
}
