package servercmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/internal/daemon/cli/console"
)

// TestProgramPath: what is printed for another terminal calls this very program.
func TestProgramPath(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join("bin", "croft")); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "croft"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ program, path, want string }{
		{"./bin/croft", t.TempDir(), "./bin/croft"},
		{"./bin/croft", other, "./bin/croft"},
		{"./bin/croft", filepath.Join(dir, "bin"), "croft"},
		{"croft", filepath.Join(dir, "bin"), "croft"},
		{"croft", other, self},
	} {
		t.Setenv("PATH", tt.path)
		a := &command{&console.Console{Program: tt.program}}
		if got := a.programPath(); got != tt.want {
			t.Errorf("started as %s with PATH=%s: %q, want %q", tt.program, tt.path, got, tt.want)
		}
	}
}
