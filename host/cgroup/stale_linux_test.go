package cgroup

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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
	for _, group := range []string{left, held} {
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
	if !exists(left) || !exists(held) {
		t.Error("a group that was just made was removed")
	}
	for _, group := range []string{left, held} {
		old := time.Now().Add(-2 * minStaleAge)
		if err := os.Chtimes(group, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveStale(time.Now()); err != nil {
		t.Fatal(err)
	}
	if exists(left) {
		t.Error("a group that no process has open was left")
	}
	if !exists(held) {
		t.Error("a group that a process holds open was removed")
	}
}
