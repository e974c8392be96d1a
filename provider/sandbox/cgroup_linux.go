package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestbin"
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

// guestThreads is the number of threads that a guest has from its start on, where its cgroup limits them.
const guestThreads = 24

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
	if files.PIDs != nil { // a command that is not moved yet may use up the threads that are left
		l.Config.Threads = guestThreads
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

// A cgroup limit is reported as enforced only after a test: croft-guest exceeds the limit
// in a cgroup of its own. The test takes some milliseconds. It runs once per process, in
// Probe or when the limit is first used.

// limitProofs has the result of the test of each controller, an error or true.
var (
	limitProofs   sync.Map
	limitProofsMu sync.Mutex
)

// probeLimits tests the controllers of limits that were not tested yet. The results show
// in the Traits.
func probeLimits(ctx context.Context, l driver.Limits, binary func() (*guestbin.Binary, error)) {
	limitProofsMu.Lock()
	defer limitProofsMu.Unlock()
	for _, r := range []driver.Resource{driver.ResourceMemory, driver.ResourcePIDs, driver.ResourceCPU} {
		name := string(r)
		if _, done := limitProofs.Load(name); done || l[r].Max == 0 || cgroup.Find(name).Err != nil {
			continue
		}
		err := probeLimit(ctx, name, binary)
		switch {
		case ctx.Err() != nil:
			return // the next call tests again
		case err != nil:
			limitProofs.Store(name, fmt.Errorf("the limit was set and is not enforced: %w", err))
		default:
			limitProofs.Store(name, true)
		}
	}
}

// probedLimits are limits that the test exceeds at once.
var probedLimits = cgroup.Limits{cgroup.Memory: 8 << 20, cgroup.PIDs: 1, cgroup.CPU: 20}

// probeLimit creates a cgroup with a limit and runs a process in it that exceeds the limit.
func probeLimit(ctx context.Context, name string, binary func() (*guestbin.Binary, error)) error {
	bin, err := binary()
	if err != nil {
		return err
	}
	g := cgroup.NewProbe(name, probedLimits[name])
	defer cgroup.Remove(g.Dirs()) //nolint:errcheck // it is empty
	files, err := g.Create()
	if err = errors.Join(err, files.Close()); err != nil {
		return err
	}
	return exhaustLimit(ctx, name, bin.Path, g)
}

// exhaustLimit runs the program in a cgroup that a controller limits, and checks how the
// program ended.
func exhaustLimit(ctx context.Context, controller, program string, g *cgroup.Groups) error {
	dir := g.Limited(controller)
	procs, err := os.OpenFile(filepath.Join(g.Joinable(controller), "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer procs.Close()
	const timeout = 60 * time.Second // enough on a machine under load
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "exhaust-"+controller)
	cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{procs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { // ends with the process
		defer close(done)
		cmd.Wait() //nolint:errcheck // how it ended is in ProcessState
	}()
	for {
		select {
		case <-done:
			return checkStopped(controller, dir, cmd.ProcessState)
		case <-time.After(5 * time.Millisecond):
		}
		if controller == cgroup.CPU && cgroup.Throttled(dir) { // throttling does not end the process
			cancel()
		}
	}
}

// checkStopped checks that a process that exceeded a limit was stopped by it.
func checkStopped(controller, dir string, state *os.ProcessState) error {
	status, _ := state.Sys().(syscall.WaitStatus)
	enforced := false
	switch controller {
	case cgroup.Memory:
		enforced = status.Signal() == syscall.SIGKILL && cgroup.OOMKills(dir) > 0
	case cgroup.PIDs:
		enforced = state.ExitCode() == guestproto.Refused
	case cgroup.CPU:
		enforced = cgroup.Throttled(dir)
	}
	if !enforced {
		return fmt.Errorf("a process exceeded it (%v): %w", state, fault.Failed)
	}
	return nil
}
