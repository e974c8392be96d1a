package testshell

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// Kinds are the providers that a test may run with: files only, a shell without a
// sandbox, and a sandbox.
var Kinds = []string{memory.Kind, local.Kind, sandbox.Kind}

// Shells are those of Kinds with a shell.
var Shells = []string{local.Kind, sandbox.Kind}

// NewProvider returns a provider of one of Kinds with its defaults, and a host directory
// outside its workspaces. It skips the test if the host can't run a sandbox.
func NewProvider(t testing.TB, kind string) (p driver.Provider, host string) {
	t.Helper()
	outer := t.TempDir()
	host = filepath.Join(outer, "host")
	// Processes in the sandbox may have another uid.
	err := os.Chmod(outer, 0o755)
	if err == nil {
		err = os.Mkdir(host, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	switch root := filepath.Join(outer, "ws"); kind {
	case memory.Kind:
		p = new(memory.Provider)
	case local.Kind:
		p, err = local.New(&local.Config{Root: root, Guest: Guest(t)})
	default:
		p, err = sandbox.New(&sandbox.Config{Root: root, Guest: Guest(t)})
	}
	if err != nil {
		t.Fatal(err)
	}
	if kind == sandbox.Kind {
		if _, err := p.Probe(t.Context()); err != nil {
			t.Skipf("skipped: host: it lacks what the sandbox needs: %v", err)
		}
	}
	return p, host
}

// Guest returns the path of croft-guest, which it builds once. Main removes it.
func Guest(t testing.TB) string {
	t.Helper()
	bin, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var guest = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "croft-guest-test-")
	if err != nil {
		return "", err
	}
	guestDir = dir
	bin := filepath.Join(dir, "croft-guest")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/croft-run/croft/cmd/croft-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build croft-guest: %w: %s", err, out)
	}
	return bin, os.Chmod(dir, 0o755)
})

var guestDir string // to be removed

// Main is TestMain of a package that uses Guest or NewProvider.
func Main(m *testing.M) {
	code := m.Run()
	if guestDir != "" {
		os.RemoveAll(guestDir)
	}
	os.Exit(code)
}
