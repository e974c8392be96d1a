package eval

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInstallations: what a package manager has installed is told from the directory of a
// user's own program.
func TestInstallations(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".pyenv/shims/agent", "venv/pyvenv.cfg", "venv/bin/agent", "nvm/lib/node_modules/agent/cli.js", "mine/agent", "mine/.env"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for program, want := range map[string]string{".pyenv/shims/agent": ".pyenv", "venv/bin/agent": "venv", "nvm/lib/node_modules/agent/cli.js": "nvm/lib/node_modules", "mine/agent": ""} {
		var list []string
		if want != "" {
			list = []string{filepath.Join(home, want)}
		}
		got := installations(programDirs(filepath.Join(home, program), ""))
		slices.Sort(got)
		if diff := cmp.Diff(list, slices.Compact(got)); diff != "" && len(list)+len(got) > 0 {
			t.Errorf("%s (-want +got):\n%s", program, diff)
		}
	}
}
