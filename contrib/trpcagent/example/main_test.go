package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestExample(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "croft-guest")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/croft-run/croft/cmd/croft-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var out bytes.Buffer
	err := run(t.Context(), bin, &out)
	if err != nil && strings.Contains(err.Error(), "trpcagent: sandbox") {
		t.Skipf("the host lacks what the sandbox needs: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "calls workspace_exec") || !strings.Contains(got, "There are 25") {
		t.Errorf("it said %q", got)
	}
}
