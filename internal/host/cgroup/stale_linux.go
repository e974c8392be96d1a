package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/cgroup/cgroupv1"
)

// minStaleAge is the age at which a cgroup can be stale: a new one may not have a
// supervisor yet.
const minStaleAge = time.Minute

// RemoveStale removes stale cgroups: those of probes whose process has died, and those
// whose owner did not remove them, as when a data directory is deleted by hand. A stale
// cgroup has no process in it, and no process has a file of it open, as a live supervisor
// has. A cgroup of version 1 that has processes and no supervisor, or one whose workspace
// directory was deleted, is thawed: its processes can't end while they are frozen.
func RemoveStale(now time.Time) error {
	var errs error
	var idle, busy []string
	for _, dir := range Parents() {
		found, err := filepath.Glob(filepath.Join(dir, Prefix+"*"))
		if err != nil {
			return err
		}
		for _, group := range found {
			switch pid, ok := probePID(group); {
			case ok && errors.Is(unix.Kill(pid, 0), unix.ESRCH):
				errs = errors.Join(errs, Remove([]string{group}))
			case isIdle(group, now): // also one of a probe, whose pid may be another process by now
				idle = append(idle, group)
			case !ok:
				busy = append(busy, group)
			}
		}
	}
	return errors.Join(errs, releaseUnused(idle, busy))
}

// probePID returns the process that created a probe cgroup.
func probePID(group string) (pid int, ok bool) {
	name, ok := strings.CutPrefix(filepath.Base(group), probePrefix)
	if !ok {
		return 0, false
	}
	pid, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return pid, err == nil
}

// isIdle reports whether a cgroup is older than minStaleAge and has no process.
func isIdle(group string, now time.Time) bool {
	info, err := os.Stat(group)
	if err != nil || now.Sub(info.ModTime()) < minStaleAge {
		return false
	}
	procs, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	return err == nil && len(procs) == 0
}

// releaseUnused removes the idle cgroups and thaws the busy ones of which no process has a
// file open. If the open files of any process can't be listed, it does nothing.
func releaseUnused(idle, busy []string) error {
	busy = slices.DeleteFunc(busy, func(group string) bool { return !cgroupv1.IsFrozen(group) })
	if len(idle)+len(busy) == 0 {
		return nil
	}
	open, ok := openGroups()
	if !ok {
		return nil
	}
	for _, group := range busy {
		if open[filepath.Base(group)] {
			continue
		}
		if _, err := cgroupv1.SetFrozen(group, false); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for _, group := range idle {
		if open[filepath.Base(group)] {
			continue
		}
		for _, command := range commandsBelow(group) {
			unix.Rmdir(command) //nolint:errcheck // one that is in use keeps its parent, too
		}
		// EBUSY: it has child cgroups, or a process joined it meanwhile.
		if err := unix.Rmdir(group); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOENT) &&
			!errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return &os.PathError{Op: "rmdir", Path: group, Err: err}
		}
	}
	return nil
}

// openGroups returns the names of the cgroups of which a process of this host has a file
// open. A supervisor whose log directory was deleted does not count: it ends, but can't
// while its thread in the cgroup is frozen.
func openGroups() (open map[string]bool, ok bool) {
	open = map[string]bool{}
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	for _, e := range all {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		fds := filepath.Join("/proc", e.Name(), "fd")
		files, err := os.ReadDir(fds)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) { // the process ended meanwhile
			continue
		}
		if err != nil {
			return nil, false
		}
		var groups []string
		orphan := false
		for _, f := range files {
			target, err := os.Readlink(filepath.Join(fds, f.Name()))
			if err != nil {
				continue
			}
			if group := filepath.Base(filepath.Dir(target)); strings.HasPrefix(group, Prefix) {
				groups = append(groups, group)
			}
			orphan = orphan || strings.HasSuffix(target, "/log (deleted)")
		}
		for _, group := range groups {
			open[group] = open[group] || !orphan
		}
	}
	return open, true
}
