package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/host/cgroup/cgroupv1"
	"github.com/croft-run/croft/workspace/driver"
)

// TestCollect makes groups as they are left when a data directory is removed
// under its workspaces, and as a live guest has them.
func TestCollect(t *testing.T) {
	c := Find(Freezer)
	if c.Err != nil {
		t.Skipf("skipped: host: control groups: %v", c.Err)
	}
	left, held := filepath.Join(c.Dir, Prefix+driver.NewID()), filepath.Join(c.Dir, Prefix+driver.NewID())
	reused := filepath.Join(c.Dir, probePrefix+"test-"+strconv.Itoa(os.Getpid())) // the pid of a killed prober is another process
	for _, group := range []string{left, held, reused} {
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(group) })
	}
	f, err := os.OpenFile(filepath.Join(held, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	exists := func(group string) bool {
		_, err := os.Stat(group)
		return err == nil
	}
	if err := RemoveStale(time.Now()); err != nil {
		t.Fatal(err)
	}
	if !exists(left) || !exists(held) || !exists(reused) {
		t.Error("a group that was just made was removed")
	}
	for _, group := range []string{left, held, reused} {
		old := time.Now().Add(-2 * minStaleAge)
		if err := os.Chtimes(group, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveStale(time.Now()); err != nil {
		t.Fatal(err)
	}
	if exists(left) || exists(reused) {
		t.Error("a group that no process has open was left")
	}
	if !exists(held) {
		t.Error("a group that a process holds open was removed")
	}
}

// TestCollectThawsWhatWasKilled leaves a frozen process without a supervisor, as a paused
// workspace does whose data directory is deleted: the process ends only once it is thawed.
func TestCollectThawsWhatWasKilled(t *testing.T) {
	c := Find(Freezer)
	if c.Err != nil || c.V2 {
		t.Skipf("skipped: host: no freezer of cgroup version 1: %v", c.Err)
	}
	group := filepath.Join(c.Dir, Prefix+driver.NewID())
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cgroupv1.SetFrozen(group, false)
		cmd.Process.Kill()
		os.Remove(group)
	})
	if err := os.WriteFile(filepath.Join(group, cgroupv1.Procs), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	// This process is its supervisor: RemoveStale of another process leaves it frozen.
	held, err := os.OpenFile(filepath.Join(group, cgroupv1.Procs), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := SetFrozen(t.Context(), group, true); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	select {
	case err := <-ended:
		t.Fatalf("a frozen process ended: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	// From here on its workspace directory is deleted.
	logs := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	deleted, err := os.Open(logs)
	if err != nil {
		t.Fatal(err)
	}
	defer deleted.Close()
	if err := os.Remove(logs); err != nil {
		t.Fatal(err)
	}
	if err := RemoveStale(time.Now()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("a killed process is frozen still")
	}
}
