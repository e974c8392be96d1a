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

// applyLimits applies the limits of a command to spec and returns its time limit, 0 for
// none. It enforces wall and openFiles, memory if best effort is enough, and CPU and pids
// if the command has a cgroup of its own; it refuses other limits.
func (m *Manager) applyLimits(spec *Spec, cmd *driver.Command) (time.Duration, error) {
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
	spec.MaxPIDs = cmd.Limits[driver.ResourcePIDs].Max
	for _, r := range driver.Resources {
		done := r.Name == driver.ResourceWall || r.Name == driver.ResourceOpenFiles || spec.Group != nil && limitedByGroup(r.Name)
		if l := cmd.Limits[r.Name]; !done && l.Max > 0 && !l.BestEffort {
			err := fmt.Errorf("process: limit %s: %w: not enforced per command here", r.Name, fault.Unsupported)
			return 0, fault.WithHint(err, fault.HintBestEffort)
		}
	}
	return wall, rl.wrapInShell(spec)
}

// rlimits are limits of setrlimit(2), which each process of a tree has separately.
type rlimits struct {
	openFiles int64 // 0 leaves it unchanged
	data      int64 // bytes of private writable memory
}

// wrapInShell runs the program through a shell that sets the limits and then execs it, so
// that no code of the program runs without them. The script is constant; argv is passed as
// arguments and not parsed.
func (r rlimits) wrapInShell(spec *Spec) error {
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
			script += "ulimit " + l.option + " " + strconv.FormatInt(clampToHardLimit(l.resource, l.max)/l.unit, 10) + " && "
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

// clampToHardLimit returns the limit or the present hard limit, if that is lower: an
// unprivileged process can't raise it.
func clampToHardLimit(resource int, limit int64) int64 {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err == nil && now.Max < math.MaxInt64 && int64(now.Max) < limit {
		return int64(now.Max)
	}
	return limit
}
