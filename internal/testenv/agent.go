package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// NeedsAgent returns the path of a program that scripts/deps installs from npm,
// such as claude, codex, opencode, gemini or mcp-inspector, or skips the test
// where it could not be installed.
func NeedsAgent(t testing.TB, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("skipped: host: it lacks a cache directory, where scripts/deps puts %s: %v", name, err)
	}
	path, err := exec.LookPath(filepath.Join(cache, "croft", "agents", "node_modules", ".bin", name))
	if err != nil {
		t.Skipf("skipped: host: it lacks %s: scripts/deps installs it from npm where npm can be reached", name)
	}
	return path
}
