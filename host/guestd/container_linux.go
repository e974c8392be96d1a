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
	"github.com/croft-run/croft/host/guestproto"
	"github.com/croft-run/croft/internal/atomicfile"
)

// In a container the guest is the first process, started by an engine that can
// give it nothing but arguments and mounts. So its Config is a file in a
// directory that the host mounts for it, where it makes its socket, too, and
// tells how its start went. The host closes that directory before anything of
// the workload runs.

// containerMain is the guest in a container.
func containerMain(dir string) int {
	g, err := startContainer(dir)
	return g.reportAndServe(err, func(report []byte) error { // at once: the host looks for it
		return atomicfile.Write(filepath.Join(dir, guestproto.ContainerReport), report, atomicfile.Options{})
	})
}

// reportAndServe tells the host how the start of the guest went, and serves if it did well.
func (g *daemon) reportAndServe(started error, tell func(report []byte) error) int {
	report := []byte("ok")
	if started != nil {
		if report, _ = json.Marshal(fault.Encode(started)); report == nil {
			report = []byte(started.Error())
		}
	}
	if err := errors.Join(started, tell(report)); err != nil {
		fmt.Fprintln(os.Stderr, "croft-guest:", err)
		return 1
	}
	if err := g.serve(); err != nil {
		return 1
	}
	return 0
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

// startHardened starts the guest of a container that an engine has put up.
func startHardened(cfg *guestproto.Config) (*daemon, error) {
	openCounters(cfg)
	if err := closeStrayDescriptors(cfg); err != nil {
		return nil, err
	}
	if err := makeUndumpable(); err != nil {
		return nil, err
	}
	reserveThreads(cfg.Threads)
	return startDaemon(cfg)
}

// openDescriptor makes what is at path a descriptor of the guest, if it is there.
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

// openCounters finds what the limit groups of the container count, in either
// version of control groups. Without them a command that a limit ended is one
// that failed.
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

// reserveThreads makes sure that this process has n threads, which it keeps: it shares the
// container's limit of them with the workload, and a Go program that is refused
// one ends.
func reserveThreads(n int) {
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	for range n {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread() // a thread of its own, as long as it waits
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
}
