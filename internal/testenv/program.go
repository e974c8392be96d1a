package testenv

import (
	"os/exec"
	"testing"
)

// NeedsProgram returns the path of a program, or skips the test where the host
// lacks it.
func NeedsProgram(t testing.TB, name string) string {
	t.Helper()
	found, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("skipped: host: it lacks %s: it is not on PATH", name)
	}
	return found
}
