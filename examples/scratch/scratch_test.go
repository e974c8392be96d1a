package scratch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/examples/scratch"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// TestConformance holds the provider against the contract.
func TestConformance(t *testing.T) {
	workspacetest.Run(t, workspacetest.Harness{
		Provider: func(_ testing.TB, dir string) driver.Provider {
			return &scratch.Provider{Root: filepath.Join(dir, "scratch")}
		},
		Leftovers: func(t testing.TB, dir string) []string {
			left, err := filepath.Glob(filepath.Join(dir, "scratch", "*"))
			if err != nil {
				t.Fatal(err)
			}
			return left
		},
	})
}

// TestProgram builds a croft with the provider and uses it.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "croft")
	if out, err := exec.Command("go", "build", "-o", bin, "./cmd/scratch-croft").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	croft := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command(bin, append([]string{"--data", filepath.Join(dir, "data")}, args...)...)
		cmd.Env = append(os.Environ(), "SCRATCH_ROOT="+filepath.Join(dir, "scratch"))
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("croft %q: %v", args, err)
		}
		return string(out)
	}
	id := strings.TrimSpace(croft("", "ws", "open", "notes", "--provider", "scratch"))
	croft("remember the milk\n", "ws", "put", "notes", "-", "todo.txt")
	if got, want := croft("", "ws", "cat", "notes", "todo.txt"), "remember the milk\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "scratch", id, "files", "todo.txt")); err != nil {
		t.Errorf("the file is not where the provider keeps it: %v", err)
	}
	if out := croft("", "provider", "list"); !strings.Contains(out, "scratch") {
		t.Errorf("the provider is not listed:\n%s", out)
	}
	croft("", "ws", "rm", "notes")
	if left, _ := os.ReadDir(filepath.Join(dir, "scratch")); len(left) > 0 {
		t.Errorf("something is left: %v", left)
	}
}
