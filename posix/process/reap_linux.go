package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Orphans are looked for while commands run and for as long as there are any:
// soon after something began or ended, and now and then in between. SIGCHLD would
// tell of each, but it wakes a thread for every child of every command.
const (
	reapSoon  = 20 * time.Millisecond
	reapLater = 100 * time.Millisecond
)

// A reaper takes what descends from the commands and was left to this process.
type reaper struct {
	m    *Manager
	self int
	sid  int
	wake chan struct{}
	quit chan struct{}
	done chan struct{}
}

func startReaper(m *Manager) (*reaper, error) {
	sid, err := unix.Getsid(0)
	if err != nil {
		return nil, fmt.Errorf("process: own session: %w: %w", codeOf(err), err)
	}
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("process: become subreaper: %w: %w", codeOf(err), err)
		}
	}
	r := &reaper{
		m: m, self: os.Getpid(), sid: sid,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go r.run()
	return r, nil
}

func (r *reaper) run() {
	defer close(r.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if r.pass() {
				timer.Reset(reapLater)
			}
		case <-r.wake:
			time.Sleep(reapSoon) // what ends together is reaped together
			if r.pass() {
				timer.Reset(reapLater)
			}
		case <-r.quit:
			return
		}
	}
}

// poke asks for a pass.
func (r *reaper) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reaper) stop() {
	close(r.quit)
	<-r.done
	for range 2 { // what dies in the first is reaped in the second
		r.pass()
	}
}

// pass reaps orphans that are dead, and kills those that live while no command
// does: nobody else can have started them. It returns whether there is more to
// come. No child is started meanwhile, so one that nobody knows is an orphan.
func (r *reaper) pass() bool {
	r.m.reapMu.Lock()
	defer r.m.reapMu.Unlock()
	strays := r.orphans()
	if len(r.m.leaders()) > 0 {
		return true
	}
	if len(strays) == 0 {
		return false
	}
	mine := map[int]bool{}
	for _, p := range strays {
		mine[p.pid] = true
	}
	killAll(func() []proc { //nolint:errcheck // what does not die now is met again at the next pass
		return descendants(candidates(1, 0, 0), func(p proc) bool { return mine[p.pid] && p.ppid == r.self })
	})
	r.orphans()
	return true
}

// childless reports whether surely nothing descends from a command that has ended,
// without a look at all the processes that others on this host have started
// meanwhile: what it leaves behind becomes a child of this process before its end
// can be seen. While several commands run, one that ends can hide another's child
// from whoever lists them, so then it is not asked.
func (m *Manager) childless(leader Child, grip Grip) bool {
	if _, walks := grip.(*walkGrip); !walks {
		return false
	}
	if lastPID() == leader.PID { // no process and no thread was made since
		return leader.exited()
	}
	if m.reaper == nil || !leader.exited() {
		return false
	}
	known := m.leaders()
	if len(known) != 1 || !known[leader.PID] {
		return false
	}
	self := strconv.Itoa(m.reaper.self)
	data, err := readWhole("/proc/" + self + "/task/" + self + "/children")
	if err != nil {
		return false
	}
	for field := range bytes.FieldsSeq(data) {
		if string(field) != strconv.Itoa(leader.PID) {
			return false
		}
	}
	return true
}

// orphans reaps the dead ones and returns the others. A child in the session of
// this process was started elsewhere in it: commands lead sessions of their own,
// which their descendants can leave only for new ones.
func (r *reaper) orphans() []proc {
	known := r.m.leaders()
	var live []proc
	for _, pid := range r.children() {
		if known[pid] {
			continue
		}
		p, ok := readProc(pid)
		if !ok || p.ppid != r.self || p.sid == r.sid {
			continue
		}
		if p.alive() {
			live = append(live, p)
			continue
		}
		var ws syscall.WaitStatus
		syscall.Wait4(pid, &ws, syscall.WNOHANG, nil) //nolint:errcheck // it is a zombie and ours
	}
	return live
}

// children lists the children of this process's first thread, which is where the
// kernel puts orphans.
func (r *reaper) children() []int {
	data, err := readWhole("/proc/" + strconv.Itoa(r.self) + "/task/" + strconv.Itoa(r.self) + "/children")
	if errors.Is(err, os.ErrNotExist) {
		pids, _ := allPIDs() // a kernel without that file: judged one by one
		return pids
	}
	var pids []int
	for _, field := range bytes.Fields(data) {
		if pid, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
