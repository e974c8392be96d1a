package guestd

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

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
	g, err := startContained(dir)
	return g.run(err, func(report []byte) error { // at once: the host looks for it
		return atomicfile.Write(filepath.Join(dir, guestproto.ContainerReport), report, atomicfile.Options{})
	})
}

// run tells the host how the start of the guest went, and serves if it did well.
func (g *daemon) run(started error, tell func(report []byte) error) int {
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

func startContained(dir string) (*daemon, error) {
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
	return startInContainer(cfg)
}

// startInContainer starts the guest of a container that an engine has put up.
func startInContainer(cfg *guestproto.Config) (*daemon, error) {
	openCounters(cfg)
	if err := dropStrays(cfg); err != nil {
		return nil, err
	}
	if err := harden(); err != nil {
		return nil, err
	}
	warm(cfg.Threads)
	return begin(cfg)
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

// warm makes sure that this process has n threads, which it keeps: it shares the
// container's limit of them with the workload, and a Go program that is refused
// one ends.
func warm(n int) {
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

// tokenTimeout is ample for a host that dials: it has the token at hand.
const tokenTimeout = 10 * time.Second

// A doorman is a listener that lets those in who begin with a token. The socket
// is where the workload might find it, too.
type doorman struct {
	net.Listener
	token []byte
	in    chan net.Conn
	done  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
}

// maxAtDoor bounds connections that have not shown their token yet.
const maxAtDoor = 64

func newDoorman(l net.Listener, token string) *doorman {
	d := &doorman{Listener: l, token: []byte(token), in: make(chan net.Conn), done: make(chan struct{})}
	d.wg.Go(d.run)
	return d
}

func (d *doorman) run() {
	places := make(chan struct{}, maxAtDoor)
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			d.once.Do(func() { close(d.done) })
			return
		}
		select {
		case places <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		d.wg.Go(func() {
			defer func() { <-places }()
			d.meet(conn)
		})
	}
}

func (d *doorman) meet(conn net.Conn) {
	said := make([]byte, len(d.token))
	err := conn.SetReadDeadline(time.Now().Add(tokenTimeout))
	if err == nil {
		_, err = io.ReadFull(conn, said)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil || subtle.ConstantTimeCompare(said, d.token) != 1 {
		conn.Close()
		return
	}
	d.let(conn)
}

// admit lets a connection in that needs no token.
func (d *doorman) admit(conn net.Conn) {
	d.wg.Go(func() { d.let(conn) })
}

func (d *doorman) let(conn net.Conn) {
	select {
	case d.in <- conn:
	case <-d.done:
		conn.Close()
	}
}

// Accept returns the next connection that has shown its token.
func (d *doorman) Accept() (net.Conn, error) {
	select {
	case conn := <-d.in:
		return conn, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener and all who wait at the door.
func (d *doorman) Close() error {
	err := d.Listener.Close()
	d.once.Do(func() { close(d.done) })
	d.wg.Wait()
	return err
}
