package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/guest"
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
		if _, done := proofs.Load(name); done || l[r].Max == 0 || hostControllers()[name].err != nil {
			continue
		}
		err := p.proveLimit(ctx, hostControllers()[name])
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
var tight = driver.Limits{driver.ResourceMemory: {Max: 8 << 20}, driver.ResourcePIDs: {Max: 1}, driver.ResourceCPU: {Max: 20}}

// proveLimit makes a group with a limit and sends someone there who goes beyond.
func (p *Provider) proveLimit(ctx context.Context, c controller) error {
	bin, err := p.binary()
	if err != nil {
		return err
	}
	top := filepath.Join(c.dir, groupPrefix+"probe-"+c.name+"-"+strconv.Itoa(os.Getpid()))
	defer removeGroups([]string{top}) //nolint:errcheck // it is empty
	dir := top
	if c.v2 {
		host := hostUnified()
		err = host.make(top, []string{c.name}, tight, false)
		dir = filepath.Join(top, workGroup)
	} else if err = os.Mkdir(dir, 0o755); err == nil {
		for file, value := range c.settings(tight) {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600))
		}
		c.noSwap(dir, c.settings(tight))
	}
	if err != nil {
		return err
	}
	return c.exhaust(ctx, bin.Path, dir)
}

// exhaust sends the program there, and judges how it ended.
func (c controller) exhaust(ctx context.Context, program, dir string) error {
	procs, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer procs.Close()
	const patience = 60 * time.Second // on a machine under load
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "exhaust-"+c.name)
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
			return c.stopped(dir, cmd.ProcessState)
		case <-time.After(5 * time.Millisecond):
		}
		if c.throttled(dir) { // which only makes it slow
			cancel()
		}
	}
}

// throttled reports whether someone in a group was made to wait for its processor.
func (c controller) throttled(dir string) bool {
	return c.name == "cpu" && counter(filepath.Join(dir, "cpu.stat"), "nr_throttled ") > 0
}

func counter(file, name string) int64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return guest.Counter(string(data), name)
}

// stopped judges how someone who went beyond a limit ended.
func (c controller) stopped(dir string, state *os.ProcessState) error {
	status, _ := state.Sys().(syscall.WaitStatus)
	switch c.name {
	case "memory":
		if status.Signal() == syscall.SIGKILL && counter(filepath.Join(dir, "memory.oom_control"), "oom_kill ")+counter(filepath.Join(dir, "memory.events"), "oom_kill ") > 0 {
			return nil
		}
	case "pids":
		if state.ExitCode() == guest.Refused {
			return nil
		}
	case "cpu":
		if c.throttled(dir) {
			return nil
		}
	}
	return fmt.Errorf("a process went beyond it (%v): %w", state, fault.Failed)
}
