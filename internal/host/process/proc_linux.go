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
	threads              int
	start                uint64 // in ticks since boot
	kernelThread         bool   // PF_KTHREAD
	inExec               bool   // no environment yet (env_end is 0), which means execve if statHasEnv
}

// A procID identifies a process by pid and start time, because pids are reused.
type procID struct {
	pid   int
	start uint64
}

func (p proc) procID() procID { return procID{p.pid, p.start} }

// isAlive reports whether a thread of the process runs. The state is that of the main thread,
// which can end before the others.
func (p proc) isAlive() bool {
	return p.threads > 1 || p.state != 'Z' && p.state != 'X' && p.state != 'x'
}

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
	if p.threads, err = strconv.Atoi(string(fields[17])); err != nil {
		return proc{}, false
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	if err != nil {
		return proc{}, false
	}
	p.kernelThread = flags&0x200000 != 0 // PF_KTHREAD
	p.inExec = len(fields) > 48 && string(fields[48]) == "0"
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

// statHasEnv reports whether the kernel says in /proc/PID/stat where the environment is; gVisor
// always says 0.
var statHasEnv = sync.OnceValue(func() bool {
	self, ok := readProc(os.Getpid())
	return ok && !self.inExec
})

// hasMarker reports whether the initial environment of a process has one of the entries,
// and whether the environment is empty, as it is during execve.
func hasMarker(pid int, entries ...string) (has, bare bool) {
	env, err := readEnviron(pid)
	if err != nil {
		return false, errors.Is(err, unix.ESRCH) // it exits
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if slices.Contains(entries, string(kv)) {
			return true, false
		}
	}
	return false, len(env) == 0
}

// readEnviron reads the initial environment of a process. If the main thread has ended, which has
// no memory then, it is read through another thread.
func readEnviron(pid int) ([]byte, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	env, err := os.ReadFile(dir + "/environ")
	if len(env) > 0 || err != nil && !errors.Is(err, unix.ESRCH) {
		return env, err
	}
	threads, _ := os.ReadDir(dir + "/task") // it fails if the process has ended
	for _, thread := range threads {
		if env, err := os.ReadFile(dir + "/task/" + thread.Name() + "/environ"); err == nil && len(env) > 0 {
			return env, nil
		}
	}
	return env, err
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
