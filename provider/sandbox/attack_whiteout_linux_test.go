package sandbox

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// TestAttackWhiteouts sets the attributes of overlayfs, and makes its device nodes, in the
// files of a workspace. Where the files become a layer, in the workspace itself and in
// forks, all files are still there.
func TestAttackWhiteouts(t *testing.T) {
	const list = `find . -type f | sort | while read -r f; do echo "$f $(cat "$f")"; done`
	const attack = `mkdir -p d/sub e; echo one > d/one; echo two > d/sub/two; echo three > e/three; : > e/empty; echo four > e/four
perl -e '
my ($set, $size) = (188, 0);  # setxattr
sub set { my ($path, $name, $value) = @_; syscall($set, $path, "user.overlay.$name", $value, length $value, 0) }
set("d", "opaque", "y"); set("e", "opaque", "x"); set("e/empty", "whiteout", ""); set("e/three", "whiteout", "");
set("d/sub", "redirect", "/e"); set("e/four", "metacopy", ""); set("e/four", "redirect", "/d/one"); set("d/sub", "origin", "x"); set("d/sub", "whiteouts", "y");
print "node " if syscall(133, "e/node", 020644, 0) == 0;  # mknod, character device 0:0
rename "e/none", "e/none2"; print "rename " if syscall(316, -100, "d/one", -100, "d/moved", 4) == 0;  # renameat2, RENAME_WHITEOUT
'; true`
	for _, with := range []string{"plain", "template"} {
		t.Run(with, func(t *testing.T) {
			atEachLevel(t, func(t *testing.T, p *Provider, level driver.Isolation) {
				if with == "template" && (level == driver.IsolationBubblewrap || level == driver.IsolationProcess) {
					t.Skip("skipped: Traits: no template")
				}
				testenv.ReportAttack(t, "whiteouts and overlayfs attributes, "+with, string(level), testenv.Prevented, "")
				ws := open(t, p, func(s *driver.Spec) {
					if with == "template" {
						s.From.Template = t.TempDir()
					}
				})
				if got := output(t, ws, attack); got != "" {
					t.Errorf("made: %s", got)
				}
				want := output(t, ws, list)
				if strings.Count(want, "\n") != 4 {
					t.Fatalf("before: %q", want)
				}
				info, err := ws.Life.Snapshot.Seal(t.Context(), &driver.SnapshotOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := output(t, ws, list); got != want {
					t.Errorf("after a seal: %q, want %q", got, want)
				}
				fork := open(t, p, func(s *driver.Spec) { s.From.Snapshot = info.ID; s.From.CrossSession = true })
				if got := output(t, fork, list); got != want {
					t.Errorf("in a fork: %q, want %q", got, want)
				}
			})
		})
	}
}

func TestAttackWhiteoutsUnprivileged(t *testing.T) { asNobody(t, "^TestAttackWhiteouts$") }
