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

// A reaper takes what descends from the commands and was left to this process.
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
	r.requestPass() // for the orphans that there are
	go func() {
		defer close(r.done)
		for range r.wake {
			r.reapOrphans()
		}
	}()
	return r, nil
}

// requestPass asks for a pass.
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
	for range 2 { // what dies in the first is reaped in the second
		r.reapOrphans()
	}
}

// reapOrphans reaps orphans that are dead, and kills those that live while no command
// does: they can only descend from one that has ended. No child is started
// meanwhile, so one that is not known is an orphan.
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
	killAll(func() []proc { //nolint:errcheck // what dies later sends SIGCHLD
		return descendants(candidates(0), func(p proc) bool { return mine[p.pid] && p.ppid == r.self })
	})
	r.liveOrphans()
}

// hasNoDescendants reports whether surely no process descends from a command that has
// ended, without a look at all of /proc: what it leaves behind is a child of this
// process before its end can be seen. While several commands run, the end of one can
// hide a child of another from a reader of the list, so then the answer is no.
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

// liveOrphans reaps the dead ones and returns the others. A child in the session of
// this process was started elsewhere in it: commands lead sessions of their own,
// which their descendants can leave only for new ones.
func (r *reaper) liveOrphans() []proc {
	known := r.m.childPIDs()
	var live []proc
	pids, err := r.listChildren()
	if err != nil {
		pids, _ = allPIDs() // a kernel without that file: judged one by one
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
		syscall.Wait4(pid, &ws, syscall.WNOHANG, nil) //nolint:errcheck // it is a zombie and ours
	}
	return live
}

// listChildren lists the children of this process's first thread, which is where the
// kernel puts orphans.
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
