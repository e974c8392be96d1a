package cgroup

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what the processes of cgroups use. A field that is not measured is nil.
type Usage struct {
	CPU    *time.Duration
	Memory *int64 // bytes
	PIDs   *int64
}

// MeasureUsage measures what the processes in cgroups use. In version 1 a workload has a cgroup
// of a controller only where it is limited; what its cgroups do not count is summed up over its
// processes, without those that have ended.
func MeasureUsage(dirs []string) Usage {
	var u Usage
	for _, dir := range dirs {
		if isV2(dir) {
			if n := readCounter(dir, "cpu.stat", "usage_usec"); n > 0 {
				u.CPU = new(time.Duration(n) * time.Microsecond)
			}
			setNumber(&u.Memory, dir, "memory.current")
			setNumber(&u.PIDs, dir, "pids.current")
			continue
		}
		setNumber(&u.Memory, dir, "memory.usage_in_bytes")
	}
	if u.CPU != nil && u.Memory != nil && u.PIDs != nil {
		return u
	}
	sum := sumProcesses(dirs)
	if u.CPU == nil {
		u.CPU = sum.CPU
	}
	if u.Memory == nil {
		u.Memory = sum.Memory
	}
	if u.PIDs == nil {
		u.PIDs = sum.PIDs
	}
	return u
}

func setNumber(to **int64, dir, file string) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil {
		*to = &n
	}
}

// sumProcesses sums up the CPU time and resident memory of the processes in cgroups.
func sumProcesses(dirs []string) Usage {
	pids := map[string]bool{}
	found := false
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { //nolint:errcheck // what is gone counts nothing
			if err != nil || !d.IsDir() {
				return nil
			}
			data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			found = found || err == nil
			for _, pid := range strings.Fields(string(data)) {
				pids[pid] = true
			}
			return nil
		})
	}
	if !found {
		return Usage{}
	}
	var cpu time.Duration
	var memory int64
	for pid := range pids {
		one := processUsage(pid)
		cpu, memory = cpu+one.own, memory+one.memory
	}
	return Usage{CPU: &cpu, Memory: &memory, PIDs: new(int64(len(pids)))}
}

// MeasureBelow measures what the descendants of a process use, without the process itself. CPU
// time of those that have ended counts once their parents have waited for them.
func MeasureBelow(pid int) Usage {
	top := processUsage(strconv.Itoa(pid))
	cpu, memory, pids := top.waited, int64(0), int64(0)
	seen := map[string]bool{}
	list := childrenOf(strconv.Itoa(pid))
	for len(list) > 0 {
		one := list[0]
		if list = list[1:]; seen[one] {
			continue
		}
		seen[one] = true
		u := processUsage(one)
		cpu, memory, pids = cpu+u.own+u.waited, memory+u.memory, pids+1
		list = append(list, childrenOf(one)...)
	}
	return Usage{CPU: &cpu, Memory: &memory, PIDs: &pids}
}

// childrenOf returns the ids of the children of a process, which each of its threads may have.
func childrenOf(pid string) []string {
	threads, err := filepath.Glob(filepath.Join("/proc", pid, "task", "*", "children"))
	if err != nil {
		return nil
	}
	var list []string
	for _, file := range threads {
		data, _ := os.ReadFile(file) // one that has ended has no children
		list = append(list, strings.Fields(string(data))...)
	}
	return list
}

// clockTicks is the number of ticks per second of the times in /proc, on every architecture of Linux.
const clockTicks = 100

// A processStat is what a process uses.
type processStat struct {
	own    time.Duration // CPU time
	waited time.Duration // CPU time of descendants that have ended and were waited for
	memory int64         // bytes
}

// processUsage reads what a process uses from /proc/PID/stat.
func processUsage(pid string) processStat {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return processStat{} // it has ended
	}
	// Fields of proc(5) after the name of the program, which is in parentheses.
	const utime, stime, cutime, cstime, rss = 11, 12, 13, 14, 21
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) <= rss {
		return processStat{}
	}
	number := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64) // the kernel writes it
		return n
	}
	ticks := func(user, system string) time.Duration {
		return time.Duration(number(user)+number(system)) * (time.Second / clockTicks)
	}
	return processStat{own: ticks(f[utime], f[stime]), waited: ticks(f[cutime], f[cstime]), memory: number(f[rss]) * int64(os.Getpagesize())}
}
