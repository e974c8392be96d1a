package process

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A reaper reaps and kills orphaned descendants of the commands, of which this process is
// the subreaper.
type reaper struct {
	m    *Manager
	self int
	sid  int
	wake chan os.Signal // SIGCHLD, or the end of a command
	done chan struct{}
}

func startReaper(m *Manager) (*reaper, error) {
	sid, err := unix.Getsid(0)
	if err != nil {
		return nil, fmt.Errorf("process: own session: %w: %w", errorCode(err), err)
	}
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("process: become subreaper: %w: %w", errorCode(err), err)
		}
	}
	r := &reaper{m: m, self: os.Getpid(), sid: sid, wake: make(chan os.Signal, 1), done: make(chan struct{})}
	signal.Notify(r.wake, unix.SIGCHLD)
	r.requestPass() // for existing orphans
	go func() {
		defer close(r.done)
		for range r.wake {
			r.reapOrphans()
		}
	}()
	return r, nil
}

// requestPass starts a call of reapOrphans.
func (r *reaper) requestPass() {
	select {
	case r.wake <- unix.SIGCHLD:
	default:
	}
}

func (r *reaper) stop() {
	signal.Stop(r.wake)
	close(r.wake)
	<-r.done
	for range 2 { // the second reaps what the first killed
		r.reapOrphans()
	}
}

// reapOrphans reaps dead orphans, and kills living ones while no command runs: they can
// only descend from a command that has ended. No child is started meanwhile, so an unknown
// child is an orphan.
func (r *reaper) reapOrphans() {
	r.m.reapMu.Lock()
	defer r.m.reapMu.Unlock()
	strays := r.liveOrphans()
	if len(strays) == 0 || len(r.m.childPIDs()) > 0 {
		return
	}
	mine := map[int]bool{}
	for _, p := range strays {
		mine[p.pid] = true
	}
	killAll(func() []proc { //nolint:errcheck // a later death sends SIGCHLD
		return descendants(candidates(0), func(p proc) bool { return mine[p.pid] && p.ppid == r.self })
	})
	r.liveOrphans()
}

// hasNoDescendants reports whether an ended command surely has no descendants, without a
// scan of /proc: its orphans are children of this subreaper before its exit is visible.
// While several commands run, the exit of one can hide a child of another from a reader of
// the children file, so the result is false then.
func (m *Manager) hasNoDescendants(leader Child, tracked Tracked) bool {
	if _, walks := tracked.(*walkTracked); !walks || m.reaper == nil || !leader.hasExited() {
		return false
	}
	if known := m.childPIDs(); len(known) != 1 || !known[leader.PID] {
		return false
	}
	pids, err := m.reaper.listChildren()
	return err == nil && !slices.ContainsFunc(pids, func(pid int) bool { return pid != leader.PID })
}

// liveOrphans reaps the dead orphans and returns the living ones. A child in the session of
// this process was started by another part of it: commands lead sessions of their own, and
// their descendants can leave them only for new sessions.
func (r *reaper) liveOrphans() []proc {
	known := r.m.childPIDs()
	var live []proc
	pids, err := r.listChildren()
	if err != nil {
		pids, _ = allPIDs() // a kernel without the children file: check every process
	}
	for _, pid := range pids {
		if known[pid] {
			continue
		}
		p, ok := readProc(pid)
		if !ok || p.ppid != r.self || p.sid == r.sid {
			continue
		}
		if p.isAlive() {
			live = append(live, p)
			continue
		}
		var ws syscall.WaitStatus
		syscall.Wait4(pid, &ws, syscall.WNOHANG, nil) //nolint:errcheck // it is a zombie and our child
	}
	return live
}

// listChildren lists the children of the main thread, to which the kernel reparents
// orphans.
func (r *reaper) listChildren() ([]int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", r.self, r.self))
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range bytes.FieldsSeq(data) {
		pid, err := strconv.Atoi(string(field))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
