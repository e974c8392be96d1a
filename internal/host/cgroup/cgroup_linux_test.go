package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/internal/host/cgroup/cgroupv1"
	"github.com/croft-run/croft/workspace/driver"
)

func TestMain(m *testing.M) {
	if os.Getenv(v2Var) != "" {
		PreferV2()
	}
	os.Exit(m.Run())
}

const v2Var = "CROFT_TEST_CGROUP_V2" // prefer version 2

// TestVersion2 runs the other tests with version 2 for what is in both.
func TestVersion2(t *testing.T) {
	if err := ErrV2(); err != nil {
		t.Skip("skipped: host: control groups: " + err.Error())
	}
	t.Setenv(v2Var, "yes")
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^(TestFreezeAndRemove|TestCollect|TestCommandGroupV2)$").CombinedOutput()
	if err != nil {
		t.Errorf("with version 2: %v\n%s", err, out)
	}
}

// TestNearestHierarchy: the cgroup of this process has processes in it, so its children get no
// controllers; those of a cgroup above it do.
func TestNearestHierarchy(t *testing.T) {
	all := []string{CPU, Memory, PIDs, Freezer}
	for name, test := range map[string]struct {
		has  map[string][]string // by directory; without an entry no cgroup can be created
		want string
	}{
		"session of root":       {map[string][]string{"/c/user/session": {Memory, Freezer}, "/c/user": {Memory, PIDs, Freezer}, "/c": all}, "/c"},
		"delegated cgroup":      {map[string][]string{"/c/user/session": {Freezer}, "/c/user": all, "/c": all}, "/c/user"},
		"no further controller": {map[string][]string{"/c/user/session": {Freezer}, "/c/user": {Freezer}, "/c": {Freezer}}, "/c/user/session"},
		"parents of others":     {map[string][]string{"/c/user/session": {Memory, Freezer}}, "/c/user/session"},
		"own of others":         {map[string][]string{"/c": {Freezer}}, "/c"},
		"none":                  {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := nearestV2("/c/user/session", "/c", func(h *hierarchyV2) error {
				h.controllers = test.has[h.dir]
				if h.controllers == nil {
					return os.ErrPermission
				}
				return nil
			})
			if got.dir != test.want || (got.err == nil) != (test.want != "") {
				t.Errorf("nearestV2 returned %q, %v; want %q", got.dir, got.err, test.want)
			}
		})
	}
}

// TestFreezeAndRemove makes groups, freezes a process in them and removes them.
func TestFreezeAndRemove(t *testing.T) {
	c := Find(Freezer)
	if c.Err != nil {
		t.Skipf("skipped: host: control groups: %v", c.Err)
	}
	g := &Groups{ID: driver.NewID(), Freeze: true, Limits: Limits{Memory: 64 << 20, PIDs: 50}}
	dirs := g.Dirs()
	t.Cleanup(func() { Remove(dirs) })
	files, err := g.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close() // as a supervisor has: RemoveStale of another process thaws what nobody has open
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := []byte(strconv.Itoa(cmd.Process.Pid))
	if err := os.WriteFile(filepath.Join(g.Joinable(Freezer), "cgroup.procs"), pid, 0o600); err != nil {
		t.Fatal(err)
	}
	dir, ok := FreezerOf(dirs)
	if !ok {
		t.Fatalf("FreezerOf(%v) finds none", dirs)
	}
	for _, frozen := range []bool{true, false} {
		if err := SetFrozen(t.Context(), dir, frozen); err != nil {
			t.Errorf("SetFrozen(%v): %v", frozen, err)
		}
		if got := IsFrozen(dir); got != frozen {
			t.Errorf("IsFrozen after SetFrozen(%v) = %v", frozen, got)
		}
		before := ticks(t, cmd.Process.Pid)
		time.Sleep(200 * time.Millisecond)
		if ran := ticks(t, cmd.Process.Pid) != before; ran == frozen {
			t.Errorf("SetFrozen(%v): the process runs: %v", frozen, ran)
		}
	}
	if !c.V2 { // there the removal kills
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // ends with the process
	if err := Remove(dirs); err != nil {
		t.Error(err)
	}
	<-done
	if status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("the process ended with %v, want SIGKILL", cmd.ProcessState)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("the group %s is left", dir)
		}
	}
}

func TestSettings(t *testing.T) {
	got := settingsV2(Limits{Memory: 1 << 20, PIDs: 7, CPU: 1500})
	want := map[string]string{"memory.max": "1048576", "pids.max": "7", "cpu.max": "150000 100000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("version 2 (-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		limit int64
		want  map[string]string
	}{
		Memory:  {1 << 20, map[string]string{"memory.limit_in_bytes": "1048576"}},
		PIDs:    {7, map[string]string{"pids.max": "8"}},
		CPU:     {1500, map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}},
		Freezer: {0, nil},
	} {
		if diff := cmp.Diff(c.want, cgroupv1.Settings(name, c.limit)); diff != "" {
			t.Errorf("version 1, %s (-want +got):\n%s", name, diff)
		}
	}
}

// ticks is the CPU time of a process, as the kernel counts it.
func ticks(t *testing.T, pid int) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))[13]
}

// TestKillOfAGroupThatIsGone: systemd removes a scope whose processes have ended.
func TestKillOfAGroupThatIsGone(t *testing.T) {
	if err := killV2(filepath.Join(t.TempDir(), "gone")); err != nil {
		t.Error(err)
	}
}
