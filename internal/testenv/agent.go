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

// NeedsNode returns the program node of the version that scripts/deps installs from npm,
// and skips the test without it.
func NeedsNode(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("skipped: host: it lacks a cache directory, where scripts/deps puts Node: %v", err)
	}
	path, err := exec.LookPath(filepath.Join(cache, "croft", "node24", "node_modules", ".bin", "node"))
	if err != nil {
		t.Skip("skipped: host: it lacks Node 24: scripts/deps installs it from npm where npm can be reached")
	}
	return path
}

// NeedsE2B returns the directory node_modules with the SDKs of E2B, and skips the test
// without it.
func NeedsE2B(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("skipped: host: it lacks a cache directory, where scripts/deps puts E2B's SDKs: %v", err)
	}
	dir := filepath.Join(cache, "croft", "e2b", "node_modules")
	if _, err := os.Stat(filepath.Join(dir, "@e2b", "code-interpreter")); err != nil {
		t.Skip("skipped: host: it lacks E2B's SDKs: scripts/deps installs them from npm where npm can be reached")
	}
	return dir
}

// NeedsChromium returns the program node, that of Chromium, and the packages of internal/web/node_modules
// that drive it, and skips the test without them. The test runs in the root of the repository.
func NeedsChromium(t testing.TB) (node, chromium, modules string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: host: it lacks node: scripts/deps installs it where it can")
	}
	chromium, err = exec.LookPath("chromium")
	if err != nil {
		t.Skip("skipped: host: it lacks chromium: scripts/deps installs it where it can")
	}
	modules, err = filepath.Abs(filepath.Join("internal", "web", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(modules, "playwright-core")); err != nil {
		t.Skip("skipped: host: it lacks the packages of the page: scripts/deps installs them in web from npm where npm can be reached")
	}
	return node, chromium, modules
}
