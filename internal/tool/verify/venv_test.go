package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/local"
)

// TestVenvWithoutItsManager: where uv or poetry is not installed, the programs of an existing
// .venv are used.
func TestVenvWithoutItsManager(t *testing.T) {
	for manager, lock := range map[string]string{"uv": "uv.lock", "poetry": "poetry.lock"} {
		t.Run(manager, func(t *testing.T) {
			if name, err := exec.LookPath(manager); err == nil {
				t.Skipf("skipped: host: it has the program %s, and the test needs it missing", name)
			}
			pytest := testenv.NeedsProgram(t, "pytest")
			ws, dir := open(t, local.Kind, map[string]string{
				"pyproject.toml": "[project]\nname = \"a\"\n[tool.pytest.ini_options]\n[tool.ruff]\n", lock: "",
				"test_a.py": "def test_a():\n    assert 1 == 2\n", ".venv/bin/ruff": "#!/bin/sh\necho test_a.py:1:5: E999 from the .venv\nexit 1\n",
				".venv/bin/pytest": "#!/bin/sh\nexec " + pytest + " \"$@\"\n",
			})
			for _, name := range []string{"ruff", "pytest"} {
				if err := os.Chmod(filepath.Join(dir, ".venv/bin", name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			p := project(t, ws)
			r, err := Test(t.Context(), ws, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := names(r.Failures), "test test_a.py/test_a"; got != want || r.Command[0] != ".venv/bin/pytest" {
				t.Errorf("failures: %s by %q, want %s", got, r.Command, want)
			}
			if again, err := Rerun(t.Context(), ws, p, r, nil); err != nil || names(again.Failures) != names(r.Failures) {
				t.Errorf("run again: %v, %v", again, err)
			}
			found, err := Lint(t.Context(), ws, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(found.Diagnostics) != 1 || !strings.Contains(found.Diagnostics[0].Message, "from the .venv") {
				t.Errorf("findings: %+v\n%s", found.Diagnostics, found.Stdout)
			}
		})
	}
}
