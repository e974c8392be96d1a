package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup"
	"github.com/croft-run/croft/internal/host/guestbin"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

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
