package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// TestExamples runs the programs of examples/server as their first lines say, each copied to a
// directory of its own, with a key that may only run.
func TestExamples(t *testing.T) {
	server := startUp(t, buildCroft(t), t.TempDir())
	url, key := "http://"+server.addr, server.newKey("examples", "run")
	variables := []string{
		"E2B_API_KEY=" + key, "E2B_API_URL=" + url, "E2B_SANDBOX_URL=" + url,
		"CROFT_SERVER=" + url, "CROFT_TOKEN=" + key,
	}
	for _, e := range []struct {
		file string
		argv func(t *testing.T, dir string) []string
		want []string
	}{
		{"sandbox.ts", func(t *testing.T, dir string) []string {
			if err := os.Symlink(testenv.NeedsE2B(t), filepath.Join(dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
			return []string{testenv.NeedsNode(t), "sandbox.ts"}
		}, []string{"hello world\n", "exit status 3\n", "files: greet.py\n"}},
		{"main.go", func(t *testing.T, dir string) []string {
			program := filepath.Join(dir, "example")
			if out, err := exec.Command("go", "build", "-o", program, "./examples/server").CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			return []string{program}
		}, []string{"hello world\n", "exit status 3\n", "files: greet.py\n"}},
		{"sandbox.sh", func(*testing.T, string) []string { return []string{"sh", "sandbox.sh"} },
			[]string{"hello world", `"exitCode":3`, "import sys\nprint("}},
	} {
		t.Run(e.file, func(t *testing.T) {
			dir := t.TempDir()
			source, err := os.ReadFile(filepath.Join("examples", "server", e.file))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, e.file), source, 0o600); err != nil {
				t.Fatal(err)
			}
			argv := e.argv(t, dir)
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), variables...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", e.file, err, out)
			}
			for _, want := range e.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("%s prints %q, want %q", e.file, out, want)
				}
			}
		})
	}
	if _, list := server.e2bCall("GET", "/v1/workspaces", key, ""); strings.Contains(list, `"id"`) {
		t.Errorf("the examples left workspaces: %s", list)
	}
}
