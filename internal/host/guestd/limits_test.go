package guestd

import (
	"testing"

	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// TestLimitsPerCommandAreThoseOfTheWorkspace runs commands with no limit of their own, a
// lower one and a higher one.
func TestLimitsPerCommandAreThoseOfTheWorkspace(t *testing.T) {
	for _, r := range driver.Resources {
		s := &server{cfg: &guestproto.Config{Limits: driver.Limits{r.Name: {Max: 10}}}}
		for asked, want := range map[int64]int64{0: 10, 3: 3, 30: 10} {
			if !r.PerCommand {
				want = asked // the workspace as a whole is bounded elsewhere
			}
			cmd := driver.Command{Limits: driver.Limits{r.Name: {Max: asked}}}
			if got := s.limitedCommand(guestproto.ToCommand(&cmd)).Limits[r.Name].Max; got != want {
				t.Errorf("%s: a command that asks for %d gets %d, want %d", r.Name, asked, got, want)
			}
			if cmd.Limits[r.Name].Max != asked {
				t.Errorf("%s: the command itself was changed", r.Name)
			}
		}
	}
}

// TestBestEffortMemoryIsLimitedPerProcess: a memory limit that no cgroup enforces goes to
// each command, and one that a cgroup enforces does not.
func TestBestEffortMemoryIsLimitedPerProcess(t *testing.T) {
	for _, bestEffort := range []bool{true, false} {
		limit := driver.Limit{Max: 64 << 20, BestEffort: bestEffort}
		s := &server{cfg: &guestproto.Config{Limits: driver.Limits{driver.ResourceMemory: limit}}}
		got := s.limitedCommand(guestproto.ToCommand(&driver.Command{})).Limits[driver.ResourceMemory]
		if want := (driver.Limit{}); bestEffort && got != limit || !bestEffort && got != want {
			t.Errorf("best effort %v: a command gets the limit %+v", bestEffort, got)
		}
	}
}
