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
	"github.com/croft-run/croft/host/cgroup"
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// A limit is believed once something was stopped by it: croft-guest, which is
// told to go to a limit in a group of its own. It takes some milliseconds, and is
// done once per process, by Probe and by who first asks for the limit.

// proofs are what was found for each controller, an error or true.
var (
	proofs  sync.Map
	proving sync.Mutex
)

// proveLimits tries the controllers that limits need and that were not tried yet.
// What it finds is in the Traits.
func (p *Provider) proveLimits(ctx context.Context, l driver.Limits) {
	proving.Lock()
	defer proving.Unlock()
	for _, r := range []driver.Resource{driver.ResourceMemory, driver.ResourcePIDs, driver.ResourceCPU} {
		name := string(r)
		if _, done := proofs.Load(name); done || l[r].Max == 0 || cgroup.Find(name).Err != nil {
			continue
		}
		err := p.proveLimit(ctx, name)
		switch {
		case ctx.Err() != nil:
			return // another time
		case err != nil:
			proofs.Store(name, fmt.Errorf("the limit was set and does not hold: %w", err))
		default:
			proofs.Store(name, true)
		}
	}
}

// tight are limits that nothing keeps to.
var tight = cgroup.Limits{cgroup.Memory: 8 << 20, cgroup.PIDs: 1, cgroup.CPU: 20}

// proveLimit makes a group with a limit and sends a process there that goes beyond.
func (p *Provider) proveLimit(ctx context.Context, name string) error {
	bin, err := p.binary()
	if err != nil {
		return err
	}
	g := &cgroup.Groups{Name: cgroup.ProbeName(name), Limits: cgroup.Limits{name: tight[name]}}
	defer cgroup.Remove(g.Dirs()) //nolint:errcheck // it is empty
	files, err := g.Create()
	if err = errors.Join(err, files.Close()); err != nil {
		return err
	}
	return exhaust(ctx, name, bin.Path, g.Limited(name))
}

// exhaust sends the program to a group that a controller limits, and judges how it
// ended.
func exhaust(ctx context.Context, controller, program, dir string) error {
	procs, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer procs.Close()
	const patience = 60 * time.Second // on a machine under load
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "exhaust-"+controller)
	cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{procs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { // ends with the process, which is waited for
		defer close(done)
		cmd.Wait() //nolint:errcheck // how it ended is in ProcessState
	}()
	for {
		select {
		case <-done:
			return stopped(controller, dir, cmd.ProcessState)
		case <-time.After(5 * time.Millisecond):
		}
		if controller == cgroup.CPU && cgroup.Throttled(dir) { // which only makes it slow
			cancel()
		}
	}
}

// stopped judges how a process that went beyond a limit ended.
func stopped(controller, dir string, state *os.ProcessState) error {
	status, _ := state.Sys().(syscall.WaitStatus)
	held := false
	switch controller {
	case cgroup.Memory:
		held = status.Signal() == syscall.SIGKILL && cgroup.OOMKills(dir) > 0
	case cgroup.PIDs:
		held = state.ExitCode() == guestproto.Refused
	case cgroup.CPU:
		held = cgroup.Throttled(dir)
	}
	if !held {
		return fmt.Errorf("a process went beyond it (%v): %w", state, fault.Failed)
	}
	return nil
}
