package process

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A proc is the content of /proc/PID/stat.
type proc struct {
	pid, ppid, pgrp, sid int
	state                byte
	start                uint64 // in ticks since boot
	kernelThread         bool   // PF_KTHREAD
}

// A procID identifies a process by pid and start time, because pids are reused.
type procID struct {
	pid   int
	start uint64
}

func (p proc) procID() procID { return procID{p.pid, p.start} }

// isAlive reports whether the process is no zombie.
func (p proc) isAlive() bool { return p.state != 'Z' && p.state != 'X' && p.state != 'x' }

// parseStat parses /proc/PID/stat. The program name is in parentheses and may contain any
// byte, also parentheses and spaces, so the fields are counted from the last parenthesis.
func parseStat(data []byte) (proc, bool) {
	open, shut := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 2 || shut < open {
		return proc{}, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(data[:open])))
	fields := bytes.Fields(data[shut+1:])
	if err != nil || pid <= 0 || len(fields) < 20 || len(fields[0]) != 1 {
		return proc{}, false
	}
	p := proc{pid: pid, state: fields[0][0]}
	for i, v := range []*int{&p.ppid, &p.pgrp, &p.sid} {
		if *v, err = strconv.Atoi(string(fields[1+i])); err != nil {
			return proc{}, false
		}
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	if err != nil {
		return proc{}, false
	}
	p.kernelThread = flags&0x200000 != 0 // PF_KTHREAD
	p.start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return p, err == nil
}

func readProc(pid int) (proc, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	p, ok := parseStat(data)
	return p, ok && p.pid == pid
}

// allPIDs lists the processes in /proc.
func allPIDs() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// procWorks reports whether /proc is mounted for the pid namespace of this process.
var procWorks = sync.OnceValue(func() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
})

// hasMarker reports whether the initial environment of a process has one of the entries,
// and whether the environment is empty, as it is during execve.
func hasMarker(pid int, entries ...string) (has, bare bool) {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false, false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if slices.Contains(entries, string(kv)) {
			return true, false
		}
	}
	return false, len(env) == 0
}

// signalProc signals the process that p was read from, through a pidfd, so that a reused
// pid is not hit.
func signalProc(p proc, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err == nil {
		defer unix.Close(fd) //nolint:errcheck // nothing was written to it
	}
	if now, ok := readProc(p.pid); !ok || now.start != p.start {
		return nil // it has ended, and its pid was reused
	}
	if err != nil {
		err = unix.Kill(p.pid, sig) // a kernel without pidfds: a race with pid reuse remains
	} else {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
