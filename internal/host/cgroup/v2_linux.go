package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup/cgroupv1"
)

// Names of the child cgroups.
const (
	supervisorGroup = "guest"
	workGroup       = "work"
	mainGroup       = "main" // in workGroup: all processes but those of commands with limits of their own
)

var limitControllers = []string{CPU, Memory, PIDs}

// A hierarchyV2 is the directory for cgroups of version 2 on this host.
type hierarchyV2 struct {
	dir         string
	controllers []string // of cgroups created there, and the freezer
	err         error    // why no cgroup can be created
	missing     error    // why some controllers are not among them; may be nil
}

func (h *hierarchyV2) has(controller string) bool { return slices.Contains(h.controllers, controller) }

// findV2 finds and probes the hierarchy, once per process. Where an ordinary user has none
// with a limit of memory, it asks systemd for one, and this process moves there.
var findV2 = sync.OnceValue(func() hierarchyV2 {
	h := searchV2()
	v1, _ := cgroupv1.Hierarchies() // findControllers returns the error
	if _, inV1 := v1[Memory]; inV1 || h.has(Memory) {
		return h
	}
	if os.Geteuid() == 0 {
		if h.err == nil {
			h.missing = fmt.Errorf("neither %s nor a cgroup above it can enable it for new cgroups: %w", h.dir, fault.Unsupported)
		}
		return h
	}
	delegated, err := delegatedV2()
	if err != nil {
		h.missing = err
		return h
	}
	delegated.missing = delegated.errMissing()
	return delegated
})

// searchV2 probes the cgroup of this process and its parents.
func searchV2() hierarchyV2 {
	own, root, err := ownV2()
	if err != nil {
		return hierarchyV2{err: err}
	}
	return nearestV2(own, root, (*hierarchyV2).probe)
}

// nearestV2 returns the nearest directory from own up to root below which cgroups have limits of
// memory, processes and CPU time; without one that with the most controllers. A cgroup with processes
// in it, as that of this process has, enables no controller for its children, except at the root.
func nearestV2(own, root string, probe func(*hierarchyV2) error) hierarchyV2 {
	best := hierarchyV2{err: errors.New("no cgroup of version 2 can be created")}
	for dir := own; ; dir = filepath.Dir(dir) {
		h := hierarchyV2{dir: dir}
		err := probe(&h)
		switch {
		case err == nil && (best.err != nil || len(h.limits()) > len(best.limits())):
			best = h
		case best.err != nil:
			best.err = errors.Join(best.err, err)
		}
		if len(best.limits()) == len(limitControllers) || dir == root || dir == "/" {
			return best
		}
	}
}

// limits returns the controllers of the hierarchy that limit something.
func (h *hierarchyV2) limits() []string {
	return slices.DeleteFunc(slices.Clone(limitControllers), func(name string) bool { return !h.has(name) })
}

// ErrV2 returns why no cgroup of version 2 can be created, or nil.
func ErrV2() error { return findV2().err }

// ownV2 returns the directory of this process's cgroup, and of the topmost mounted one.
func ownV2() (own, root string, err error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(groups)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for mount := range strings.Lines(string(mounts)) {
			before, after, _ := strings.Cut(mount, " - ")
			left, right := strings.Fields(before), strings.Fields(after)
			if len(left) < 5 || len(right) < 1 || right[0] != "cgroup2" {
				continue
			}
			if rel, err := filepath.Rel(left[3], path); err == nil && filepath.IsLocal(rel) {
				return filepath.Join(left[4], rel), left[4], nil
			}
		}
	}
	return "", "", fmt.Errorf("no cgroup2 file system is mounted: %w", fault.Unsupported)
}

// probe creates cgroups as a workload needs them, and reads their controllers.
func (h *hierarchyV2) probe() error {
	dir := filepath.Join(h.dir, probePrefix+strconv.Itoa(os.Getpid()))
	enableControllers(h.dir)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	defer os.Remove(dir)
	enableControllers(dir)
	work := filepath.Join(dir, workGroup)
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	defer os.Remove(work)
	if err := unix.Access(filepath.Join(work, "cgroup.kill"), unix.W_OK); err != nil {
		return fmt.Errorf("%s: cgroup.kill: %w", h.dir, err)
	}
	data, err := os.ReadFile(filepath.Join(work, "cgroup.controllers"))
	if err != nil {
		return err
	}
	h.controllers = append(strings.Fields(string(data)), Freezer)
	return nil
}

// enableControllers enables the controllers of dir for its child cgroups. Those that can't
// be enabled are missing in cgroup.controllers of a child.
func enableControllers(dir string) {
	for _, name := range controllers {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0o600)
	}
}

// settingsV2 returns the values of the files of a cgroup.
func settingsV2(l Limits) map[string]string {
	set := map[string]string{}
	if l[Memory] > 0 {
		set["memory.max"] = strconv.FormatInt(l[Memory], 10)
	}
	if l[PIDs] > 0 {
		set["pids.max"] = strconv.FormatInt(l[PIDs], 10)
	}
	if l[CPU] > 0 {
		const period = cgroupv1.CPUPeriod
		set["cpu.max"] = fmt.Sprintf("%d %d", max(l[CPU]*period/1000, 1000), period)
	}
	return set
}

// createV2 creates the cgroups, with limits of the named controllers.
func (g *Groups) createV2(dir string, names []string) error {
	work := filepath.Join(dir, workGroup)
	for _, path := range []string{dir, filepath.Join(dir, supervisorGroup), work, filepath.Join(work, mainGroup)} {
		if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if path == dir || path == work {
			enableControllers(path)
		}
	}
	own := maps.Clone(g.Limits)
	maps.DeleteFunc(own, func(name string, limit int64) bool { return limit <= 0 || !slices.Contains(names, name) })
	both := maps.Clone(own)
	for name := range both {
		both[name] += supervisorReserve[name]
	}
	if !g.SharedLimits {
		delete(both, CPU) // the CPU quota must not delay the supervisor
	}
	if both[Memory] > 0 { // without swap there is no such file
		_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0o600)
	}
	// Kernels before 6.11 count a refused fork in the cgroup of the process alone.
	inMain := Limits{PIDs: own[PIDs]}
	for path, limits := range map[string]Limits{dir: both, work: own, filepath.Join(work, mainGroup): inMain} {
		for file, value := range settingsV2(limits) {
			if err := os.WriteFile(filepath.Join(path, file), []byte(value), 0o600); err != nil {
				return fmt.Errorf("limit: %w", err)
			}
		}
	}
	return nil
}

// openV2 opens the files of the cgroups.
func (g *Groups) openV2(f *Files, dir string, names []string) (err error) {
	supervisor, work := filepath.Join(dir, supervisorGroup), filepath.Join(dir, workGroup)
	if f.SpawnDir, err = os.Open(supervisor); err != nil || len(names) == 0 || g.SharedLimits {
		return err
	}
	if f.Work, err = os.OpenFile(filepath.Join(work, mainGroup, "cgroup.procs"), os.O_RDWR, 0); err != nil {
		return err
	}
	if f.Supervisor, err = os.Open(filepath.Join(supervisor, "cgroup.procs")); err != nil {
		return err
	}
	if slices.Contains(names, Memory) {
		if f.OOM, err = os.Open(filepath.Join(work, "memory.events")); err != nil {
			return err
		}
	}
	if slices.Contains(names, PIDs) {
		f.PIDs, err = os.Open(filepath.Join(work, mainGroup, "pids.events"))
	}
	return err
}

// isV2 reports whether dir is a cgroup of version 2.
func isV2(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.kill"))
	return err == nil
}

// killV2 kills all processes in a cgroup and its child cgroups, and removes the child
// cgroups. The cgroup may be gone: systemd removes a scope whose processes have ended.
func killV2(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0o600)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	work := filepath.Join(dir, workGroup)
	if err := removeCommands(work); err != nil {
		return err
	}
	for _, path := range []string{filepath.Join(dir, supervisorGroup), filepath.Join(work, mainGroup), work} {
		if err := removeGroup(path); err != nil {
			return err
		}
	}
	return nil
}

// isFrozenV2 reports whether the workload is frozen or is being frozen.
func isFrozenV2(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, workGroup, "cgroup.freeze"))
	return err == nil && string(data) == "1\n"
}

// setFrozenV2 freezes or thaws the workload, and reports whether that is complete.
func setFrozenV2(dir string, frozen bool) (done bool, err error) {
	write, want := "0", "frozen 0\n"
	if frozen {
		write, want = "1", "frozen 1\n"
	}
	work := filepath.Join(dir, workGroup)
	if err := os.WriteFile(filepath.Join(work, "cgroup.freeze"), []byte(write), 0o600); err != nil {
		return false, err
	}
	data, err := os.ReadFile(filepath.Join(work, "cgroup.events"))
	return strings.Contains("\n"+string(data), "\n"+want), err
}
