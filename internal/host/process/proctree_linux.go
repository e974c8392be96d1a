package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

// Walk is the Tree that scans /proc. The package doc says what it does not find.
type Walk struct{}

func defaultTree() Tree {
	if procWorks() {
		return Walk{}
	}
	return Group{}
}

// Track implements Tree.
func (Walk) Track(spec *Spec) (Tracked, error) {
	g := &walkTracked{}
	for _, kv := range spec.Env {
		if strings.HasPrefix(kv, sessionEnv+"=") {
			g.envEntry = kv
		}
	}
	return g, nil
}

type walkTracked struct {
	envEntry string // CROFT_SESSION entry of the tree, or ""
	start    uint64 // start time of the leader
	envMarks envMarks
}

func (g *walkTracked) Release() {}

func (g *walkTracked) Signal(leader int, sig syscall.Signal) error {
	var errs error
	for _, p := range g.listMembers(leader) {
		if err := signalProc(p, sig); err != nil {
			errs = errors.Join(errs, fmt.Errorf("process: signal %d: %w: %w", p.pid, errorCode(err), err))
		}
	}
	return errs
}

func (g *walkTracked) Alive(leader int) bool { return len(g.listMembers(leader)) > 0 }

func (g *walkTracked) Kill(leader int) error {
	return killAll(func() []proc { return g.listMembers(leader) })
}

// listMembers lists the living processes of the tree.
func (g *walkTracked) listMembers(leader int) []proc {
	if g.start == 0 {
		p, ok := readProc(leader)
		if !ok {
			return nil
		}
		g.start = p.start
	}
	return descendants(candidates(g.start), func(p proc) bool {
		return p.pid == leader || p.sid == leader || p.pgrp == leader || g.envEntry != "" && g.envMarks.hasEntry(p, g.envEntry)
	})
}

// envMarks caches whether processes have a CROFT_SESSION entry, since a process can
// overwrite its environment. A process never gains the entry later: it inherits the entry
// at its start or not at all.
type envMarks struct {
	known map[procID]bool // results
	noEnv map[procID]bool // had no environment until the time-out
}

// A process has no environment for a moment of execve, which is long on a busy host. So one
// whose environment is empty is checked again: until execTimeout while the kernel has not laid
// out its environment yet, else until emptyTimeout.
const (
	execTimeout  = 2 * time.Second
	emptyTimeout = 100 * time.Millisecond
)

func (m *envMarks) hasEntry(p proc, entries ...string) bool {
	if has, known := m.known[p.procID()]; known {
		return has
	}
	if p.kernelThread || !p.isAlive() {
		return false
	}
	if m.known == nil {
		m.known, m.noEnv = map[procID]bool{}, map[procID]bool{}
	}
	has, bare := hasMarker(p.pid, entries...)
	for begin := time.Now(); bare && !m.noEnv[p.procID()]; {
		now, ok := readProc(p.pid)
		if !ok || !now.isAlive() || now.start != p.start {
			return false
		}
		timeout := emptyTimeout
		if now.inExec && statHasEnv() {
			timeout = execTimeout
		}
		if time.Since(begin) > timeout {
			m.noEnv[p.procID()] = true
			break
		}
		time.Sleep(500 * time.Microsecond)
		has, bare = hasMarker(p.pid, entries...)
	}
	if !bare {
		m.known[p.procID()] = has
	}
	return has
}

// candidates returns the processes that were started at or after start, except this one.
func candidates(start uint64) []proc {
	pids, _ := allPIDs() // without /proc no process is found
	var all []proc
	for _, pid := range pids {
		if p, ok := readProc(pid); ok && p.start >= start && pid != os.Getpid() {
			all = append(all, p)
		}
	}
	return all
}

// descendants returns the living processes for which root is true, and their descendants.
func descendants(all []proc, root func(proc) bool) []proc {
	in := map[int]bool{}
	var tree []proc
	for grew := true; grew; {
		grew = false
		rest := all[:0:0]
		for _, p := range all {
			if !in[p.ppid] && !root(p) {
				rest = append(rest, p)
				continue
			}
			in[p.pid], grew = true, true
			if p.isAlive() {
				tree = append(tree, p)
			}
		}
		all = rest
	}
	return tree
}

// Descendants returns the pids of the living descendants of this process. With
// Options.Subreaper a process whose parent has exited stays one.
func Descendants() []int {
	var pids []int
	for _, p := range descendants(candidates(0), func(p proc) bool { return p.ppid == os.Getpid() }) {
		pids = append(pids, p.pid)
	}
	return pids
}

// killAll kills the processes that list returns until it returns none. A growing tree is
// stopped first (SIGSTOP): while no process of it dies, every descendant can be found
// through its parents.
func killAll(list func() []proc) error {
	stopped, foreign := map[procID]bool{}, map[procID]bool{}
	calm := time.Now().Add(killTimeout / 2) // then kill, even if the tree still grows
	var till time.Time
	for pause := 100 * time.Microsecond; ; {
		left := slices.DeleteFunc(list(), func(p proc) bool { return foreign[p.procID()] })
		if len(left) == 0 {
			break
		}
		grew := false
		for _, p := range left {
			if w := p.procID(); !stopped[w] {
				grew, stopped[w] = true, true
				foreign[w] = errors.Is(signalProc(p, unix.SIGSTOP), unix.EPERM)
			}
		}
		if grew && !time.Now().After(calm) {
			continue
		}
		for _, p := range left {
			signalProc(p, unix.SIGKILL) //nolint:errcheck // a survivor is listed again
		}
		if till.IsZero() {
			till = time.Now().Add(killTimeout)
		}
		if time.Now().After(till) {
			return fmt.Errorf("process: kill: %w: %d processes still live after %v", fault.Unavailable, len(left), killTimeout)
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
	n := 0
	for _, f := range foreign {
		if f {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("process: kill: %w: %d processes belong to another user", fault.PermissionDenied, n)
	}
	return nil
}

// killMarked kills the processes of sessions whose Manager died.
func killMarked(ids []string) error {
	if !procWorks() {
		return nil
	}
	entries := make([]string, len(ids))
	for i, id := range ids {
		entries[i] = sessionEnv + "=" + id
	}
	var found envMarks
	return killAll(func() []proc {
		return descendants(candidates(0), func(p proc) bool { return found.hasEntry(p, entries...) })
	})
}
