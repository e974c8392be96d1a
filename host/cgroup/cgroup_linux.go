package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/cgroup/cgroupv1"
)

// The controllers that are used. The freezer is none in version 2, where every group
// can be frozen.
const (
	Memory  = "memory"
	PIDs    = "pids"
	CPU     = "cpu"
	Freezer = "freezer"
)

var controllers = []string{Memory, PIDs, CPU, Freezer}

// Limits are the limits by controller: bytes of memory, processes, thousandths of a
// core. 0 is none.
type Limits map[string]int64

// Prefix begins the names of all groups that this package makes.
const Prefix = "croft-"

// probePrefix begins the names of groups that are made to try something; the id of
// the process that made one ends it.
const probePrefix = Prefix + "probe-"

// A Controller says where groups of a controller are made on this host.
type Controller struct {
	Name string
	Dir  string // the parent of the groups
	V2   bool
	Err  error // why it can't be used
}

// preferV2 is set by PreferV2.
var preferV2 = false

// PreferV2 makes what is in both versions, as the freezer is, be used in version 2.
// It is for tests, which call it before anything else of this package.
func PreferV2() { preferV2 = true }

// findControllers finds and tries each controller, once per process.
var findControllers = sync.OnceValue(func() map[string]Controller {
	found := map[string]Controller{}
	v1, err := cgroupv1.Hierarchies()
	for _, name := range controllers {
		c := Controller{Name: name, Err: err}
		dir, ok := v1[name]
		switch {
		case (!ok || preferV2) && slices.Contains(findV2().controllers, name):
			c.Dir, c.V2, c.Err = findV2().dir, true, nil
		case err != nil:
		case !ok:
			c.Err = fmt.Errorf("the host has no controller %q in cgroup version 1, and none to be used in version 2: %w", name, findV2().err)
		default:
			c.Dir = dir
			c.Err = cgroupv1.Try(filepath.Join(dir, probePrefix+strconv.Itoa(os.Getpid())), name)
		}
		found[name] = c
	}
	return found
})

// Find returns a controller by its name.
func Find(name string) Controller { return findControllers()[name] }

// Parents lists the directories below which this process makes groups.
func Parents() []string {
	dirs := map[string]bool{}
	for _, c := range findControllers() {
		if c.Err == nil {
			dirs[c.Dir] = true
		}
	}
	if h := findV2(); h.err == nil {
		dirs[h.dir] = true
	}
	var list []string
	for dir := range dirs {
		list = append(list, dir)
	}
	slices.Sort(list)
	return list
}

// String names the controller and its version.
func (c Controller) String() string {
	if c.V2 {
		return "cgroup v2, controller " + c.Name
	}
	return "cgroup v1, controller " + c.Name
}

// Groups are the groups of one supervisor and its workload.
type Groups struct {
	Name   string // of the groups, after Prefix
	Limits Limits
	Freeze bool // the workload is to be frozen some day
	Kill   bool // the end of the groups is to end all in them: only version 2 does
	Inside bool // the supervisor is limited together with its workload
}

// usedControllers lists the controllers that the groups need and the host has.
func (g *Groups) usedControllers() []Controller {
	var list []Controller
	for _, name := range controllers {
		c := Find(name)
		if c.Err == nil && (g.Limits[name] > 0 || name == Freezer && g.Freeze) {
			list = append(list, c)
		}
	}
	return list
}

// groupV2 returns the group of version 2, and the controllers that are used there.
func (g *Groups) groupV2() (dir string, names []string, ok bool) {
	for _, c := range g.usedControllers() {
		if c.V2 {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 && (!g.Kill || findV2().err != nil) {
		return "", nil, false
	}
	return filepath.Join(findV2().dir, Prefix+g.Name), names, true
}

func (g *Groups) groupDir(c Controller) string { return filepath.Join(c.Dir, Prefix+g.Name) }

// Dirs lists the directories of the groups, made or not.
func (g *Groups) Dirs() []string {
	var dirs []string
	for _, c := range g.usedControllers() {
		if !c.V2 {
			dirs = append(dirs, g.groupDir(c))
		}
	}
	if dir, _, ok := g.groupV2(); ok {
		dirs = append(dirs, dir)
	}
	return dirs
}

// Limited returns the directory of the group in which a controller limits the
// workload.
func (g *Groups) Limited(controller string) string {
	c := Find(controller)
	if c.V2 {
		return filepath.Join(g.groupDir(c), workGroup)
	}
	return g.groupDir(c)
}

// supervisorReserve is the memory and the processes that a supervisor may use besides its
// workload where they have a limit together.
var supervisorReserve = Limits{Memory: 64 << 20, PIDs: 256}

// Create makes the groups and opens what the supervisor needs of them. The caller
// closes it, also after an error.
func (g *Groups) Create() (*Files, error) {
	files := new(Files)
	if dir, names, ok := g.groupV2(); ok {
		if err := g.createV2(dir, names); err != nil {
			return files, err
		}
		if err := g.openV2(files, dir, names); err != nil {
			return files, err
		}
	}
	for _, c := range g.usedControllers() {
		if c.V2 {
			continue
		}
		limit := g.Limits[c.Name]
		if g.Inside {
			limit += supervisorReserve[c.Name]
		}
		if err := cgroupv1.Create(g.groupDir(c), c.Name, limit); err != nil {
			return files, err
		}
		if err := files.openV1(g.groupDir(c), c.Name); err != nil {
			return files, err
		}
	}
	return files, nil
}

// Files are files of groups, for a supervisor.
type Files struct {
	// Threads are by controller of version 1: the thread that writes 0 to one joins.
	Threads map[string]*os.File

	// Birth is the directory of the group of version 2 that the supervisor is to be
	// started in, nil without one. Work and Supervisor list the processes of the
	// two groups below; writing to the first moves a process there.
	SpawnDir, Work, Supervisor *os.File

	// OOM and PIDs count what the limits refused; nil without one.
	OOM, PIDs *os.File
}

// Close closes the files. The supervisor has its own descriptors by then.
func (f *Files) Close() error {
	all := []*os.File{f.SpawnDir, f.Work, f.Supervisor, f.OOM, f.PIDs}
	for _, file := range f.Threads {
		all = append(all, file)
	}
	var errs error
	for _, file := range all {
		if file != nil {
			errs = errors.Join(errs, file.Close())
		}
	}
	return errs
}

func (f *Files) openV1(dir, controller string) error {
	file, err := os.OpenFile(filepath.Join(dir, cgroupv1.Procs), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if f.Threads == nil {
		f.Threads = map[string]*os.File{}
	}
	f.Threads[controller] = file
	switch controller {
	case Memory:
		f.OOM, err = os.Open(filepath.Join(dir, "memory.oom_control"))
	case PIDs:
		f.PIDs, err = os.Open(filepath.Join(dir, "pids.events"))
	}
	return err
}

// Remove ends what runs in groups of version 2, and removes all groups.
func Remove(dirs []string) error {
	var errs error
	for _, dir := range dirs {
		if isV2(dir) {
			errs = errors.Join(errs, killV2(dir))
		}
	}
	for _, dir := range dirs { // what was killed has left these, too
		errs = errors.Join(errs, removeGroup(dir))
	}
	return errs
}

// removeGroup removes a group that is to become empty: killed processes take a
// moment to end on a machine under load, and the kernel one to notice.
func removeGroup(dir string) error {
	const timeout, interval = 30 * time.Second, 5 * time.Millisecond
	err := os.Remove(dir)
	for end := time.Now().Add(timeout); errors.Is(err, unix.EBUSY) && time.Now().Before(end); {
		time.Sleep(interval)
		err = os.Remove(dir)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the cgroup %s: %w: %w", dir, fault.Unavailable, err)
	}
	return nil
}

// FreezerOf returns the one of dirs whose group can be frozen.
func FreezerOf(dirs []string) (string, bool) {
	c := Find(Freezer)
	for _, dir := range dirs {
		if c.Err == nil && filepath.Dir(dir) == c.Dir {
			return dir, true
		}
	}
	return "", false
}

// SetFrozen freezes or thaws a group and waits until that is done.
func SetFrozen(ctx context.Context, dir string, frozen bool) error {
	set := cgroupv1.SetFrozen
	if isV2(dir) {
		set = setFrozenV2
	}
	for {
		if done, err := set(dir, frozen); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond): // some processes are in the kernel
		}
	}
}

// OOMKills counts the processes that were killed in groups for want of memory.
func OOMKills(dirs ...string) (n int64) {
	for _, dir := range dirs {
		n += readCounter(dir, "memory.oom_control", "oom_kill") + readCounter(dir, "memory.events", "oom_kill")
	}
	return n
}

// Throttled reports whether a process in a group had to wait for the next period of
// its CPU quota.
func Throttled(dir string) bool { return readCounter(dir, "cpu.stat", "nr_throttled") > 0 }

// readCounter reads one line of a file of counters; 0 without it.
func readCounter(dir, file, name string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}
