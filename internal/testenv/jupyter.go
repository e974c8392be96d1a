package testenv

import (
	"os/exec"
	"testing"
)

// NeedsJupyter skips the test where the system's Python has no kernel.
func NeedsJupyter(t testing.TB) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import jupyter_client, ipykernel").Run(); err != nil {
		t.Skip("skipped: host: it lacks Jupyter's kernel for /usr/bin/python3: Debian's python3-ipykernel")
	}
}
