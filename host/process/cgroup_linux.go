package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Cgroup is the tree that is a cgroup: each command gets one of its own below a
// directory of the cgroup2 file system, and is born into it, so that nothing can
// leave. Groups in which nothing had to be killed are used again.
type Cgroup struct {
	dir string

	mu   sync.Mutex
	free []*cgroup
	made int
}

// NewCgroup uses the cgroup at dir, which must be writable and hold no limits
// that forbid groups below it. Close removes the groups that it makes.
func NewCgroup(dir string) (*Cgroup, error) {
	c := &Cgroup{dir: dir}
	g, err := c.take()
	if err != nil {
		return nil, err
	}
	c.put(g)
	return c, nil
}

// Plant makes the child be born into a group of its own.
func (c *Cgroup) Plant(spec *Spec) (Grip, error) {
	g, err := c.take()
	if err != nil {
		return nil, err
	}
	spec.Sys.UseCgroupFD, spec.Sys.CgroupFD = true, g.dir
	return &cgroupGrip{c: c, g: g}, nil
}

// Close removes all groups. No command runs any more.
func (c *Cgroup) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs error
	for _, g := range c.free {
		errs = errors.Join(errs, g.remove())
	}
	c.free = nil
	return errs
}

// A cgroup is one group, with its files open.
type cgroup struct {
	path              string
	dir, kill, events int // descriptors
}

func (c *Cgroup) take() (*cgroup, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 {
		g := c.free[n-1]
		c.free = c.free[:n-1]
		return g, nil
	}
	c.made++
	g, err := makeCgroup(filepath.Join(c.dir, "s"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(c.made)))
	if err != nil {
		return nil, fmt.Errorf("process: make cgroup below %s: %w: %w", c.dir, codeOf(err), err)
	}
	return g, nil
}

func (c *Cgroup) put(g *cgroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, g)
}

func makeCgroup(path string) (*cgroup, error) {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	g := &cgroup{path: path}
	var errs [3]error
	g.dir, errs[0] = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	g.kill, errs[1] = unix.Open(filepath.Join(path, "cgroup.kill"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	g.events, errs[2] = unix.Open(filepath.Join(path, "cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

func (g *cgroup) remove() error {
	for _, fd := range []int{g.dir, g.kill, g.events} {
		if fd >= 0 {
			unix.Close(fd) //nolint:errcheck // an open directory, or a control file
		}
	}
	return unix.Rmdir(g.path)
}

// populated reports whether a process lives in the group.
func (g *cgroup) populated() bool {
	var buf [256]byte
	n, err := unix.Pread(g.events, buf[:], 0)
	return err == nil && strings.Contains(string(buf[:n]), "populated 1")
}

type cgroupGrip struct {
	c    *Cgroup
	g    *cgroup
	used bool // cgroup.kill was written: the kernel kills what is born into the group later
}

func (g *cgroupGrip) Left(int) bool { return g.g.populated() }

func (g *cgroupGrip) Signal(leader int, sig syscall.Signal) error {
	data, err := os.ReadFile(filepath.Join(g.g.path, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("process: list cgroup: %w: %w", codeOf(err), err)
	}
	for line := range strings.Lines(string(data)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || pid == 0 {
			continue // 0 is a process that this namespace does not see
		}
		if p, ok := readProc(pid); ok {
			err = signalProc(p, sig)
		} else {
			err = unix.Kill(pid, sig)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("process: signal %d: %w: %w", pid, codeOf(err), err)
		}
	}
	return nil
}

func (g *cgroupGrip) Kill(int) error {
	if !g.g.populated() {
		return nil
	}
	g.used = true
	if _, err := unix.Write(g.g.kill, []byte("1")); err != nil {
		return fmt.Errorf("process: kill cgroup: %w: %w", codeOf(err), err)
	}
	return await(func() bool { return !g.g.populated() }, "processes still live")
}

// Release gives the group back, or removes it. One in which something does not
// die stays.
func (g *cgroupGrip) Release() {
	switch {
	case g.g.populated():
	case g.used:
		g.g.remove() //nolint:errcheck // an empty group that stays harms nobody
	default:
		g.c.put(g.g)
	}
}
