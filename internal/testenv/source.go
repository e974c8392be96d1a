package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// NeedsSource returns the directory of a project's source, such as jinja2-3.1.2,
// that scripts/deps downloads, or skips the test where it could not be downloaded. The
// directory must not be changed.
func NeedsSource(t testing.TB, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("skipped: host: it lacks a cache directory, where scripts/deps puts %s: %v", name, err)
	}
	dir := filepath.Join(cache, "croft", "sources", name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("skipped: host: it lacks the source of %s: scripts/deps downloads it where Go's proxy, npm and Debian can be reached", name)
	}
	return dir
}
