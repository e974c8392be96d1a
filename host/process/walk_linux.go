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

// Walk is the tree that a walk over /proc finds. The package comment says what it
// can't find.
type Walk struct{}

func defaultTree() Tree {
	if procWorks() {
		return Walk{}
	}
	return Group{}
}

// Plant takes a grip on what will descend from a child.
func (Walk) Plant(spec *Spec) (Grip, error) {
	g := &walkGrip{}
	for _, kv := range spec.Env {
		if strings.HasPrefix(kv, marker+"=") {
			g.mark = kv
		}
	}
	return g, nil
}

type walkGrip struct {
	mark  string // in the environment of the tree, "" if there is none
	start uint64 // when the leader was started
	marks marks
}

func (g *walkGrip) Release() {}

func (g *walkGrip) Signal(leader int, sig syscall.Signal) error {
	var errs error
	for _, p := range g.members(leader) {
		if err := signalProc(p, sig); err != nil {
			errs = errors.Join(errs, fmt.Errorf("process: signal %d: %w: %w", p.pid, codeOf(err), err))
		}
	}
	return errs
}

func (g *walkGrip) Left(leader int) bool { return len(g.members(leader)) > 0 }

func (g *walkGrip) Kill(leader int) error {
	return killAll(func() []proc { return g.members(leader) })
}

// members lists the living processes of the tree.
func (g *walkGrip) members(leader int) []proc {
	if g.start == 0 {
		p, ok := readProc(leader)
		if !ok {
			return nil
		}
		g.start = p.start
	}
	return descendants(candidates(g.start), func(p proc) bool {
		return p.pid == leader || p.sid == leader || p.pgrp == leader || g.mark != "" && g.marks.has(p, g.mark)
	})
}

// marks judges processes by their environment and remembers the answers, since a
// process can lose what it was started with. None gets it later: whoever is started
// by one that has it has it, too, until it is given another environment.
type marks struct {
	known map[who]bool // the answers
	bare  map[who]bool // looked at for long enough
}

// execPatience is how long a process without any environment is looked at again:
// in the middle of exec it has none for a moment.
const execPatience = 100 * time.Millisecond

func (m *marks) has(p proc, entries ...string) bool {
	if has, known := m.known[p.who()]; known {
		return has
	}
	if p.kernel || !p.alive() {
		return false
	}
	if m.known == nil {
		m.known, m.bare = map[who]bool{}, map[who]bool{}
	}
	has, bare := hasMarker(p.pid, entries...)
	for till := time.Now().Add(execPatience); bare && !m.bare[p.who()]; {
		if time.Now().After(till) {
			m.bare[p.who()] = true
			break
		}
		time.Sleep(500 * time.Microsecond)
		if now, ok := readProc(p.pid); !ok || !now.alive() || now.start != p.start {
			return false
		}
		has, bare = hasMarker(p.pid, entries...)
	}
	if !bare {
		m.known[p.who()] = has
	}
	return has
}

// candidates are the processes that were started at or after start, all but this
// one.
func candidates(start uint64) []proc {
	pids, _ := allPIDs() // without /proc there is nothing to find
	var all []proc
	for _, pid := range pids {
		if p, ok := readProc(pid); ok && p.start >= start && pid != os.Getpid() {
			all = append(all, p)
		}
	}
	return all
}

// descendants keeps the living processes that are roots or have a root above.
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
			if p.alive() {
				tree = append(tree, p)
			}
		}
		all = rest
	}
	return tree
}

// killAll kills what list returns until it returns nothing. A tree that grows is
// stopped first: while nothing of it dies, every parent still leads to its
// children.
func killAll(list func() []proc) error {
	stopped, foreign := map[who]bool{}, map[who]bool{}
	calm := time.Now().Add(killPatience / 2) // by then it is killed, however it grows
	var till time.Time
	for pause := 100 * time.Microsecond; ; {
		left := slices.DeleteFunc(list(), func(p proc) bool { return foreign[p.who()] })
		if len(left) == 0 {
			break
		}
		grew := false
		for _, p := range left {
			if w := p.who(); !stopped[w] {
				grew, stopped[w] = true, true
				foreign[w] = errors.Is(signalProc(p, unix.SIGSTOP), unix.EPERM)
			}
		}
		if grew && !time.Now().After(calm) {
			continue
		}
		for _, p := range left {
			signalProc(p, unix.SIGKILL) //nolint:errcheck // who lives is listed again
		}
		if till.IsZero() {
			till = time.Now().Add(killPatience)
		}
		if time.Now().After(till) {
			return fmt.Errorf("process: kill: %w: %d processes still live after %v", fault.Unavailable, len(left), killPatience)
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

// killMarked kills the processes of sessions that their Manager did not survive.
func killMarked(ids []string) error {
	if !procWorks() {
		return nil
	}
	entries := make([]string, len(ids))
	for i, id := range ids {
		entries[i] = marker + "=" + id
	}
	var found marks
	return killAll(func() []proc {
		return descendants(candidates(0), func(p proc) bool { return found.has(p, entries...) })
	})
}
