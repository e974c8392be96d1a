package sandbox

import (
	"cmp"
	"os"

	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/guest"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits are enforced by cgroups of the host, which processes inside can't reach. The
// guest is their supervisor, see package cgroup.

// limitEnforcement says how a limit is enforced by a cgroup controller.
func limitEnforcement(name string) driver.Enforcement {
	c := cgroup.Find(name)
	if tried, ok := limitProofs.Load(name); ok && c.Err == nil {
		c.Err, _ = tried.(error)
	}
	if c.Err != nil {
		return driver.Enforcement{Reason: c.Err.Error()}
	}
	by := c.String()
	if sockets := c.SocketBuffers(); sockets != "" {
		by += "; " + sockets
	}
	return driver.Enforcement{By: by}
}

// guestLimits returns the limits for the configuration of a guest: memory is best effort
// if the policy says so and no cgroup limits it, so that the guest limits each process.
func guestLimits(l driver.Limits) driver.Limits {
	out := l.WithoutBestEffort()
	if memory := l[driver.ResourceMemory]; memory.BestEffort && !limitEnforcement(cgroup.Memory).Enforced() {
		out[driver.ResourceMemory] = memory
	}
	return out
}

// cgroupsOf returns the cgroups of a guest. With gVisor the guest is limited together
// with its workload, there is no PIDs limit (the host would count gVisor's threads), and
// no freezer. Without a PID namespace the cgroup is what kills all processes.
func cgroupsOf(u launchSpec) *cgroup.Groups {
	l := u.policy.Limits
	g := &cgroup.Groups{
		// A path of the workspace's directory: a restored copy of the data directory has
		// workspaces of the same ids.
		ID: cmp.Or(u.log, u.id), Limits: cgroup.Limits{cgroup.Memory: l[driver.ResourceMemory].Max, cgroup.PIDs: l[driver.ResourcePIDs].Max, cgroup.CPU: l[driver.ResourceCPU].Max},
		Freeze: !u.throwaway && !u.level.gvisor, Kill: u.tmp != "", SharedLimits: u.level.gvisor,
	}
	if u.level.gvisor {
		delete(g.Limits, cgroup.PIDs)
	}
	return g
}

// createCgroups creates the cgroups of a guest and adds them to its launch.
func createCgroups(l *launch, u launchSpec) error {
	files, err := cgroupsOf(u).Create()
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

// newOOMCheck returns a function that attributes the loss of a guest to the OOM killer.
// It returns nil unless the guest itself is in a memory-limited cgroup, as with gVisor.
func newOOMCheck(u launchSpec) func() driver.Cause {
	if !u.level.gvisor || u.policy.Limits[driver.ResourceMemory].Max == 0 {
		return nil
	}
	dirs := cgroupsOf(u).Dirs()
	before := cgroup.OOMKills(dirs...)
	return func() driver.Cause {
		if cgroup.OOMKills(dirs...) > before {
			return driver.CauseOOM
		}
		return ""
	}
}
