package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

func TestCommandGroup(t *testing.T) {
	for _, name := range CommandControllers {
		if c := Find(name); c.Err != nil {
			t.Skipf("skipped: host: control groups: %v", c.Err)
		}
	}
	g := &Groups{ID: driver.NewID(), Freeze: true, Commands: true, Limits: Limits{CPU: 400}}
	dirs := g.Dirs()
	t.Cleanup(func() { Remove(dirs) })
	files, err := g.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for range 2 { // the second one finds the parents
		c, err := g.CreateCommand(CommandName(1), Limits{PIDs: 5, CPU: 900})
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range c.dirs {
			if !strings.HasPrefix(filepath.Base(filepath.Dir(dir)), Prefix) && filepath.Base(filepath.Dir(dir)) != workGroup {
				t.Errorf("%s is not below the cgroup of the workspace", dir)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
		for _, dir := range c.dirs {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is left", dir)
			}
		}
	}
	left, err := g.CreateCommand(CommandName(2), Limits{PIDs: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Close(); err != nil {
		t.Error(err)
	}
	if err := Remove(dirs); err != nil {
		t.Error(err)
	}
	for _, dir := range append(dirs, left.dirs...) {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

// TestCommandGroupV2 moves a process into the cgroup of a command of version 2, beside the
// others. Limits need controllers, which the host may have in version 1 alone.
func TestCommandGroupV2(t *testing.T) {
	if !Find(Freezer).V2 {
		t.Skip("skipped: host: control groups: the freezer is of version 1; TestVersion2 runs this test")
	}
	g := &Groups{ID: driver.NewID(), Freeze: true, Commands: true}
	dirs := g.Dirs()
	t.Cleanup(func() { Remove(dirs) })
	files, err := g.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	c := &Command{}
	if err := g.createCommandV2(c, "1", Limits{}); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Procs.WriteString(strconv.Itoa(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if use := MeasureUsage(dirs); use.PIDs == nil || *use.PIDs != 1 {
		t.Errorf("the workspace uses %+v, want the process of the command", use)
	}
	dir, _ := FreezerOf(dirs)
	for _, frozen := range []bool{true, false} {
		if err := SetFrozen(t.Context(), dir, frozen); err != nil {
			t.Errorf("SetFrozen(%v): %v", frozen, err)
		}
	}
	if err := c.Remove(); err != nil { // it is in use, and stays
		t.Error(err)
	}
	go cmd.Wait()
	if err := Remove(dirs); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dirs[0]); err == nil {
		t.Errorf("%s is left", dirs[0])
	}
}
