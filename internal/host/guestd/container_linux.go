package guestd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/host/guestproto"
)

// In a container the guest is PID 1. An engine passes it arguments and mounts, and no
// descriptors. So its Config is a file in a directory that the host mounts; in it the
// guest creates its socket and writes its report. The host removes the workload's access
// to that directory before any process of the workload runs.

// containerMain is croft-guest as PID 1 of a container.
func containerMain(dir string) int {
	g, err := startContainer(dir)
	return g.reportAndServe(err, func(report []byte) error { // atomically: the host polls for the file
		return atomicfile.Write(filepath.Join(dir, guestproto.ContainerReport), report, atomicfile.Options{})
	})
}

// reportAndServe reports to the host whether the guest has started, and serves if so.
func (g *daemon) reportAndServe(started error, tell func(report []byte) error) int {
	if err := errors.Join(started, tell(encodeReport(started))); err != nil {
		fmt.Fprintln(os.Stderr, "croft-guest:", err)
		return 1
	}
	if err := g.serve(); err != nil {
		return 1
	}
	return 0
}

// encodeReport returns what the host reads of an attempt: "ok", or a fault.Wire.
func encodeReport(err error) []byte {
	if err == nil {
		return []byte("ok")
	}
	report, merr := json.Marshal(fault.Encode(err))
	if merr != nil {
		return []byte(err.Error())
	}
	return report
}

func startContainer(dir string) (*daemon, error) {
	f, err := os.Open(filepath.Join(dir, guestproto.ContainerConfig))
	if err != nil {
		return nil, setupError("read the configuration", err)
	}
	cfg, err := readConfig(f)
	if err != nil {
		return nil, err
	}
	os.Clearenv()
	cfg.Descriptors = map[string]int{}
	cfg.Paths = map[string]string{"listen": filepath.Join(dir, guestproto.ContainerSocket)}
	for name, path := range map[string]string{"log": filepath.Join(dir, guestproto.ContainerLog), "egress": filepath.Join(dir, guestproto.ContainerEgress)} {
		if err := openDescriptor(cfg, name, path, unix.O_DIRECTORY|unix.O_PATH); err != nil {
			return nil, setupError("open the directory "+name, err)
		}
	}
	return startHardened(cfg)
}

// startHardened starts the daemon in a container, whose namespaces the engine has set up.
func startHardened(cfg *guestproto.Config) (*daemon, error) {
	openCounters(cfg)
	if err := closeStrayDescriptors(cfg); err != nil {
		return nil, err
	}
	if err := makeUndumpable(); err != nil {
		return nil, err
	}
	return startDaemon(cfg)
}

// openDescriptor opens path and adds it to the descriptors, if path exists.
func openDescriptor(cfg *guestproto.Config, name, path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cfg.Descriptors[name] = fd
	return nil
}

// openCounters opens the event counters of the container's cgroup, v1 or v2. Without them
// a command that a limit ended has no cause.
func openCounters(cfg *guestproto.Config) {
	for name, paths := range map[string][]string{
		guestproto.EventsOOM:  {"/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events"},
		guestproto.EventsPIDs: {"/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/pids.events"},
	} {
		for _, path := range paths {
			openDescriptor(cfg, name, path, unix.O_RDONLY) //nolint:errcheck // see above
		}
	}
}

// reserveThreads makes this process create n OS threads, which Go keeps. A limit of the
// container counts threads of guest and workload together, and a Go program that can't
// create a thread crashes.
func reserveThreads(n int) {
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	for range n {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread() // occupies one OS thread until release
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
}
