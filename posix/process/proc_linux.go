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
	kernel               bool   // a thread of the kernel
}

// A who names a process for good: numbers are used again.
type who struct {
	pid   int
	start uint64
}

func (p proc) who() who { return who{p.pid, p.start} }

// alive reports whether it still runs: a zombie in /proc does not.
func (p proc) alive() bool { return p.state != 'Z' && p.state != 'X' && p.state != 'x' }

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
	p.kernel = flags&0x200000 != 0 // PF_KTHREAD
	p.start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return p, err == nil
}

func readProc(pid int) (proc, bool) {
	data, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	p, ok := parseStat(data)
	return p, ok && p.pid == pid
}

// readSmall reads a small file of /proc with as few calls as there are.
func readSmall(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer closeRaw(fd)
	buf := make([]byte, 1024)
	n, err := unix.Read(fd, buf)
	return buf[:max(n, 0)], err
}

// readWhole reads a file of /proc of any size, as readSmall does.
func readWhole(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer closeRaw(fd)
	buf := make([]byte, 0, 8<<10)
	for {
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return buf, err
		}
		if buf = buf[:len(buf)+n]; len(buf) == cap(buf) {
			buf = slices.Grow(buf, len(buf))
		}
	}
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

// loadavg is /proc/loadavg, open for good, if it is the kernel's own: a container
// may have one mounted over it that tells something else. Its last field is the
// number that a process or thread was given last.
var loadavg = sync.OnceValue(func() int {
	var proc, file unix.Stat_t
	if unix.Stat("/proc", &proc) != nil || unix.Stat("/proc/loadavg", &file) != nil || proc.Dev != file.Dev {
		return -1
	}
	fd, err := unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
})

// lastPID returns the number that was given out last, 0 where it can't be known.
func lastPID() int {
	fd := loadavg()
	if fd < 0 {
		return 0
	}
	var buf [128]byte
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return 0
	}
	return parseLastPID(buf[:n])
}

// parseLastPID reads the last field of /proc/loadavg.
func parseLastPID(line []byte) int {
	line = bytes.TrimSpace(line)
	pid, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
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
	env, err := readWhole("/proc/" + strconv.Itoa(pid) + "/environ")
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
		defer closeRaw(fd)
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
