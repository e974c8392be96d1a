package sandbox

import (
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

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
	"github.com/croft-run/croft/workspace/driver"
)

// Control groups of version 2 are one tree for all controllers, in which no group
// with groups below it holds processes, and a thread is where its process is. So
// a workspace has three:
//
//	croft-<id>        what both may use together
//	croft-<id>/guest  the guest, which is born there
//	croft-<id>/work   the workload, with the limits
//
// A child is born where the guest is, and moved by it at once, with whatever it
// has started meanwhile; what it can use before that is bounded by the group of
// both. The end of the group is the end of every process in it.

const (
	guestGroup = "guest"
	workGroup  = "work"
)

// A unified is where groups of version 2 can be made on this host.
type unified struct {
	dir string
	has []string // controllers that groups made there have
	err error    // why none can be made
}

// hostUnified finds and tries it, once per process.
var hostUnified = sync.OnceValue(func() unified {
	own, root, err := ownUnified()
	if err != nil {
		return unified{err: err}
	}
	errs := errors.New("no group of cgroup version 2 can be made")
	// The group of this process holds processes, so those above it are tried,
	// too: groups beside that of this process.
	for dir := own; ; dir = filepath.Dir(dir) {
		u := unified{dir: dir}
		if u.err = u.try(); u.err == nil {
			return u
		}
		errs = errors.Join(errs, u.err)
		if dir == root || dir == "/" {
			return unified{err: errs}
		}
	}
})

// ownUnified returns the directory of this process's group of version 2, and of
// the topmost one that is seen.
func ownUnified() (own, root string, err error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(data)) {
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

// try makes groups as a workspace has them, and finds out what they can limit.
func (u *unified) try() error {
	dir := filepath.Join(u.dir, groupPrefix+"probe-"+strconv.Itoa(os.Getpid()))
	u.enable(u.dir)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	defer os.Remove(dir)
	u.enable(dir)
	work := filepath.Join(dir, workGroup)
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	defer os.Remove(work)
	if err := unix.Access(filepath.Join(work, "cgroup.kill"), unix.W_OK); err != nil {
		return fmt.Errorf("%s: cgroup.kill: %w", u.dir, err)
	}
	data, err := os.ReadFile(filepath.Join(work, "cgroup.controllers"))
	if err != nil {
		return err
	}
	u.has = append(strings.Fields(string(data)), "freezer") // which is no controller there, and always
	return nil
}

// enable gives groups below dir what dir itself has. What can't be given is
// missing there, and seen so.
func (u *unified) enable(dir string) {
	for _, name := range controllers {
		os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0o600) //nolint:errcheck // see above
	}
}

// settings2 is settings for a group of version 2.
func settings2(l driver.Limits) map[string]string {
	set := map[string]string{}
	if memory := l[driver.ResourceMemory].Max; memory > 0 {
		set["memory.max"] = strconv.FormatInt(memory, 10)
	}
	if pids := l[driver.ResourcePIDs].Max; pids > 0 {
		set["pids.max"] = strconv.FormatInt(pids, 10)
	}
	if cpu := l[driver.ResourceCPU].Max; cpu > 0 {
		set["cpu.max"] = fmt.Sprintf("%d %d", max(cpu*cpuPeriod/1000, 1000), cpuPeriod)
	}
	return set
}

// Room for the guest beside the workload, in the group of both.
const (
	guestMemory = 64 << 20
	guestPIDs   = 256
)

// make makes the groups of a unit, with limits by the given controllers. With
// kernel, the workload is where the guest is.
func (u *unified) make(dir string, names []string, l driver.Limits, kernel bool) error {
	l = maps.Clone(l)
	maps.DeleteFunc(l, func(r driver.Resource, _ driver.Limit) bool { return !slices.Contains(names, string(r)) })
	for _, path := range []string{dir, filepath.Join(dir, guestGroup), filepath.Join(dir, workGroup)} {
		if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if path == dir {
			u.enable(dir)
		}
	}
	both := plus(plus(l, driver.ResourceMemory, guestMemory), driver.ResourcePIDs, guestPIDs)
	if l[driver.ResourceMemory].Max > 0 {
		os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0o600) //nolint:errcheck // without swap there is no such file
	}
	if !kernel {
		both = maps.Clone(both)
		delete(both, driver.ResourceCPU) // the guest must not wait for its workload
	}
	for path, set := range map[string]map[string]string{dir: settings2(both), filepath.Join(dir, workGroup): settings2(l)} {
		for file, value := range set {
			if err := os.WriteFile(filepath.Join(path, file), []byte(value), 0o600); err != nil {
				return fmt.Errorf("limit: %w", err)
			}
		}
	}
	return nil
}

// give makes the guest be born in its group, and hands it what it needs to move
// its children. It returns what to close after the launch.
func (u *unified) give(l *guest.Launch, dir string, names []string) (open []io.Closer, err error) {
	home, err := os.Open(filepath.Join(dir, guestGroup))
	if err != nil {
		return nil, err
	}
	open = append(open, home)
	l.Sys.UseCgroupFD, l.Sys.CgroupFD = true, int(home.Fd())
	if len(names) == 0 || l.Config.Kernel != nil {
		return open, nil
	}
	work := filepath.Join(dir, workGroup)
	wanted := map[string]string{guest.GroupWork: filepath.Join(work, "cgroup.procs"), guest.GroupGuest: filepath.Join(dir, guestGroup, "cgroup.procs")}
	if slices.Contains(names, "memory") {
		wanted[guest.EventsOOM] = filepath.Join(work, "memory.events")
	}
	if slices.Contains(names, "pids") {
		wanted[guest.EventsPIDs] = filepath.Join(work, "pids.events")
	}
	for name, path := range wanted {
		flag := os.O_RDONLY
		if name == guest.GroupWork {
			flag = os.O_WRONLY
		}
		f, err := os.OpenFile(path, flag, 0)
		if err != nil {
			return open, err
		}
		open = append(open, f)
		l.Files = append(l.Files, guest.Named{Name: name, File: f})
	}
	return open, nil
}

// isUnified reports whether dir is a group of version 2.
func isUnified(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.kill"))
	return err == nil
}

// killUnified ends whatever is in a group of version 2 or below it, and removes
// those below.
func killUnified(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0o600); err != nil {
		return err
	}
	for _, name := range []string{guestGroup, workGroup} {
		if err := removeGroup(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// removeGroup removes a group in which nothing runs any more. The kernel takes a
// moment to notice that, and on a machine under load those who were killed take
// theirs to end.
func removeGroup(dir string) error {
	const patience, look = 30 * time.Second, 5 * time.Millisecond
	err := os.Remove(dir)
	for till := time.Now().Add(patience); errors.Is(err, unix.EBUSY) && time.Now().Before(till); {
		time.Sleep(look)
		err = os.Remove(dir)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the limit group %s: %w: %w", dir, fault.Unavailable, err)
	}
	return nil
}
