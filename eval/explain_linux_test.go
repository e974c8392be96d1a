package eval_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/eval"
)

// TestFindExplain: a failure is found by any directory above it, also by a path that
// is relative, or a link; agents are told where it truly is.
func TestFindExplain(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "run", "case", "runner", "repeat-1")
	if err := os.MkdirAll(want, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(want, "explain.json"), filepath.Join(dir, "run", eval.ResultsName)} {
		if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("run", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, name := range []string{"run", "./link/case", want} {
		if got, err := eval.FindExplain(name); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
}
