package guestproto

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/workspace/driver"
)

// TestInfoTravels: what a guest knows of a session arrives whole.
func TestInfoTravels(t *testing.T) {
	want := driver.SessionInfo{
		ID: "s1", Argv: []string{"sh", "-c", "caf\xe9"}, Script: "echo", Dir: "d", PID: 7, TTY: true, Started: time.Unix(1, 2),
		Result: &driver.Result{ExitCode: 3, Signal: "SIGTERM", Cause: driver.CauseOOM, Duration: time.Second, StdoutDropped: 4, StderrDropped: 5, Session: "s1"},
		Labels: map[string]string{"k": "v"}, LogDropped: 12345,
	}
	if diff := cmp.Diff(want, FromSessionInfo(ToSessionInfo(want))); diff != "" {
		t.Errorf("-sent +arrived:\n%s", diff)
	}
	hostile := ToSessionInfo(want)
	hostile.LogDropped = -1
	if got := FromSessionInfo(hostile).LogDropped; got != 0 {
		t.Errorf("a guest that lies says that %d bytes are dropped, want 0", got)
	}
}
