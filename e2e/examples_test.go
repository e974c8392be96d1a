package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// TestExamples runs the programs of examples as their first lines say, each with a copy of its
// directory, and against a server with a key that may only run.
func TestExamples(t *testing.T) {
	bin := buildCroft(t)
	server := startUp(t, bin, t.TempDir())
	url, key := "http://"+server.addr, server.newKey("examples", "run")
	variables := []string{
		"E2B_API_KEY=" + key, "E2B_API_URL=" + url, "E2B_SANDBOX_URL=" + url,
		"CROFT_SERVER=" + url, "CROFT_TOKEN=" + key,
	}
	build := func(t *testing.T, dir, name string) string {
		program := filepath.Join(dir, "program")
		if out, err := exec.Command("go", "build", "-o", program, "./examples/"+name).CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		return program
	}
	node := func(t *testing.T, dir string) string {
		if err := os.Symlink(testenv.NeedsE2B(t), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		return testenv.NeedsNode(t)
	}
	for _, e := range []struct {
		file string // below examples
		argv func(t *testing.T, dir string) []string
		want []string
		exit int
	}{
		{"server/sandbox.ts", func(t *testing.T, dir string) []string { return []string{node(t, dir), "sandbox.ts"} },
			[]string{"hello world\n", "exit status 3\n", "files: greet.py\n"}, 0},
		{"server/main.go", func(t *testing.T, dir string) []string { return []string{build(t, dir, "server")} },
			[]string{"hello world\n", "exit status 3\n", "files: greet.py\n"}, 0},
		{"server/sandbox.sh", func(*testing.T, string) []string { return []string{"sh", "sandbox.sh"} },
			[]string{"hello world", `"exitCode":3`, "import sys\nprint("}, 0},
		{"typescript/candidates.ts", func(t *testing.T, dir string) []string { return []string{node(t, dir), "candidates.ts"} },
			[]string{"plus: passes\n", "minus: fails: AssertionError: -1\n", "endless: takes too long\n"}, 0},
		{"python/run_tests.py", func(*testing.T, string) []string {
			return []string{"python3", "run_tests.py", ".", "echo begun; python3 -m py_compile run_tests.py && echo done > result; exit 3", "result"}
		}, []string{"begun\n", "exit status 3", "done\n"}, 3},
		{"untrusted/main.go", func(t *testing.T, dir string) []string {
			if err := os.WriteFile(filepath.Join(dir, "loop.py"), []byte("print('begun', flush=True)\nwhile True: pass\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{build(t, dir, "untrusted"), "-timeout", "2s", "python3", "loop.py"}
		}, []string{"begun\n", "the code was ended: timeout"}, 137},
		{"agent-loop/main.go", func(t *testing.T, dir string) []string { return []string{build(t, dir, "agent-loop")} },
			[]string{"tool: Bash", "answer: 1\n2\nfizz\n4\nbuzz\n"}, 0},
		{"eval/fix.suite.yaml", func(t *testing.T, dir string) []string {
			return []string{filepath.Join(bin, "croft"), "--data", t.TempDir(), "eval", "run", "fix.suite.yaml", "--output-dir", filepath.Join(dir, "results")}
		}, []string{"2 failed | 2 passed (4)", "mends-the-bug > hasty", "leaves-the-test-alone > hasty"}, 1},
	} {
		t.Run(e.file, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("examples", filepath.Dir(e.file)))); err != nil {
				t.Fatal(err)
			}
			argv := e.argv(t, dir)
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), variables...)
			if filepath.Dir(e.file) == "eval" {
				cmd.Env = os.Environ() // on a data directory
			}
			out, err := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != e.exit {
				t.Fatalf("%s ends with %d (%v), want %d\n%s", e.file, got, err, e.exit, out)
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
