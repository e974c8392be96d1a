package testenv

import (
	"context"
	"os/exec"
	"testing"
)

// JupyterMissing returns what the host lacks for a kernel; "" is nothing.
func JupyterMissing(ctx context.Context) string {
	if err := exec.CommandContext(ctx, "/usr/bin/python3", "-c", "import jupyter_client, ipykernel").Run(); err != nil {
		return "Jupyter's kernel for /usr/bin/python3: Debian's python3-ipykernel"
	}
	return ""
}

// NeedsJupyter skips the test where the system's Python has no kernel.
func NeedsJupyter(t testing.TB) {
	t.Helper()
	if why := JupyterMissing(t.Context()); why != "" {
		t.Skip("skipped: host: it lacks " + why)
	}
}
