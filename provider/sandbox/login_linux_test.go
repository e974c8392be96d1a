package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/workspace/driver"
)

// TestLoginShellKeepsPath: /etc/profile of Debian sets PATH anew, and a login shell has the
// directories of the policy in front all the same. Settings in other files of /etc/profile.d
// are those of the host.
func TestLoginShellKeepsPath(t *testing.T) {
	const path = "/it's/a tool/bin:" + process.DefaultPath
	atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
		if level == driver.IsolationProcess {
			t.Skip("skipped: without mounts /etc is the host's")
		}
		ws := open(t, p, func(s *driver.Spec) { s.Policy.Env = map[string]string{"PATH": path} })
		for _, shell := range []string{"bash -lc", "sh -lc", "zsh -lc"} {
			program, _, _ := strings.Cut(shell, " ")
			if _, err := exec.LookPath(program); err != nil {
				continue
			}
			if got := output(t, ws, shell+` 'echo "$PATH"'`); got != path && !strings.HasPrefix(got, path+":") {
				t.Errorf("%s: PATH is %q, want %q first", shell, got, path)
			}
			if got := output(t, ws, shell+` 'bash -lc "echo \$PATH"'`); strings.Count(got, "a tool") != 1 {
				t.Errorf("%s in a login shell: PATH is %q", shell, got)
			}
		}
		entries, err := os.ReadDir("/etc/profile.d")
		if err != nil {
			return
		}
		for _, e := range entries {
			if rootfs.IsShown("/etc/profile.d/" + e.Name()) {
				output(t, ws, "test -r /etc/profile.d/"+e.Name())
			}
		}
	})
}
