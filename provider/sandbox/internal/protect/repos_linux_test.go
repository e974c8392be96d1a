package protect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGitWatchWithoutInotify: without watches each look is a walk.
func TestGitWatchWithoutInotify(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a/b/x"), "x")
	w := newRepoWatch([]string{dir})
	t.Cleanup(w.close)
	names := func() string {
		var list []string
		for _, e := range w.look() {
			list = append(list, strings.TrimPrefix(w.inside(e), dir+"/"))
		}
		return strings.Join(list, " ")
	}
	put(t, filepath.Join(dir, "a/b/.git/HEAD"), "x")
	put(t, filepath.Join(dir, "c/d/.git/HEAD"), "x")
	if got := names(); got != "a/b/.git c/d/.git" {
		t.Errorf("by inotify: %q", got)
	}
	if err := os.Rename(filepath.Join(dir, "c"), filepath.Join(dir, "e")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "e/f/.git"), "gitdir: x")
	if got := names(); !strings.Contains(got, "e/d/.git") || !strings.Contains(got, "e/f/.git") {
		t.Errorf("after a rename: %q", got)
	}
	w.mu.Lock()
	w.stopInotify()
	w.mu.Unlock()
	put(t, filepath.Join(dir, ".git"), "gitdir: x")
	if got := names(); !strings.HasPrefix(got, ".git ") {
		t.Errorf("by a walk: %q", got)
	}
}

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
