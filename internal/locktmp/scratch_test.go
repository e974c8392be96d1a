package locktmp_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/locktmp"
)

// prefix is this test's alone.
const prefix = "croft-scratch-test-"

// TestMain makes a directory and waits, where it is told to: to be killed.
func TestMain(m *testing.M) {
	if os.Getenv("SCRATCH_HOLD") == "" {
		os.Exit(m.Run())
	}
	dir, err := locktmp.Make(prefix)
	if err != nil {
		os.Exit(1)
	}
	os.Stdout.WriteString(dir + "\n")
	select {}
}

// hold starts a process that has a directory.
func hold(t *testing.T) (dir string, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "SCRATCH_HOLD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
}

func TestSweepRemovesWhatTheDeadLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	own, err := locktmp.Make(prefix)
	if err != nil {
		t.Fatal(err)
	}
	dead, kill := hold(t)
	living, end := hold(t)
	defer end()
	if err := os.WriteFile(filepath.Join(dead, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(os.TempDir(), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	kill()
	locktmp.Sweep(prefix)
	for dir, want := range map[string]bool{own: true, living: true, other: true, dead: false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(dir), err == nil, want)
		}
	}
	if err := locktmp.Remove(own); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("after Remove: %v", err)
	}
}
