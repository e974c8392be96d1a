package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/workspace/driver"
)

// sleepers starts n processes beside the shell, says how many it could start, and fails if
// that was not all.
func sleepers(n int) string {
	return fmt.Sprintf("exec sh -c 'i=0; while [ $i -lt %d ]; do sleep 100 & i=$((i+1)); done; exit 1'", n)
}

// TestProcessesOfOneCommandAreLimited: the limit holds for that command alone, at every
// moment, and below that of the workspace.
func TestProcessesOfOneCommandAreLimited(t *testing.T) {
	need(t, limitEnforcement("pids"))
	for name, of := range map[string]driver.Limits{"no limit of the workspace": nil, "limit of the workspace": {driver.ResourcePIDs: {Max: 50}}} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, t.TempDir())
			ws := open(t, p, limits(of))
			ten := driver.Limits{driver.ResourcePIDs: {Max: 10}}
			res, err := ws.Shell.Run(t.Context(), driver.Command{Script: sleepers(20), Limits: ten})
			if err != nil || res.Cause != driver.CausePIDs {
				t.Errorf("20 processes with a limit of 10 give %+v, %v, want the cause pids", res, err)
			}
			res, err = ws.Shell.Run(t.Context(), driver.Command{Script: "for i in 1 2 3 4 5 6 7 8; do sleep 0.01 & done; wait", Limits: ten})
			if err != nil || res.ExitCode != 0 || res.Cause != "" {
				t.Errorf("8 processes with a limit of 10 give %+v, %v", res, err)
			}
			// Another command at the same time has no such limit.
			held, err := ws.Shell.Start(t.Context(), driver.Command{Script: "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; echo there; wait", Limits: ten})
			if err != nil {
				t.Fatal(err)
			}
			if got := output(t, ws, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 0.01 & done; wait; echo all"); got != "all" {
				t.Errorf("a command without a limit gives %q", got)
			}
			if err := held.Kill(t.Context(), 0); err != nil {
				t.Error(err)
			}
			res, err = ws.Shell.Run(t.Context(), driver.Command{Argv: []string{"sleep", "0"}, Limits: driver.Limits{driver.ResourcePIDs: {Max: 1}}})
			if err != nil || res.ExitCode != 0 {
				t.Errorf("one process with a limit of 1 gives %+v, %v", res, err)
			}
			if err := ws.Life.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			for _, dir := range cgroup.Parents() {
				if left, _ := filepath.Glob(filepath.Join(dir, cgroup.Prefix+"*", "command-*")); len(left) > 0 && ofThisProcess(left) {
					t.Errorf("left %q", left)
				}
			}
		})
	}
}

// ofThisProcess reports whether a cgroup of a command was made by this process.
func ofThisProcess(dirs []string) bool {
	for _, dir := range dirs {
		if strings.HasPrefix(filepath.Base(dir), fmt.Sprintf("command-%d-", os.Getpid())) {
			return true
		}
	}
	return false
}

func TestCPUOfOneCommandIsLimited(t *testing.T) {
	need(t, limitEnforcement("cpu"))
	ws := open(t, newProvider(t, t.TempDir()))
	output(t, ws, "true") // the guest is there
	start := time.Now()
	res, err := ws.Shell.Run(t.Context(), driver.Command{
		Script: "while :; do :; done & while :; do :; done", Timeout: 2 * time.Second, Limits: driver.Limits{driver.ResourceCPU: {Max: 100}},
	})
	took := time.Since(start)
	if err != nil || res.Usage.User+res.Usage.System > took/4+500*time.Millisecond {
		t.Errorf("a tenth of a core gave %v in %v (%v)", res.Usage, took, err)
	}
}

// TestLimitsOfOneCommandAreRefused where there is no cgroup for it.
func TestLimitsOfOneCommandAreRefused(t *testing.T) {
	ws := open(t, newProvider(t, t.TempDir()), func(s *driver.Spec) { s.Config = []byte(`{"throwaway":true}`) })
	for _, r := range []driver.Resource{driver.ResourcePIDs, driver.ResourceCPU} {
		_, err := ws.Shell.Run(t.Context(), driver.Command{Argv: []string{"true"}, Limits: driver.Limits{r: {Max: 100}}})
		if fault.Of(err) != fault.Unsupported {
			t.Errorf("limit %s gives %v, want Unsupported", r, err)
		}
		res, err := ws.Shell.Run(t.Context(), driver.Command{Argv: []string{"true"}, Limits: driver.Limits{r: {Max: 100, BestEffort: true}}})
		if err != nil || res.ExitCode != 0 {
			t.Errorf("limit %s as best effort gives %+v, %v", r, res, err)
		}
	}
}
