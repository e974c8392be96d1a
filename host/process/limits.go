package process

import (
	"fmt"
	"math"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// limit applies the limits of a command to spec and returns how long it may run, 0 for
// ever. Wall and openFiles are enforced, memory is where best effort is enough, and
// other limits are refused.
func (m *Manager) limit(spec *Spec, cmd *driver.Command) (time.Duration, error) {
	wall := cmd.Timeout
	if wall == 0 {
		wall = m.opts.Timeout
	}
	if err := cmd.Limits.Check(); err != nil {
		return 0, fmt.Errorf("process: %w", err)
	}
	if w := time.Duration(cmd.Limits[driver.ResourceWall].Max); w > 0 && (wall == 0 || w < wall) {
		wall = w
	}
	var rl rlimits
	rl.openFiles = cmd.Limits[driver.ResourceOpenFiles].Max
	if cmd.Limits[driver.ResourceMemory].BestEffort {
		rl.data = cmd.Limits[driver.ResourceMemory].Max
	}
	for _, r := range driver.Resources {
		done := r.Name == driver.ResourceWall || r.Name == driver.ResourceOpenFiles
		if l := cmd.Limits[r.Name]; !done && l.Max > 0 && !l.BestEffort {
			return 0, fmt.Errorf("process: limit %s: %w: not enforced per command here (ask for it as best-effort to go on without)",
				r.Name, fault.Unsupported)
		}
	}
	return wall, rl.apply(spec)
}

// rlimits are the limits that each process of a tree carries by itself.
type rlimits struct {
	openFiles int64 // 0 is as it is
	data      int64 // bytes of private writable memory
}

// apply lets a shell set the limits and become the program, so that none of the
// program's code runs without them. The shell sees a constant script; argv stays
// words.
func (r rlimits) apply(spec *Spec) error {
	if r == (rlimits{}) {
		return nil
	}
	script := ""
	for _, l := range []struct {
		option   string
		resource int
		max      int64
		unit     int64
	}{
		{"-n", unix.RLIMIT_NOFILE, r.openFiles, 1},
		{"-d", unix.RLIMIT_DATA, r.data, 1024},
	} {
		if l.max > 0 {
			script += "ulimit " + l.option + " " + strconv.FormatInt(capped(l.resource, l.max)/l.unit, 10) + " && "
		}
	}
	shell, err := lookPath("sh", "/", DefaultPath)
	if err != nil {
		return fmt.Errorf("process: set limits: %w", err)
	}
	spec.Argv = append([]string{"sh", "-c", script + `exec "$0" "$@"`, spec.Path}, spec.Argv[1:]...)
	spec.Path = shell
	return nil
}

// capped is the limit that can be set: nobody raises a hard limit.
func capped(resource int, limit int64) int64 {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err == nil && now.Max < math.MaxInt64 && int64(now.Max) < limit {
		return int64(now.Max)
	}
	return limit
}
