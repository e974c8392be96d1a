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

// A proc is what /proc/PID/stat says of a process.
type proc struct {
	pid, ppid, pgrp, sid int
	state                byte
	start                uint64 // in ticks since the boot: with pid, who it is
	kernelThread         bool   // a thread of the kernel
}

// A procID names a process for good: numbers are used again.
type procID struct {
	pid   int
	start uint64
}

func (p proc) procID() procID { return procID{p.pid, p.start} }

// isAlive reports whether it still runs: a zombie in /proc does not.
func (p proc) isAlive() bool { return p.state != 'Z' && p.state != 'X' && p.state != 'x' }

// parseStat reads the line of /proc/PID/stat. The name of the program is in
// parentheses and may have any byte in it, parentheses and spaces included, so
// the fields are counted from the last one.
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

// allPIDs lists the processes that /proc shows.
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

// procWorks reports whether /proc shows the processes that this one sees.
var procWorks = sync.OnceValue(func() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
})

// hasMarker reports whether a process has one of the given entries in the
// environment that it was started with, and whether it has none at all: then it
// may be in the middle of exec.
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

// signalProc signals exactly the process that p was read from.
func signalProc(p proc, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err == nil {
		defer unix.Close(fd) //nolint:errcheck // it was only signalled
	}
	if now, ok := readProc(p.pid); !ok || now.start != p.start {
		return nil // it is gone, and its number is another's
	}
	if err != nil {
		err = unix.Kill(p.pid, sig) // no descriptors here: the check above must do
	} else {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
