package guestd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

// Descriptors that every guest is started with.
const (
	fdConfig = 3 // a pipe with the Config, read to its end
	fdReport = 4 // a pipe for "ok", or a fault.Wire with the reason why the guest can't serve; then closed
	fdFirst  = 5 // first of Config.Descriptors
)

// maxConfig is far more bytes than any Config has.
const maxConfig = 4 << 20

// Main is the program croft-guest. It returns the exit status.
func Main() int {
	if len(os.Args) == 2 {
		if status, ok := exhaustLimit(os.Args[1]); ok {
			return status
		}
	}
	switch {
	case len(os.Args) == 3 && os.Args[1] == guestproto.ContainerVerb:
		return containerMain(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == guestproto.StdioVerb:
		return stdioMain(os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == guestproto.ConnectVerb:
		return connectMain(stdioSocket)
	case len(os.Args) == 3:
		if status, ok := machineMain(os.Args[1], os.Args[2]); ok {
			return status
		}
	case len(os.Args) == 4 && os.Args[1] == guestproto.InstallVerb:
		return installMain(os.Args[2], os.Args[3])
	}
	report := os.NewFile(fdReport, "report")
	if report == nil || !isInherited(fdConfig) || !isInherited(fdReport) {
		fmt.Fprintln(os.Stderr, "croft-guest: descriptors 3 and 4 must be open, for the configuration and the report; croft starts this program inside a workspace")
		return 2
	}
	g, err := start()
	if err != nil {
		json.NewEncoder(report).Encode(fault.Encode(err)) //nolint:errcheck // the pipe is the only way to the host
		return 1
	}
	// The report is closed before any process of the workload exists, so that none can
	// write to it.
	io.WriteString(report, "ok") //nolint:errcheck // a host that is gone ends the guest anyway
	report.Close()
	if err := g.serve(); err != nil {
		return 1
	}
	return 0
}

// isInherited reports whether the parent passed a descriptor. Go's runtime opens some of
// its own at the start, with close-on-exec.
func isInherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// A daemon is a guest that serves.
type daemon struct {
	cfg     *guestproto.Config
	starter *process.ThreadStarter
	manager *process.Manager
	root    *files.Root
	server  *server
	relay   *relay
	listen  net.Listener
	ctx     context.Context
	cancel  context.CancelFunc
}

func start() (*daemon, error) {
	cfg, err := readConfig(os.NewFile(fdConfig, "config"))
	if err != nil {
		return nil, err
	}
	os.Clearenv()
	if err := closeStrayDescriptors(cfg); err != nil {
		return nil, err
	}
	if fd, ok := cfg.Descriptors["program"]; ok && cfg.GVisor == nil {
		unix.Close(fd) //nolint:errcheck // nothing is lost with it
		delete(cfg.Descriptors, "program")
	}
	if err := makeUndumpable(); err != nil {
		return nil, err
	}
	if err := setUpNamespaces(cfg); err != nil {
		return nil, err
	}
	if err := sendRoot(cfg); err != nil {
		return nil, err
	}
	if cfg.GVisor != nil {
		return nil, execGVisor(cfg)
	}
	return startDaemon(cfg)
}

// startDaemon starts the services of the guest, after the namespaces are set up.
func startDaemon(cfg *guestproto.Config) (*daemon, error) {
	reserveThreads(cfg.Threads)
	g := &daemon{cfg: cfg}
	g.ctx, g.cancel = context.WithCancel(background())
	if err := g.startServices(); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// closeStrayDescriptors closes descriptors that the host did not pass on purpose, such as
// those inherited from its own parent, and sets close-on-exec on the others, so that no
// child has them.
func closeStrayDescriptors(cfg *guestproto.Config) error {
	known := map[int]bool{0: true, 1: true, 2: true, fdReport: true}
	for _, fd := range cfg.Descriptors {
		known[fd] = true
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return setupError("list the descriptors", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || known[fd] {
			continue
		}
		// Descriptors that this process opened have close-on-exec already.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd) //nolint:errcheck // nothing is lost with it
		}
	}
	if err := unix.CloseRange(fdConfig, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return setupError("keep the descriptors from children", err)
	}
	return nil
}

func readConfig(f *os.File) (*guestproto.Config, error) {
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return nil, setupError("read the configuration", err)
	}
	return guestproto.DecodeConfig(data)
}

// sendRoot sends the host a descriptor of the workspace as the guest sees it, by
// SCM_RIGHTS. That happens once, before any process of the workload exists.
func sendRoot(cfg *guestproto.Config) error {
	sock, ok := cfg.Descriptors["handoff"]
	if !ok {
		return nil
	}
	defer unix.Close(sock) //nolint:errcheck // it was only read //nolint:errcheck // nothing is lost with it
	fd, err := unix.Open(cfg.Root, unix.O_DIRECTORY|unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return setupError("open the workspace", err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is lost with it
	if err := unix.Sendmsg(sock, []byte{1}, unix.UnixRights(fd), nil, 0); err != nil {
		return setupError("hand the workspace to the host", err)
	}
	return nil
}

// With a limit of disk space the logs of sessions may take this part of it, in addition.
const (
	logShare = 4
	minLogs  = 1 << 20
)

// startServices starts the confined thread, the process manager, the file server, the
// relay and the listener, as far as the configuration asks for them.
func (g *daemon) startServices() error {
	cfg := g.cfg
	var err error
	opts := &process.Options{
		Root: cfg.Root, BaseEnv: []string{}, Env: cfg.Env, Retain: cfg.Retain,
		Subreaper: cfg.Subreaper || os.Getpid() == 1, Timeout: time.Duration(cfg.Limits[driver.ResourceWall].Max),
	}
	if disk := cfg.Limits[driver.ResourceDisk].Max; disk > 0 { // the logs are outside of what the limit bounds
		opts.MaxLogs = min(process.DefaultMaxLogs, max(disk/logShare, minLogs))
	}
	if needsConfine(cfg) { // otherwise every thread may start processes
		if g.starter, err = process.NewThreadStarter(func() error { return confineThread(cfg) }); err != nil {
			return err
		}
		opts.Starter = g.starter
	}
	opts.LogDir = dirPath(cfg, "log")
	opts.Tree = process.Walk{}
	c := newExitCauses(cfg, opts.Tree)
	opts.Tree, opts.Cause = c, c.causeOf
	if work, ok := cfg.Descriptors[guestproto.GroupWork]; ok {
		opts.Starter = &cgroupMover{Starter: opts.Starter, work: work, guest: cfg.Descriptors[guestproto.GroupGuest], limit: cfg.Limits[driver.ResourcePIDs].Max, causes: c}
	}
	if c.oom >= 0 {
		opts.Starter = oomPreferred{opts.Starter}
	}
	if g.manager, err = process.New(opts); err != nil {
		return err
	}
	var fileSrv *fileServer
	if cfg.Files {
		if g.root, err = files.Open(cfg.Root, &files.Options{ReadOnly: cfg.ReadOnly, Sync: cfg.Sync}); err != nil {
			return err
		}
		if !cfg.ReadOnly {
			g.root.CleanTemps(g.ctx) //nolint:errcheck // what a guest before this one left costs space alone
		}
		module := g.root.Module()
		if cfg.UID >= 0 && os.Getuid() == 0 {
			module = files.AsUser(module, cfg.UID)
		}
		fileSrv = newFileServer(module)
	}
	g.server = newServer(cfg, g.manager.Module(), fileSrv)
	g.server.end = g.cancel
	if cfg.RelayPort != 0 {
		if g.relay, err = startRelay(cfg); err != nil {
			return err
		}
		if g.relay != nil && g.relay.reverse != nil {
			g.server.reverse = g.relay.reverse
		}
	}
	g.server.reverse.dial = (&portDialer{cfg}).dial
	g.listen, err = g.openListener()
	return err
}

// dirPath returns the path of a directory that came as a descriptor or as a path; "" without.
func dirPath(cfg *guestproto.Config, name string) string {
	if fd, ok := cfg.Descriptors[name]; ok {
		return fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	return cfg.Paths[name]
}

// logRemoved reports whether the directory of the logs, which is in the workspace
// directory, was removed.
func logRemoved(cfg *guestproto.Config) bool {
	var st unix.Stat_t
	if fd, ok := cfg.Descriptors["log"]; ok {
		return unix.Fstat(fd, &st) == nil && st.Nlink == 0
	}
	path := cfg.Paths["log"]
	return path != "" && errors.Is(unix.Stat(path, &st), unix.ENOENT)
}

func (g *daemon) close() {
	clean, cancel := context.WithTimeout(background(), 15*time.Second)
	defer cancel()
	if g.listen != nil {
		g.listen.Close()
	}
	if g.relay != nil {
		g.relay.close()
	}
	if g.server != nil && g.server.files != nil {
		g.server.files.close()
	}
	if g.manager != nil {
		g.manager.Close(clean) //nolint:errcheck // the guest ends, and with it what is left
	}
	if g.starter != nil {
		g.starter.Close()
	}
	if g.root != nil {
		g.root.Close() //nolint:errcheck // nothing is lost with it
	}
	g.cancel()
}

// serve answers hosts until the guest is to end.
func (g *daemon) serve() error {
	defer g.close()
	defer g.cancel()
	ignoreSignals() // before any process of the workload could send one
	rpc, err := ttrpc.NewServer(ttrpc.WithUnaryServerInterceptor(encodeAnswer))
	if err != nil {
		return err
	}
	g.server.register(rpc)
	if g.cfg.Lease > 0 {
		l := newLease(g.cfg.Lease, func() bool { return logRemoved(g.cfg) }, g.cancel)
		g.server.onClients = l.setClients
		defer l.stop()
	}
	served := make(chan error, 1)
	go func() { served <- rpc.Serve(g.ctx, g.listen) }()
	select {
	case <-g.ctx.Done():
	case err = <-served:
		g.cancel()
	}
	g.shutDown(rpc)
	if errors.Is(err, ttrpc.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// maxMessage bounds the answer to a call, below the 4 MiB of ttrpc: a larger message ends
// the connection and every call on it.
const maxMessage = 4<<20 - 4<<10

// encodeAnswer is the ttrpc interceptor that turns an error, or an answer above
// maxMessage, into the status of the call.
func encodeAnswer(ctx context.Context, unmarshal ttrpc.Unmarshaler, _ *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	resp, err := method(ctx, unmarshal)
	if m, ok := resp.(proto.Message); ok && err == nil {
		if size := proto.Size(m); size > maxMessage {
			err = fmt.Errorf("guest: the answer has %d bytes: %w: at most %d can be sent; ask for less at a time", size, fault.ResourceExhausted, maxMessage)
		}
	}
	if err != nil {
		return nil, guestproto.ToStatus(err)
	}
	return resp, nil
}

// shutDown ends the processes, so that calls that wait for one return its result, and
// then the connections.
func (g *daemon) shutDown(rpc *ttrpc.Server) {
	clean, cancel := context.WithTimeout(background(), 10*time.Second)
	defer cancel()
	g.manager.Close(clean) //nolint:errcheck // the guest ends, and with it what is left
	close(g.server.done)
	brief, cancel := context.WithTimeout(background(), time.Second)
	defer cancel()
	rpc.Shutdown(brief) //nolint:errcheck // a client that has not read its answer by now loses it
	rpc.Close()         //nolint:errcheck // nothing is lost with it
}

// openListener returns the listener for hosts: a socket, or a listener with the one
// stream that the guest was started with, at whose end the guest ends.
func (g *daemon) openListener() (net.Listener, error) {
	if fd, ok := g.cfg.Descriptors["listen"]; ok {
		f := os.NewFile(uintptr(fd), "listen")
		defer f.Close()
		l, err := net.FileListener(f)
		if err != nil {
			return nil, err
		}
		l = rightsListener{l, &g.server.rights}
		if g.cfg.Token == "" {
			return l, nil
		}
		return newTokenListener(l, g.cfg.Token), nil
	}
	if path, ok := g.cfg.Paths["listen"]; ok {
		if path != stdioSocket { // an abstract socket is no file
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
		l, err := net.Listen("unix", path) //nolint:noctx // it is made, or it is not
		if err != nil || g.cfg.Token == "" {
			return l, err
		}
		return newTokenListener(l, g.cfg.Token), nil
	}
	fd, ok := g.cfg.Descriptors["stream"]
	if !ok {
		return nil, setupError("serve", fmt.Errorf("neither a stream nor a socket to listen on: %w", fault.InvalidArgument))
	}
	f := os.NewFile(uintptr(fd), "stream")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return newSingleConnListener(g.server.rights.wrap(conn)), nil
}
