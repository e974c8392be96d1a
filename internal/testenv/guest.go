package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
)

// BuildGuest builds croft-guest of this tree in dir, and returns its path. It panics if that
// fails: TestMain, which calls it, has no test.
func BuildGuest(dir string) string {
	bin := filepath.Join(dir, "croft-guest")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/croft-run/croft/cmd/croft-guest") //nolint:noctx // it ends by itself
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic("build croft-guest: " + err.Error() + "\n" + string(out))
	}
	return bin
}
