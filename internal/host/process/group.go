package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A CommandGroup is the cgroup of one command, which limits its CPU and its processes. See package
// cgroup.
type CommandGroup struct {
	Join, Leave []*os.File // version 1: the "tasks" files that the starting thread writes to before and after
	MaxPIDs     *os.File   // version 1: pids.max, which is set when the thread has left; nil without that limit
	Procs       *os.File   // version 2: the Starter moves the command there
	Events      *os.File   // counts what the limit of processes refused; nil without that limit
}

// Close closes the files.
func (g *CommandGroup) Close() {
	for _, f := range append([]*os.File{g.MaxPIDs, g.Procs, g.Events}, append(g.Join, g.Leave...)...) {
		if f != nil {
			f.Close()
		}
	}
}

type groupKey struct{}

// WithCommandGroup makes the next command that is run with ctx run in a cgroup of its own, which
// has the command's limits of CPU and processes. The caller closes the group after the
// command has ended.
func WithCommandGroup(ctx context.Context, g *CommandGroup) context.Context {
	return context.WithValue(ctx, groupKey{}, g)
}

func groupFrom(ctx context.Context) *CommandGroup {
	g, _ := ctx.Value(groupKey{}).(*CommandGroup)
	return g
}

// limitedByGroup are the limits of a command that its cgroup enforces.
func limitedByGroup(r driver.Resource) bool {
	return r == driver.ResourceCPU || r == driver.ResourcePIDs
}

// forkInGroup starts spec from the calling thread, which is locked to its goroutine and
// joins the cgroups of version 1 meanwhile.
func forkInGroup(spec *Spec) (Child, error) {
	g := spec.Group
	if g == nil || len(g.Join) == 0 {
		return forkExec(spec)
	}
	err := joinAll(g.Join)
	var child Child
	if err == nil {
		child, err = forkExec(spec)
	}
	started := err == nil
	if left := joinAll(g.Leave); left != nil {
		err = errors.Join(err, left)
	}
	if err == nil && g.MaxPIDs != nil {
		err = writeText(g.MaxPIDs, strconv.FormatInt(spec.MaxPIDs, 10))
	}
	if err != nil && started { // it is not limited as it was asked for
		syscall.Kill(child.PID, syscall.SIGKILL) //nolint:errcheck // it may have ended
		wait4(child.PID)                         //nolint:errcheck // it was killed
		return Child{}, fmt.Errorf("limit the command: %w: %w", fault.Unavailable, err)
	}
	return child, err
}

// joinAll moves the calling thread into cgroups.
func joinAll(tasks []*os.File) error {
	var errs error
	for _, f := range tasks {
		errs = errors.Join(errs, writeText(f, "0"))
	}
	return errs
}

// writeText writes to a file of a cgroup. The thread of os.File.Write is the calling one.
func writeText(f *os.File, text string) error {
	_, err := f.WriteString(text)
	return err
}

// startLocked starts spec from a thread of its own.
func startLocked(spec *Spec) (child Child, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine: it may be in a cgroup still
		child, err = forkInGroup(spec)
	}()
	<-done
	return child, err
}
