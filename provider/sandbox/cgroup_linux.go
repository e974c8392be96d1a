package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestproto"
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
		Freeze: !u.throwaway && !u.level.gvisor, Kill: u.tmp != "", SharedLimits: u.level.gvisor, Commands: !u.throwaway && !u.level.gvisor,
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

// commandGroups counts the cgroups of commands, for their names.
var commandGroups atomic.Int64

// withCommandGroup gives a command with limits of CPU or processes a cgroup of its own, and
// returns a context for its start. started is called when the command has started or
// failed, ended when it has ended and its cgroup is to be removed. Limits that are best
// effort are ignored where there is no such cgroup.
func (g *guestConn) withCommandGroup(ctx context.Context, cmd *driver.Command) (_ context.Context, started, ended func(), err error) {
	nothing := func() {}
	limits, must := cgroup.Limits{}, false
	for _, name := range cgroup.CommandControllers {
		if l := cmd.Limits[driver.Resource(name)]; l.Max > 0 {
			limits[name], must = l.Max, must || !l.BestEffort
		}
	}
	if len(limits) == 0 {
		return ctx, nothing, nothing, nil
	}
	group, err := g.groups.CreateCommand(cgroup.CommandName(commandGroups.Add(1)), limits)
	if err != nil {
		if must {
			return nil, nil, nil, fault.WithHint(fmt.Errorf("sandbox: limits of one command: %w", err), fault.HintBestEffort)
		}
		return ctx, nothing, nothing, nil
	}
	files := map[string]*os.File{}
	for name, f := range group.Join {
		files[guestproto.CommandJoin+name] = f
	}
	for name, f := range group.Leave {
		files[guestproto.CommandLeave+name] = f
	}
	for what, f := range map[string]*os.File{guestproto.CommandMaxPIDs: group.MaxPIDs, guestproto.CommandProcs: group.Procs, guestproto.CommandEvents: group.Events} {
		if f != nil {
			files[what] = f
		}
	}
	closeFiles := sync.OnceFunc(func() { group.Close() }) //nolint:errcheck // nothing is lost with it
	return guest.WithGroup(ctx, files), closeFiles, func() {
		closeFiles()
		group.Remove() //nolint:errcheck // what is left is removed with the next one
	}, nil
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
