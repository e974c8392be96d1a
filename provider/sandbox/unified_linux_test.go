package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/workspace/driver"
)

// needUnified skips where no group of version 2 can be made.
func needUnified(t *testing.T) {
	t.Helper()
	if err := cgroup.ErrV2(); err != nil {
		t.Skip("skipped: host: " + err.Error())
	}
}

// TestUnified runs, in processes that prefer version 2, what freezing, killing
// and moving are about. On a host whose limits are in version 1 those stay there.
func TestUnified(t *testing.T) {
	needUnified(t)
	t.Setenv(unifiedVar, "yes")
	again(t, "with version 2", "", t.TempDir(), os.Args[0], "-test.v", "-test.run",
		"^Test(PauseFreezes|WorkloadIsMoved|ForkBombIsContained|MemoryHogIsKilledAndSaysWhy|CloseEndsWhatIsNotDetached|DestroyAndSweepEndGuests|DeadGuestIsEvictedOnceAndItsSessionsAreLost)$|^TestConformance$/^(Shell|Life)$")
}

func TestWorkloadIsMoved(t *testing.T) {
	if os.Getenv(unifiedVar) == "" {
		t.Skip("skipped: it is run by TestUnified")
	}
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	// Children that are started at once must be found, too.
	output(t, ws, "true")
	res, err := ws.Shell.Start(t.Context(), driver.Command{Script: "sleep 1000 & setsid sleep 1000 & (sleep 1000 &) ; echo up; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Close(t.Context())
	rec := guestOf(t, p, ws)
	group := rec.Groups[len(rec.Groups)-1]
	// Each is born beside the guest, which is alone again once all were moved.
	eventually(t, "the workload, and nobody else, in its group", func() bool {
		return len(members(t, group, "guest")) == 1 && len(members(t, group, "work/main")) == 4
	})
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(group); err == nil {
		t.Errorf("group %s is left", group)
	}
}

func members(t *testing.T, group, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(group, name, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

// TestNothingOutlivesAGuestWithoutNamespaces lets a process leave its session,
// its parent and its environment, and kills the guest.
func TestNothingOutlivesAGuestWithoutNamespaces(t *testing.T) {
	needUnified(t)
	if os.Getuid() == 0 {
		t.Skip("skipped: the level is refused where Croft is root")
	}
	p, ws := openAt(t, driver.IsolationProcess)
	output(t, ws, "(env -i setsid sleep 1234 >/dev/null 2>&1 &) ; sleep 0.1")
	rec := guestOf(t, p, ws)
	res, err := ws.Shell.Start(t.Context(), driver.Command{Script: "(env -i setsid sleep 1235 >/dev/null 2>&1 &) ; sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Close(t.Context())
	group := rec.Groups[len(rec.Groups)-1]
	eventually(t, "it is started", func() bool { return len(members(t, group, "guest")) > 2 })
	if err := rec.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(group); err == nil {
		t.Errorf("group %s is left, with %v", group, members(t, group, "guest"))
	}
}
