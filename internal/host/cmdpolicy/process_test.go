package cmdpolicy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

var _ process.Wrapper = (*cmdpolicy.Seatbelt)(nil)

// TestWithProcesses runs real commands behind a guard, as a provider does.
func TestWithProcesses(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "ws")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := process.New(&process.Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	root, err := files.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	opts := cmdpolicy.Local()
	opts.Root, opts.Files = dir, root
	g, err := cmdpolicy.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	shell := g.Module(m.Module())

	res, err := shell.Run(t.Context(), driver.Command{
		Script: `mkdir -p a/b && cd a/b && echo "$X[$LD_PRELOAD]" > ../../file 2> /dev/null && cat ../../file`,
		Env:    map[string]string{"X": "x"},
	})
	if err != nil || string(res.Stdout) != "x[]\n" || len(res.Stderr) > 0 {
		t.Errorf("Run = %q, %q, %v", res.Stdout, res.Stderr, err)
	}
	for _, script := range []string{"echo x > ../file", "echo x > " + base + "/file", "cd .. && echo x > file", "sh -c 'echo x > ../file'", "ln -s .. up && sudo true"} {
		if _, err := shell.Run(t.Context(), driver.Command{Script: script}); fault.Of(err) != fault.SandboxViolation {
			t.Errorf("%q: %v, want %s", script, err, fault.SandboxViolation)
		}
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != 1 {
		t.Errorf("there is more beside the workspace: %v, %v", entries, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "up")); err == nil {
		t.Error("a command that was refused did something")
	}

	if err := os.Symlink("..", filepath.Join(dir, "up")); err != nil {
		t.Fatal(err)
	}
	s, err := shell.Start(t.Context(), driver.Command{Argv: []string{"ls", "up"}})
	if s != nil || fault.Of(err) != fault.SandboxViolation || !strings.Contains(err.Error(), cmdpolicy.TextResolvesOutside) {
		t.Errorf("Start of ls on an escaping symlink = %v, %v", s, err)
	}
}
