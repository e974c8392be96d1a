package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/cgroup/cgroupv1"
)

// commandPrefix begins the names of cgroups of single commands, which are below those of
// their workload.
const commandPrefix = "command-"

// CommandControllers are the controllers that limit single commands.
var CommandControllers = []string{PIDs, CPU}

// A Command is the cgroup of one command: in version 1 one of each controller. The caller
// closes the files when the supervisor has them.
type Command struct {
	// Join has the "tasks" files of version 1: a thread that writes 0 to them joins, and
	// what it starts then is in the cgroup. Leave has those to which it returns.
	Join, Leave map[string]*os.File

	// MaxPIDs is pids.max of version 1, which has one more than the limit, for the thread
	// that joins: the supervisor sets it right when the thread has left.
	MaxPIDs *os.File

	Procs  *os.File // cgroup.procs of version 2: the supervisor moves the command there, and counts
	Events *os.File // pids.events; nil without that limit

	dirs []string
}

// CreateCommand creates the cgroup of a command with limits of CommandControllers, below
// those of the workload. The error is Unsupported where the host has no such cgroup.
func (g *Groups) CreateCommand(id string, limits Limits) (*Command, error) {
	c := &Command{Join: map[string]*os.File{}, Leave: map[string]*os.File{}}
	if err := g.createCommand(c, id, limits); err != nil {
		return nil, errors.Join(fmt.Errorf("create the cgroup of a command: %w: %w", fault.Unsupported, err), c.Close(), c.Remove())
	}
	return c, nil
}

func (g *Groups) createCommand(c *Command, id string, limits Limits) error {
	if !g.Commands {
		return errors.New("the workspace has none for single commands")
	}
	inV2 := Limits{}
	for _, name := range CommandControllers {
		found := Find(name)
		switch {
		case limits[name] <= 0:
		case found.Err != nil:
			return found.Err
		case found.V2:
			inV2[name] = limits[name]
		default:
			if err := g.createCommandV1(c, found, id, limits[name]); err != nil {
				return err
			}
		}
	}
	if len(inV2) == 0 {
		return nil
	}
	return g.createCommandV2(c, id, inV2)
}

func (g *Groups) createCommandV1(c *Command, found Controller, id string, limit int64) (err error) {
	name, parent, leave := found.Name, g.groupDir(found), found.Dir
	if own := g.Limits[name]; own > 0 { // the supervisor's thread is there
		limit, leave = min(limit, own), parent
	} else if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	removeIdleCommands(parent)
	dir := filepath.Join(parent, commandPrefix+id)
	c.dirs = append(c.dirs, dir)
	if err := cgroupv1.Create(dir, name, limit); err != nil {
		return err
	}
	if c.Join[name], err = os.OpenFile(filepath.Join(dir, cgroupv1.Procs), os.O_WRONLY, 0); err != nil {
		return err
	}
	if c.Leave[name], err = os.OpenFile(filepath.Join(leave, cgroupv1.Procs), os.O_WRONLY, 0); err != nil {
		return err
	}
	if name != PIDs {
		return nil
	}
	if c.MaxPIDs, err = os.OpenFile(filepath.Join(dir, "pids.max"), os.O_WRONLY, 0); err != nil {
		return err
	}
	c.Events, err = os.Open(filepath.Join(dir, "pids.events"))
	return err
}

func (g *Groups) createCommandV2(c *Command, id string, limits Limits) (err error) {
	group, _, ok := g.groupV2()
	if !ok {
		return errors.New("the workspace has no cgroup of version 2")
	}
	work := filepath.Join(group, workGroup)
	removeIdleCommands(work)
	dir := filepath.Join(work, commandPrefix+id)
	c.dirs = append(c.dirs, dir)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for file, value := range settingsV2(limits) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600); err != nil {
			return err
		}
	}
	if c.Procs, err = os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_RDWR, 0); err != nil {
		return err
	}
	if limits[PIDs] > 0 {
		c.Events, err = os.Open(filepath.Join(dir, "pids.events"))
	}
	return err
}

// Close closes the files. The supervisor has its own descriptors by then.
func (c *Command) Close() error {
	all := []*os.File{c.MaxPIDs, c.Procs, c.Events}
	for _, files := range []map[string]*os.File{c.Join, c.Leave} {
		for _, f := range files {
			all = append(all, f)
		}
	}
	var errs error
	for _, f := range all {
		if f != nil {
			errs = errors.Join(errs, f.Close())
		}
	}
	return errs
}

// Remove removes the cgroup of a command that has ended. One that a process is still in is
// removed later: with the next one, or with the workload's.
func (c *Command) Remove() error {
	const tries, interval = 20, 5 * time.Millisecond
	var errs error
	for _, dir := range c.dirs {
		err := unix.Rmdir(dir)
		for range tries { // the kernel's bookkeeping takes a moment
			if !errors.Is(err, unix.EBUSY) {
				break
			}
			time.Sleep(interval)
			err = unix.Rmdir(dir)
		}
		if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOENT) {
			errs = errors.Join(errs, &os.PathError{Op: "rmdir", Path: dir, Err: err})
		}
	}
	return errs
}

// removeIdleCommands removes cgroups of commands that have ended meanwhile, such as
// sessions.
func removeIdleCommands(parent string) {
	for _, dir := range commandsBelow(parent) {
		if isIdle(dir, time.Now()) {
			unix.Rmdir(dir) //nolint:errcheck // a process joined it, or it is gone
		}
	}
}

// commandsBelow lists the cgroups of commands below that of a workload.
func commandsBelow(parent string) []string {
	found, _ := filepath.Glob(filepath.Join(parent, commandPrefix+"*")) // the pattern is valid
	slices.Sort(found)
	return found
}

// removeCommands removes the cgroups of all commands below that of a workload, whose
// processes have ended.
func removeCommands(parent string) error {
	var errs error
	for _, dir := range commandsBelow(parent) {
		errs = errors.Join(errs, removeGroup(dir))
	}
	return errs
}

// CommandName returns a name for the cgroup of a command, which no other one of this host
// has.
func CommandName(n int64) string { return strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(n, 10) }
