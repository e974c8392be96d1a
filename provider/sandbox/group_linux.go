package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits are kept by control groups, which are the host's: inside there is no way
// to them. The guest stays outside. Each controller is in version 2 or in version
// 1 on a host, or in neither; what there is is used. Those of version 1 are one
// per workspace and controller, below the group of this process, and the guest's
// thread that starts the workload joins, through a descriptor that the host
// opened. For those of version 2 see unified.

// controllers are those that are used.
var controllers = []string{"memory", "pids", "cpu", "freezer"}

// A controller is where groups of one kind are made on this host.
type controller struct {
	name string
	dir  string // the group of this process, or where groups of version 2 are made
	v2   bool
	err  error // why it can't be used
}

// unifiedFirst prefers version 2 for what is in both, which is the freezer.
var unifiedFirst = false

// hostControllers finds and tries each controller, once per process.
var hostControllers = sync.OnceValue(func() map[string]controller {
	found := map[string]controller{}
	own, err := ownGroups()
	for _, name := range controllers {
		c := controller{name: name, err: err}
		dir, ok := own[name]
		switch {
		case (!ok || unifiedFirst) && slices.Contains(hostUnified().has, name):
			c.dir, c.v2, c.err = hostUnified().dir, true, nil
		case err != nil:
		case !ok:
			c.err = fmt.Errorf("the host has no controller %q in cgroup version 1, and none to be used in version 2: %w", name, hostUnified().err)
		default:
			c.dir = dir
			c.err = c.try()
		}
		found[name] = c
	}
	return found
})

// ownGroups returns the directory of this process's group for each controller
// of version 1.
func ownGroups() (map[string]string, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] == "" {
			continue
		}
		for _, name := range strings.Split(parts[1], ",") {
			if at := mountOf(string(mounts), name, parts[2]); at != "" {
				own[name] = at
			}
		}
	}
	return own, nil
}

// mountOf finds where the group at path of a controller is mounted.
func mountOf(mounts, name, path string) string {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 || right[0] != "cgroup" || !slices.Contains(strings.Split(right[2], ","), name) {
			continue
		}
		if rel, err := filepath.Rel(left[3], path); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(left[4], rel)
		}
	}
	return ""
}

// try makes a group, limits it and removes it.
func (c controller) try() error {
	dir := filepath.Join(c.dir, groupPrefix+"probe-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("no group can be made: %w", err)
	}
	defer os.Remove(dir)
	for name, value := range c.settings(driver.Limits{driver.ResourceMemory: {Max: 64 << 20}, driver.ResourcePIDs: {Max: 100}, driver.ResourceCPU: {Max: 500}}) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			return fmt.Errorf("no limit can be set: %w", err)
		}
	}
	return nil
}

const groupPrefix = "croft-"

// cpuPeriod is the period of the CPU quota, in microseconds.
const cpuPeriod = 100_000

// settings returns what is to be written to the files of a group.
func (c controller) settings(l driver.Limits) map[string]string {
	set, most := map[string]string{}, l[driver.Resource(c.name)].Max
	switch {
	case most == 0:
	case c.name == "memory":
		set["memory.limit_in_bytes"] = strconv.FormatInt(most, 10)
	case c.name == "pids":
		set["pids.max"] = strconv.FormatInt(most+1, 10) // one is the thread that starts the others
	case c.name == "cpu":
		set["cpu.cfs_period_us"] = strconv.Itoa(cpuPeriod)
		set["cpu.cfs_quota_us"] = strconv.FormatInt(max(most*cpuPeriod/1000, 1000), 10)
	}
	return set
}

// limited says what enforces a limit by a controller.
func limited(name string) driver.Enforcement {
	c := hostControllers()[name]
	if tried, ok := proofs.Load(name); ok && c.err == nil {
		c.err, _ = tried.(error)
	}
	if c.err != nil {
		return driver.Enforcement{Reason: c.err.Error()}
	}
	version := "v1"
	if c.v2 {
		version = "v2"
	}
	return driver.Enforcement{By: "cgroup " + version + ", controller " + name}
}

// used lists the controllers that a unit needs.
func used(u unit) []controller {
	var list []controller
	l := u.policy.Limits
	if u.kernel {
		l = maps.Clone(l)
		delete(l, driver.ResourcePIDs) // what the host would count are gVisor's threads
	}
	for _, name := range controllers {
		c := hostControllers()[name]
		if c.err == nil && (len(c.settings(l)) > 0 || name == "freezer" && !u.throwaway && !u.kernel) {
			list = append(list, c)
		}
	}
	return list
}

func (c controller) group(id string) string { return filepath.Join(c.dir, groupPrefix+id) }

// groupDirs lists the directories of a unit's groups.
func groupDirs(u unit) []string {
	var dirs []string
	for _, c := range used(u) {
		if !c.v2 {
			dirs = append(dirs, c.group(u.id))
		}
	}
	if dir, _, ok := unifiedOf(u); ok {
		dirs = append(dirs, dir)
	}
	return dirs
}

// unifiedOf returns the group of version 2 that a unit needs, and the controllers
// that are used there. Without a process namespace it is what ends everything.
func unifiedOf(u unit) (dir string, names []string, ok bool) {
	for _, c := range used(u) {
		if c.v2 {
			names = append(names, c.name)
		}
	}
	if len(names) == 0 && (u.tmp == "" || hostUnified().err != nil) {
		return "", nil, false
	}
	return filepath.Join(hostUnified().dir, groupPrefix+u.id), names, true
}

// groups makes the groups of a unit and gives them to the guest that is to be
// launched. It returns what to close after the launch.
func groups(l *guest.Launch, u unit) (open []io.Closer, err error) {
	if dir, names, ok := unifiedOf(u); ok {
		host := hostUnified()
		limits := u.policy.Limits
		if err := host.make(dir, names, limits, u.kernel); err != nil {
			return nil, err
		}
		if open, err = host.give(l, dir, names); err != nil {
			return open, err
		}
	}
	for _, c := range used(u) {
		if c.v2 {
			continue
		}
		dir := c.group(u.id)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return open, err
		}
		limits := u.policy.Limits
		if u.kernel {
			limits = plus(limits, driver.ResourceMemory, kernelMemory)
		}
		files, err := c.give(l, dir, c.settings(limits))
		open = append(open, files...)
		if err != nil {
			return open, err
		}
	}
	return open, nil
}

// plus returns a copy of limits in which one, where it is set, is raised.
func plus(l driver.Limits, r driver.Resource, by int64) driver.Limits {
	if l[r].Max == 0 {
		return l
	}
	return l.With(driver.Limits{r: {Max: l[r].Max + by, BestEffort: l[r].BestEffort}})
}

// kernelMemory is what gVisor itself may use besides the workload, which shares
// its limit group.
const kernelMemory = 64 << 20

// oomSince says why a guest is lost that is in the limit groups itself, as one in
// gVisor is: when the kernel kills in its group, it is out of memory.
func oomSince(u unit) func() driver.Cause {
	if !u.kernel || u.policy.Limits[driver.ResourceMemory].Max == 0 {
		return nil
	}
	count := func() int64 {
		c := hostControllers()["memory"]
		file := filepath.Join(c.group(u.id), "memory.oom_control")
		if c.v2 {
			file = filepath.Join(c.group(u.id), "memory.events")
		}
		data, err := os.ReadFile(file)
		if c.err != nil || err != nil {
			return 0
		}
		return guest.Counter(string(data), "oom_kill ")
	}
	before := count()
	return func() driver.Cause {
		if count() > before {
			return driver.CauseOOM
		}
		return ""
	}
}

// noSwap makes a limit of memory one of swap, too. Without swap accounting there is
// no such file.
func (c controller) noSwap(dir string, set map[string]string) {
	if limit := set["memory.limit_in_bytes"]; limit != "" {
		os.WriteFile(filepath.Join(dir, "memory.memsw.limit_in_bytes"), []byte(limit), 0o600) //nolint:errcheck // see above
	}
}

// give sets the limits of one group and hands its files to the guest.
func (c controller) give(l *guest.Launch, dir string, set map[string]string) (open []io.Closer, err error) {
	for file, value := range set {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600); err != nil {
			return nil, fmt.Errorf("limit %s: %w", c.name, err)
		}
	}
	c.noSwap(dir, set)
	wanted := map[string]string{"group-" + c.name: "tasks"}
	switch c.name {
	case "memory":
		wanted[guest.EventsOOM] = "memory.oom_control"
	case "pids":
		wanted[guest.EventsPIDs] = "pids.events"
	}
	for name, file := range wanted {
		flag := os.O_RDONLY
		if file == "tasks" {
			flag = os.O_WRONLY
			l.Config.Groups = append(l.Config.Groups, name)
		}
		f, err := os.OpenFile(filepath.Join(dir, file), flag, 0)
		if err != nil {
			return open, err
		}
		open = append(open, f)
		l.Files = append(l.Files, guest.Named{Name: name, File: f})
	}
	return open, nil
}

// removeGroups removes groups, and ends what runs in those of version 2.
func removeGroups(dirs []string) error {
	var errs error
	for _, dir := range dirs {
		if isUnified(dir) {
			errs = errors.Join(errs, killUnified(dir))
		}
	}
	for _, dir := range dirs { // who was in that is gone from these
		errs = errors.Join(errs, removeGroup(dir))
	}
	return errs
}

// freezer is the directory among dirs that can freeze what is in its group.
func freezer(dirs []string) (string, bool) {
	c := hostControllers()["freezer"]
	for _, dir := range dirs {
		if c.err == nil && filepath.Dir(dir) == c.dir {
			return dir, true
		}
	}
	return "", false
}

// setFrozen freezes or thaws a group and waits until that is done.
func setFrozen(ctx context.Context, dir string, frozen bool) error {
	file, state := filepath.Join(dir, "freezer.state"), filepath.Join(dir, "freezer.state")
	write, want := "THAWED", "THAWED"
	if frozen {
		write, want = "FROZEN", "FROZEN"
	}
	if isUnified(dir) {
		file, state = filepath.Join(dir, workGroup, "cgroup.freeze"), filepath.Join(dir, workGroup, "cgroup.events")
		write, want = "0", "frozen 0"
		if frozen {
			write, want = "1", "frozen 1"
		}
	}
	for {
		if err := os.WriteFile(file, []byte(write), 0o600); err != nil {
			return err
		}
		data, err := os.ReadFile(state)
		if err != nil {
			return err
		}
		if strings.Contains("\n"+string(data), "\n"+want+"\n") {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond): // it is FREEZING: some are in the kernel
		}
	}
}
