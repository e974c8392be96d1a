package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groupAge is how old a group is that has no owner: one that was just made may be
// on its way into a guest's hands.
const groupAge = time.Minute

// cleanGroups removes groups that nobody will use again: those of proofs whose
// process has died, and those of workspaces that went away without a word, as when
// their data directory is removed. Such a group has no process in it, and no
// process holds it open to put one in, which a live guest does.
func cleanGroups(now time.Time) error {
	dirs := map[string]bool{}
	for _, c := range hostControllers() {
		if c.err == nil {
			dirs[c.dir] = true
		}
	}
	if u := hostUnified(); u.err == nil {
		dirs[u.dir] = true
	}
	var errs error
	var idle []string
	for dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, groupPrefix+"*"))
		if err != nil {
			return err
		}
		for _, group := range found {
			switch pid, ok := proofOf(group); {
			case ok && errors.Is(unix.Kill(pid, 0), unix.ESRCH):
				errs = errors.Join(errs, removeGroups([]string{group}))
			case !ok && isIdle(group, now):
				idle = append(idle, group)
			}
		}
	}
	return errors.Join(errs, removeUnheld(idle))
}

// proofOf returns the process that made a group for a proof.
func proofOf(group string) (pid int, ok bool) {
	name, ok := strings.CutPrefix(filepath.Base(group), groupPrefix+"probe-")
	if !ok {
		return 0, false
	}
	pid, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return pid, err == nil
}

// isIdle says whether a group is not new and has nothing in it.
func isIdle(group string, now time.Time) bool {
	info, err := os.Stat(group)
	if err != nil || now.Sub(info.ModTime()) < groupAge {
		return false
	}
	procs, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	return err == nil && len(procs) == 0
}

// removeUnheld removes those of groups that no process has a file of open. Where
// it can't see what some process has open it removes none.
func removeUnheld(groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	held, ok := heldGroups()
	if !ok {
		return nil
	}
	for _, group := range groups {
		if held[filepath.Base(group)] {
			continue
		}
		// One with groups below, or that was joined just now, is in use.
		if err := unix.Rmdir(group); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOENT) &&
			!errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return &os.PathError{Op: "rmdir", Path: group, Err: err}
		}
	}
	return nil
}

// heldGroups names the groups that processes of this host have files open of.
func heldGroups() (held map[string]bool, ok bool) {
	held = map[string]bool{}
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
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) { // it ended meanwhile
			continue
		}
		if err != nil {
			return nil, false
		}
		for _, f := range files {
			target, err := os.Readlink(filepath.Join(fds, f.Name()))
			if group := filepath.Base(filepath.Dir(target)); err == nil && strings.HasPrefix(group, groupPrefix) {
				held[group] = true
			}
		}
	}
	return held, true
}
