package sandbox

import (
	"os"

	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits are kept by control groups, which are the host's: inside there is no way
// to them. The guest is their supervisor, see package cgroup.

// limited says what enforces a limit by a controller.
func limited(name string) driver.Enforcement {
	c := cgroup.Find(name)
	if tried, ok := proofs.Load(name); ok && c.Err == nil {
		c.Err, _ = tried.(error)
	}
	if c.Err != nil {
		return driver.Enforcement{Reason: c.Err.Error()}
	}
	return driver.Enforcement{By: c.String()}
}

// groupsOf says which groups a guest has. In gVisor the guest is limited together
// with its workload, the host would count gVisor's threads as processes, and nothing
// is frozen. Without a process namespace the groups are what ends everything.
func groupsOf(u launchSpec) *cgroup.Groups {
	l := u.policy.Limits
	g := &cgroup.Groups{
		Name: u.id, Limits: cgroup.Limits{cgroup.Memory: l[driver.ResourceMemory].Max, cgroup.PIDs: l[driver.ResourcePIDs].Max, cgroup.CPU: l[driver.ResourceCPU].Max},
		Freeze: !u.throwaway && !u.level.kernel, Kill: u.tmp != "", SharedLimits: u.level.kernel,
	}
	if u.level.kernel {
		delete(g.Limits, cgroup.PIDs)
	}
	return g
}

// joinGroups makes the groups of a guest and gives them to its launch.
func joinGroups(l *launch, u launchSpec) error {
	files, err := groupsOf(u).Create()
	l.open = append(l.open, files)
	if err != nil {
		return err
	}
	if files.SpawnDir != nil {
		l.Sys.UseCgroupFD, l.Sys.CgroupFD = true, int(files.SpawnDir.Fd())
	}
	for name, file := range files.Threads {
		l.Config.Groups = append(l.Config.Groups, "group-"+name)
		l.Files = append(l.Files, guest.NamedFile{Name: "group-" + name, File: file})
	}
	for name, file := range map[string]*os.File{
		guestproto.GroupWork: files.Work, guestproto.GroupGuest: files.Supervisor, guestproto.EventsOOM: files.OOM, guestproto.EventsPIDs: files.PIDs,
	} {
		if file != nil {
			l.Files = append(l.Files, guest.NamedFile{Name: name, File: file})
		}
	}
	return nil
}

// oomSince says why a guest is lost that is in the limit groups itself, as one in
// gVisor is: when the kernel kills in its group, it is out of memory.
func oomSince(u launchSpec) func() driver.Cause {
	if !u.level.kernel || u.policy.Limits[driver.ResourceMemory].Max == 0 {
		return nil
	}
	dirs := groupsOf(u).Dirs()
	before := cgroup.OOMKills(dirs...)
	return func() driver.Cause {
		if cgroup.OOMKills(dirs...) > before {
			return driver.CauseOOM
		}
		return ""
	}
}
