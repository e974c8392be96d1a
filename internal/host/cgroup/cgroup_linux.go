package cgroup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/croft-run/croft/internal/host/cgroup/cgroupv1"
)

// Names of the controllers. In version 2 the freezer is not a controller: every cgroup can
// be frozen.
const (
	Memory  = "memory"
	PIDs    = "pids"
	CPU     = "cpu"
	Freezer = "freezer"
)

var controllers = []string{Memory, PIDs, CPU, Freezer}

// Limits are limits by controller: bytes of memory, number of processes, thousandths of a
// core. 0 is unlimited.
type Limits map[string]int64

// Prefix begins the names of all cgroups that this package creates.
const Prefix = "croft-"

// probePrefix begins the names of cgroups that probe the host; the pid of the process that
// created one ends it.
const probePrefix = Prefix + "probe-"

// A Controller is a cgroup controller of this host.
type Controller struct {
	Name string
	Dir  string // parent of the cgroups
	V2   bool
	Err  error // why it can't be used
}

var preferV2 = false

// PreferV2 selects version 2 for controllers that both versions have, such as the freezer.
// It is for tests, which call it before any other function of this package.
func PreferV2() { preferV2 = true }

// findControllers finds and probes each controller, once per process.
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
			c.Err = fmt.Errorf("the host has no controller %q in cgroup version 1, and no usable one in version 2: %w", name,
				cmp.Or(errors.Join(findV2().err, findV2().missing), error(fault.Unsupported)))
		default:
			c.Dir = dir
			c.Err = cgroupv1.Try(filepath.Join(dir, probePrefix+strconv.Itoa(os.Getpid())), name)
			if c.Err != nil && os.Geteuid() != 0 {
				c.Err = fmt.Errorf("%w: cgroups of version 1 are for root: run croft as root", c.Err)
			}
		}
		found[name] = c
	}
	return found
})

// Find returns a controller by its name.
func Find(name string) Controller { return findControllers()[name] }

// Parents lists the directories below which this process creates cgroups.
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

// SocketBuffers says how a limit of memory counts the buffers of sockets on this kernel, ""
// if as all other memory.
func (c Controller) SocketBuffers() string {
	switch {
	case c.Name != Memory || c.Err != nil || c.V2:
		return ""
	case cgroupv1.CountsSockets(c.Dir):
		return "buffers of sockets are counted apart, a quarter of the limit in addition"
	}
	return "this kernel does not count buffers of sockets"
}

// Groups are the cgroups of one supervisor and its workload.
type Groups struct {
	ID           string // of the workspace; the names have its digest, since every user can list cgroups
	Limits       Limits
	Freeze       bool // the workload may be frozen
	Kill         bool // Remove kills all processes in them; version 2 only
	SharedLimits bool // the supervisor shares the limits of its workload
	Commands     bool // single commands may have cgroups of their own, see CreateCommand

	probe string // see NewProbe
}

// NewProbe returns cgroups with which this process probes a controller.
func NewProbe(controller string, limit int64) *Groups {
	return &Groups{probe: controller, Limits: Limits{controller: limit}}
}

// usedControllers lists the needed controllers that the host has.
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

// groupV2 returns the cgroup of version 2 and the controllers used in it.
func (g *Groups) groupV2() (dir string, names []string, ok bool) {
	for _, c := range g.usedControllers() {
		if c.V2 {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 && (!g.Kill || findV2().err != nil) {
		return "", nil, false
	}
	return filepath.Join(findV2().dir, g.name()), names, true
}

// name returns the name of the cgroups.
func (g *Groups) name() string {
	if g.probe != "" {
		return probePrefix + g.probe + "-" + strconv.Itoa(os.Getpid())
	}
	sum := sha256.Sum256([]byte(g.ID))
	return Prefix + hex.EncodeToString(sum[:12])
}

func (g *Groups) groupDir(c Controller) string { return filepath.Join(c.Dir, g.name()) }

// Dirs lists the directories of the cgroups, existing or not.
func (g *Groups) Dirs() []string {
	var dirs []string
	for _, name := range CommandControllers {
		if c := Find(name); g.Commands && c.Err == nil && !c.V2 && g.Limits[name] <= 0 { // CreateCommand makes it
			dirs = append(dirs, g.groupDir(c))
		}
	}
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

// Joinable returns the directory of the cgroup that a process of the workload joins, where
// a controller limits it.
func (g *Groups) Joinable(controller string) string {
	if Find(controller).V2 {
		return filepath.Join(g.Limited(controller), mainGroup)
	}
	return g.Limited(controller)
}

// Limited returns the directory of the cgroup in which a controller limits the workload.
func (g *Groups) Limited(controller string) string {
	c := Find(controller)
	if c.V2 {
		return filepath.Join(g.groupDir(c), workGroup)
	}
	return g.groupDir(c)
}

// supervisorReserve is the memory and the number of processes that a supervisor may use
// besides its workload under a shared limit.
var supervisorReserve = Limits{Memory: 64 << 20, PIDs: 256}

// Create creates the cgroups and opens their files for the supervisor. The caller closes
// the files, also after an error.
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
		if g.SharedLimits {
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

// Files are open files of cgroups, for a supervisor.
type Files struct {
	// Threads has a file for each controller of version 1: a thread that writes 0 to it
	// joins the cgroup.
	Threads map[string]*os.File

	// SpawnDir is the directory of the cgroup of version 2 in which the supervisor is
	// started (CLONE_INTO_CGROUP), or nil. Work and Supervisor list the processes of the
	// two child cgroups; writing a pid to Work moves that process.
	SpawnDir, Work, Supervisor *os.File

	// OOM and PIDs are the event counters of the limits, or nil.
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

// Remove kills the processes in cgroups of version 2, and removes all given cgroups.
func Remove(dirs []string) error {
	var errs error
	for _, dir := range dirs {
		if isV2(dir) {
			errs = errors.Join(errs, killV2(dir))
		}
	}
	for _, dir := range dirs { // the killed processes have left these, too
		errs = errors.Join(errs, removeCommands(dir), removeGroup(dir))
	}
	return errs
}

// removeGroup removes a cgroup. It retries while the cgroup is busy: killed processes take
// a moment to exit on a machine under load, and so does the kernel's bookkeeping.
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

// FreezerOf returns the directory in dirs whose cgroup can be frozen.
func FreezerOf(dirs []string) (string, bool) {
	c := Find(Freezer)
	for _, dir := range dirs {
		if isV2(dir) || c.Err == nil && filepath.Dir(dir) == c.Dir { // in version 2 another process may have its own parent
			return dir, true
		}
	}
	return "", false
}

// SetFrozen freezes or thaws a cgroup and waits until that is done.
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
		case <-time.After(5 * time.Millisecond): // a process in a system call freezes later
		}
	}
}

// IsFrozen reports whether a cgroup is frozen or is being frozen.
func IsFrozen(dir string) bool {
	if isV2(dir) {
		return isFrozenV2(dir)
	}
	return cgroupv1.IsFrozen(dir)
}

// OOMKills counts the processes that the OOM killer killed in cgroups.
func OOMKills(dirs ...string) (n int64) {
	for _, dir := range dirs {
		n += readCounter(dir, "memory.oom_control", "oom_kill") + readCounter(dir, "memory.events", "oom_kill")
	}
	return n
}

// Throttled reports whether the CPU quota of a cgroup delayed a process in it.
func Throttled(dir string) bool { return readCounter(dir, "cpu.stat", "nr_throttled") > 0 }

// readCounter reads one line of a file of counters; 0 if it is missing.
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
