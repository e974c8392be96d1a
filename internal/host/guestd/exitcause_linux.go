package guestd

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

// exitCauses attributes the end of a command to a limit, by comparing counters of its
// cgroup (OOM kills, refused forks) before and after the command. Commands that run at the
// same time share a cgroup, so each that fails then has the same cause; one with limits of
// its own has its own counter, too.
type exitCauses struct {
	inner process.Tree
	oom   int // descriptors of counters; -1 without
	pids  int
	root  string
	disk  bool // a full disk is a cause

	mu    sync.Mutex
	found map[string]driver.Cause // by session, from its end until causeOf
}

func newExitCauses(cfg *guestproto.Config, inner process.Tree) *exitCauses {
	c := &exitCauses{inner: inner, oom: -1, pids: -1, root: cfg.Root, disk: cfg.Limits[driver.ResourceDisk].Max > 0 || cfg.WatchDisk, found: map[string]driver.Cause{}}
	if fd, ok := cfg.Descriptors[guestproto.EventsOOM]; ok {
		c.oom = fd
	}
	if fd, ok := cfg.Descriptors[guestproto.EventsPIDs]; ok {
		c.pids = fd
	}
	return c
}

type counters struct{ oom, pids int64 }

func (c *exitCauses) readCounters() counters {
	return counters{readCounter(c.oom, "oom_kill "), readCounter(c.pids, "max ")}
}

// readCounter returns the number on the line that begins with name; 0 without such a line.
func readCounter(fd int, name string) int64 {
	if fd < 0 {
		return 0
	}
	var buf [512]byte
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(buf[:n])) {
		if value, ok := strings.CutPrefix(line, name); ok {
			count, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err == nil {
				return count
			}
		}
	}
	return 0
}

// Track notes what was counted before a command.
func (c *exitCauses) Track(spec *process.Spec) (process.Tracked, error) {
	g, err := c.inner.Track(spec)
	if err != nil {
		return nil, err
	}
	t := &causeTracked{Tracked: g, c: c, id: spec.ID, before: c.readCounters()}
	if spec.Group != nil {
		t.own = spec.Group.Events
	}
	return t, nil
}

type causeTracked struct {
	process.Tracked
	c      *exitCauses
	id     string
	before counters
	own    *os.File // counts the processes that the limit of this command refused; nil without one
}

// Release records the cause of a command that has ended.
func (g *causeTracked) Release() {
	g.Tracked.Release()
	after := g.c.readCounters()
	switch {
	case after.oom > g.before.oom:
		g.c.record(g.id, driver.CauseOOM)
	case after.pids > g.before.pids || g.own != nil && readCounter(int(g.own.Fd()), "max ") > 0:
		g.c.record(g.id, driver.CausePIDs)
	case g.c.diskFull():
		g.c.record(g.id, driver.CauseDisk)
	}
}

// maxFound bounds causes of commands that succeeded nevertheless, which causeOf never takes.
const maxFound = 1000

func (c *exitCauses) record(id string, cause driver.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.found) > maxFound {
		clear(c.found)
	}
	c.found[id] = cause
}

// diskFull reports whether the workspace's file system is full.
func (c *exitCauses) diskFull() bool {
	var st unix.Statfs_t
	const least = 64 << 10 // a file system is never full to its last byte
	return c.disk && unix.Statfs(c.root, &st) == nil && st.Bavail*uint64(st.Bsize) < least
}

// causeOf is the process.Options.Cause of the guest.
func (c *exitCauses) causeOf(end process.End) driver.Cause {
	c.mu.Lock()
	defer c.mu.Unlock()
	cause := c.found[end.ID]
	delete(c.found, end.ID)
	return cause
}

// oomPreferred is a starter that raises the oom_score_adj of each child, so that the OOM
// killer prefers processes of the workload to the guest: the starter thread is in the
// same cgroup. It is a preference, not a guarantee.
type oomPreferred struct{ process.Starter }

// oomScoreAdj counts as if the process used half of the memory limit.
const oomScoreAdj = "500"

// Start starts a child. Processes that the child forks before its score is raised keep
// the old score, and count with the memory that they use.
func (e oomPreferred) Start(spec *process.Spec) (process.Child, error) {
	child, err := e.Starter.Start(spec)
	if err == nil {
		os.WriteFile("/proc/"+strconv.Itoa(child.PID)+"/oom_score_adj", []byte(oomScoreAdj), 0) //nolint:errcheck // it may have ended
	}
	return child, err
}

// A cgroupMover moves each process that it starts from the guest's cgroup into the
// workload's, together with every other process in the guest's cgroup but the guest:
// descendants that a child forked before it was moved. Later descendants start in the
// workload's cgroup.
type cgroupMover struct {
	process.Starter
	work, guest int   // descriptors of cgroup.procs
	limit       int64 // of processes in work; 0 does not limit them
	causes      *exitCauses

	mu sync.Mutex
}

// Start starts a child and moves it into the cgroup of the workload, or into its own. One
// child starts at a time, so that what is in the guest's cgroup is this child's. The kernel does not
// refuse what is moved: a child that started several processes before, and is above the limit with
// them, is killed with them.
func (m *cgroupMover) Start(spec *process.Spec) (process.Child, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	child, err := m.Starter.Start(spec)
	if err != nil {
		return child, err
	}
	to, limit := m.work, m.limit
	if spec.Group != nil && spec.Group.Procs != nil {
		to, limit = int(spec.Group.Procs.Fd()), spec.MaxPIDs
	}
	moved := m.move(child.PID, to)
	if limit > 0 && len(moved) > 1 && int64(len(listProcesses(to))) > limit {
		for _, pid := range moved {
			unix.Kill(pid, unix.SIGKILL) //nolint:errcheck // it may have ended
		}
		m.causes.record(spec.ID, driver.CausePIDs)
	}
	return child, nil
}

// move returns the processes that it moved.
func (m *cgroupMover) move(pid, to int) (moved []int) {
	strays := []int{pid}
	const rounds = 100 // a fork bomb may never let the list be empty; the parent cgroup limits it
	for n := 0; n <= rounds && len(strays) > 0; n++ {
		for _, id := range strays {
			if _, err := unix.Write(to, []byte(strconv.Itoa(id))); err == nil { // else it has ended
				moved = append(moved, id)
			}
		}
		strays = slices.DeleteFunc(listProcesses(m.guest), func(id int) bool { return id == os.Getpid() || id == 0 })
	}
	return moved
}

// listProcesses returns the processes of a cgroup, which are 0 outside of this namespace.
func listProcesses(procs int) []int {
	var buf [16 << 10]byte
	n, _ := unix.Pread(procs, buf[:], 0) // without the list nothing more is moved
	var pids []int
	for _, text := range strings.Fields(string(buf[:max(n, 0)])) {
		if pid, err := strconv.Atoi(text); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
