package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// TestMain runs the tests in the root of the repository, from where they build
// the programs and read the documents.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	if err := os.RemoveAll(programsDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

var programsDir string // of buildPrograms; "" if no test asked for them

// buildPrograms builds croft and croft-guest, once for all tests, and returns their directory.
var buildPrograms = sync.OnceValues(func() (dir string, err error) {
	if programsDir, err = os.MkdirTemp("", "croft-e2e-"); err != nil {
		return "", err
	}
	// Tests run the programs as other users, too.
	if err := os.Chmod(programsDir, 0o755); err != nil { //nolint:gosec // see above
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", programsDir, "./cmd/...").CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return programsDir, err
})

// buildCroft returns the directory with the programs.
func buildCroft(t *testing.T) string {
	t.Helper()
	dir, err := buildPrograms()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return dir
}
