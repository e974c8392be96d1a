package verify

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the parsers return to testdata")

// home is the workspace of the runs that are kept in testdata.
var home = runLocation{root: "/home/user/gold", dir: ".", module: "example.com/gold"}

func data(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// summary is what a golden file holds of results.
type summary struct {
	Passed, Skipped int
	Seen            int
	Failures        []Failure
	Rerun           [][]string `json:",omitempty"`
}

// TestRunners holds the parsers against what the real runners wrote, each for a
// project with the same mistakes, and shows what would be run again.
func TestRunners(t *testing.T) {
	tests := []struct {
		name, runner, stdout, stderr, report string
		base                                 []string
	}{
		{name: "go", runner: "go test", stdout: "go.jsonl", base: []string{"go", "test", "./..."}},
		{name: "cargo", runner: "cargo test", stdout: "cargo.txt", base: []string{"cargo", "test"}},
		{name: "cargo-build", runner: "cargo test", stdout: "cargo-build.txt", base: []string{"cargo", "test"}},
		{name: "pytest", runner: "pytest", report: "pytest.xml", base: []string{"pytest"}},
		{name: "unittest", runner: "unittest", stderr: "unittest.txt", base: []string{"python3", "-m", "unittest", "discover"}},
		{name: "jest", runner: "jest", report: "jest.json", base: []string{"npx", "jest", "--runTestsByPath"}},
		{name: "vitest", runner: "vitest", report: "vitest.json", base: []string{"npx", "vitest", "run"}},
		{name: "mocha", runner: "mocha", report: "mocha.jsonl", base: []string{"npx", "mocha"}},
		{name: "mocha-crash", runner: "mocha", stdout: "mocha-crash.txt", base: []string{"npx", "mocha"}},
		{name: "node", runner: "node:test", stdout: "node.txt", report: "node.jsonl", base: []string{"node", "--test"}},
		{name: "bun", runner: "bun test", stdout: "bun.txt", base: []string{"bun", "test"}},
		{name: "surefire", runner: "maven", report: "surefire.xml", base: []string{"mvn", "-B", "test"}},
		{name: "maven-build", runner: "maven", stdout: "maven-build.txt", base: []string{"mvn", "-B", "test"}},
		{name: "gradle", runner: "gradle", report: "gradle.xml", base: []string{"gradle", "test"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, ok := findRunner(tt.base)
			if !ok || r.name != tt.runner {
				t.Fatalf("runnerOf(%q) = %q, want %q", tt.base, r.name, tt.runner)
			}
			var w runnerOutput
			if tt.stdout != "" {
				w.stdout = data(t, tt.stdout)
			}
			if tt.stderr != "" {
				w.stderr = data(t, tt.stderr)
			}
			if tt.report != "" {
				w.reports = [][]byte{data(t, tt.report)}
			}
			res := r.parse(w, home)
			if !res.understood {
				t.Error("the output was not understood")
			}
			got := summary{Passed: res.passed, Skipped: res.skipped, Seen: len(res.seen), Failures: res.failures}
			got.Rerun = r.rerun(tt.base, res.failures, func(s string) string { return s })
			golden(t, tt.name+".want.json", got)
		})
	}
}

// golden compares v as JSON with a file.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got := string(b) + "\n"
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(data(t, name)), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestTools does the same for linters and type checkers.
func TestTools(t *testing.T) {
	tests := []struct{ name, file, program string }{
		{"go vet", "vet.txt", "go"},
		{"golangci-lint", "golangci.txt", "golangci-lint"},
		{"eslint", "eslint.json", "eslint"},
		{"eslint in its usual form", "eslint.txt", "eslint"},
		{"tsc", "tsc.txt", "tsc"},
		{"mypy", "mypy.txt", "mypy"},
		{"flake8", "flake8.txt", "flake8"},
		{"pylint", "pylint.txt", "pylint"},
		{"pyright", "pyright.txt", "pyright"},
		{"clippy", "clippy.txt", "cargo"},
		{"oxlint", "oxlint.txt", "oxlint"},
		{"biome", "biome.txt", "biome"},
		{"javac", "javac.txt", "gradle"},
		{"maven", "maven-build.txt", "mvn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, ok := findLinter([]string{tt.program})
			if !ok {
				t.Fatalf("linterOf(%q) found none", tt.program)
			}
			got := l.parse(data(t, tt.file), home)
			if len(got) == 0 {
				t.Error("no finding was read")
			}
			golden(t, strings.TrimSuffix(tt.file, filepath.Ext(tt.file))+filepath.Ext(tt.file)+".want.json", got)
		})
	}
}
