package cgroupv1

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Procs is the file of a cgroup to which a thread writes to join.
const Procs = "tasks"

// Hierarchies returns the directory of this process's cgroup for each controller.
func Hierarchies() (map[string]string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] == "" {
			continue
		}
		for _, controller := range strings.Split(parts[1], ",") {
			if dir := mountedAt(string(mounts), controller, parts[2]); dir != "" {
				dirs[controller] = dir
			}
		}
	}
	return dirs, nil
}

// mountedAt returns the directory of the cgroup at path in the hierarchy of a controller,
// or "" if it is not mounted.
func mountedAt(mounts, controller, path string) string {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 || right[0] != "cgroup" || !slices.Contains(strings.Split(right[2], ","), controller) {
			continue
		}
		if rel, err := filepath.Rel(left[3], path); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(left[4], rel)
		}
	}
	return ""
}

// CPUPeriod is the period of the CPU quota, in microseconds.
const CPUPeriod = 100_000

// Settings returns the values of the files of a cgroup of a controller. A memory limit is
// in bytes, a cpu limit in thousandths of a core.
func Settings(controller string, limit int64) map[string]string {
	if limit <= 0 {
		return nil
	}
	switch controller {
	case "memory":
		return map[string]string{"memory.limit_in_bytes": strconv.FormatInt(limit, 10)}
	case "pids": // one more, for the thread that joins the cgroup to start the workload
		return map[string]string{"pids.max": strconv.FormatInt(limit+1, 10)}
	case "cpu":
		return map[string]string{
			"cpu.cfs_period_us": strconv.Itoa(CPUPeriod),
			"cpu.cfs_quota_us":  strconv.FormatInt(max(limit*CPUPeriod/1000, 1000), 10),
		}
	}
	return nil
}

// Create creates the cgroup at dir, which may exist, and sets its limit; 0 is unlimited.
func Create(dir, controller string, limit int64) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for file, value := range Settings(controller, limit) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600); err != nil {
			return fmt.Errorf("limit %s: %w", controller, err)
		}
	}
	if controller == "memory" && limit > 0 { // swap, too; without swap accounting there is no such file
		_ = os.WriteFile(filepath.Join(dir, "memory.memsw.limit_in_bytes"), []byte(strconv.FormatInt(limit, 10)), 0o600)
		// Buffers of TCP and UDP sockets are counted apart, and only with a limit of their own.
		_ = os.WriteFile(filepath.Join(dir, socketLimit), []byte(strconv.FormatInt(max(limit/socketShare, minSockets), 10)), 0o600)
	}
	return nil
}

const (
	socketLimit = "memory.kmem.tcp.limit_in_bytes"
	socketShare = 4       // socket buffers have a quarter of the memory limit, in addition to it
	minSockets  = 1 << 20 // bytes that programs need
)

// CountsSockets reports whether the kernel limits the socket buffers of a cgroup, which
// has the controller memory.
func CountsSockets(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, socketLimit))
	return err == nil
}

// Try creates a cgroup with a limit at dir and removes it.
func Try(dir, controller string) error {
	limits := map[string]int64{"memory": 64 << 20, "pids": 100, "cpu": 500}
	defer os.Remove(dir)
	if err := Create(dir, controller, limits[controller]); err != nil {
		return fmt.Errorf("create a cgroup: %w", err)
	}
	return nil
}

// freezerState is the file of the cgroup freezer.
const freezerState = "freezer.state"

// SetFrozen freezes or thaws a cgroup, and reports whether that is complete.
func SetFrozen(dir string, frozen bool) (done bool, err error) {
	state := "THAWED"
	if frozen {
		state = "FROZEN"
	}
	if err := os.WriteFile(filepath.Join(dir, freezerState), []byte(state), 0o600); err != nil {
		return false, err
	}
	data, err := os.ReadFile(filepath.Join(dir, freezerState))
	return string(data) == state+"\n", err // the state is FREEZING meanwhile
}

// IsFrozen reports whether a cgroup is frozen or is being frozen.
func IsFrozen(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, freezerState))
	return err == nil && string(data) != "THAWED\n"
}
