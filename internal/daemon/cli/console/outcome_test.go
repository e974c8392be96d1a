package console

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestCauseOfACommand: a command that meets its limit of processes or disk fails by itself;
// the other causes kill it.
func TestCauseOfACommand(t *testing.T) {
	for _, tt := range []struct {
		cause driver.Cause
		want  string
	}{
		{"", ""},
		{driver.CausePIDs, "croft: the command failed: pids: it reached its limit of processes\n"},
		{driver.CauseDisk, "croft: the command failed: disk: the disk of the workspace is full\n"},
		{driver.CauseOOM, "croft: the command was killed: oom: it reached its memory limit\n"},
	} {
		var notes strings.Builder
		a := &Console{Streams: Streams{Err: &notes}}
		if err := a.CommandOutcome(workspace.Result{ExitCode: 2, Cause: tt.cause}); exitStatus(err) != 2 || notes.String() != tt.want {
			t.Errorf("cause %q: status %d, %q; want 2, %q", tt.cause, exitStatus(err), notes.String(), tt.want)
		}
	}
}
