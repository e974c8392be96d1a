package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/internal/tail"
)

// A Launch says how to start a guest.
type Launch struct {
	Binary string            // path of croft-guest
	Config guestproto.Config // Descriptors is filled from Files
	Files  []NamedFile       // what the guest is given

	// Sys creates the namespaces; nil creates none.
	Sys *syscall.SysProcAttr

	// Wrap rewrites the command line, such as into a call of bubblewrap, which must pass
	// descriptors on; nil runs Binary itself.
	Wrap func(argv []string) []string

	// Socket is the path of a Unix socket at which the guest listens, so that other
	// processes can connect. In gVisor the guest itself creates it, at Paths["listen"].
	// "" gives the guest one stream, and the guest ends with that stream.
	Socket string

	// Started is called with the guest's process id before the guest has its Config; an
	// error ends the guest. It may be nil.
	Started func(pid int) error

	// SendRoot asks for a descriptor of the workspace as the guest sees it: Running.Root.
	SendRoot bool
}

// A NamedFile is a file that the guest gets as a descriptor with a name.
type NamedFile struct {
	Name string
	File *os.File
}

// A Running is a guest that is a child of this process.
type Running struct {
	*Client
	Root *os.File // of the workspace inside, with Launch.SendRoot; the caller closes it

	cmd    *exec.Cmd
	waited chan struct{} // closed when cmd has ended
	stderr *tail.Buffer
}

// launchTimeout bounds the time from fork to the answer to Hello, on a machine under load.
const launchTimeout = 60 * time.Second

// Start starts a guest and waits until it answers. If the guest can't set up its
// namespaces, Start returns the guest's error and leaves nothing running.
func (l *Launch) Start(ctx context.Context) (*Running, error) {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	s := &launchState{launch: l}
	defer s.closeAll()
	if err := s.openDescriptors(); err != nil {
		return nil, fmt.Errorf("guest: start: %w: %w", fault.Failed, err)
	}
	r, err := s.startProcess()
	if err != nil {
		return nil, fmt.Errorf("guest: start %s: %w: %w", l.Binary, fault.Failed, err)
	}
	if err := s.handshake(ctx, r); err != nil {
		r.Kill()
		return nil, err
	}
	return r, nil
}

// A launchState has the descriptors that are open while a guest starts.
type launchState struct {
	launch *Launch
	close  []io.Closer
	extra  []*os.File // from descriptor 3 on

	program string   // path of the program
	config  *os.File // writing end: the Config
	report  *os.File // reading end: the report of the guest
	handoff *os.File // our end: receives the descriptor of the workspace
	stream  net.Conn // our end; nil if the guest listens
}

func (s *launchState) closeAll() {
	if s.stream != nil {
		s.stream.Close()
	}
	for _, c := range s.close {
		c.Close()
	}
}

// addDescriptor makes f the guest's next descriptor.
func (s *launchState) addDescriptor(name string, f *os.File) {
	s.extra = append(s.extra, f)
	if name != "" {
		s.launch.Config.Descriptors[name] = 2 + len(s.extra)
	}
}

func (s *launchState) openDescriptors() error {
	s.launch.Config.Descriptors = map[string]int{}
	configR, configW, err := os.Pipe()
	if err != nil {
		return err
	}
	s.close = append(s.close, configR, configW)
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return err
	}
	s.close = append(s.close, reportR, reportW)
	s.config, s.report = configW, reportR
	s.addDescriptor("", configR)
	s.addDescriptor("", reportW)
	for _, f := range s.launch.Files {
		s.addDescriptor(f.Name, f.File)
	}
	if s.launch.SendRoot {
		if s.handoff, err = s.addSocketPair("handoff"); err != nil {
			return err
		}
	}
	if err := s.openProgram(); err != nil {
		return err
	}
	if s.launch.Socket != "" && s.launch.Config.GVisor == nil {
		return s.addListener()
	}
	if s.launch.Socket != "" {
		return nil
	}
	ours, err := s.addSocketPair("stream")
	if err != nil {
		return err
	}
	s.stream, err = net.FileConn(ours)
	return err
}

// addSocketPair gives the guest one end of a socket pair, and returns the other.
func (s *launchState) addSocketPair(name string) (ours *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	s.close = append(s.close, ours, theirs)
	s.addDescriptor(name, theirs)
	return ours, nil
}

// openProgram makes the guest run from a descriptor, since the user that it becomes in the
// namespace may not be able to reach the path.
func (s *launchState) openProgram() error {
	s.program = s.launch.Binary
	if s.launch.Wrap != nil {
		return nil
	}
	f, err := os.Open(s.launch.Binary)
	if err != nil {
		return err
	}
	s.close = append(s.close, f)
	s.addDescriptor("program", f)
	s.program = fmt.Sprintf("/proc/self/fd/%d", s.launch.Config.Descriptors["program"])
	return nil
}

func (s *launchState) addListener() error {
	if err := os.Remove(s.launch.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	path, release, err := shortPath(s.launch.Socket)
	if err != nil {
		return err
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close() //nolint:errcheck // nothing is lost with it
	f, err := l.File()
	if err != nil {
		return err
	}
	s.close = append(s.close, f)
	s.addDescriptor("listen", f)
	return os.Chmod(s.launch.Socket, 0o600)
}

// shortPath returns a path of a socket through a descriptor of its directory, because the
// address of a Unix socket holds only 108 bytes.
func shortPath(socket string) (path string, release func(), err error) {
	dir, err := os.OpenFile(filepath.Dir(socket), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)), func() { dir.Close() }, nil
}

// dialSocket connects to a guest and sends the token; "" sends none.
func dialSocket(ctx context.Context, socket, token string) (net.Conn, error) {
	path, release, err := shortPath(socket)
	if err != nil {
		return nil, err
	}
	defer release()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil || token == "" {
		return conn, err
	}
	if _, err := io.WriteString(conn, token); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// ServingConfig is the configuration of the guest that serves: with GVisor the inner one.
func (l *Launch) ServingConfig() *guestproto.Config {
	if l.Config.GVisor != nil && l.Config.GVisor.Inner != nil {
		return l.Config.GVisor.Inner
	}
	return &l.Config
}

// guestEnv is the environment of a guest, which the guest does not pass on. One CPU is
// enough for the guest, and leaves the others to the workload.
var guestEnv = []string{"GOMAXPROCS=1"}

// waitDelay is how long a guest that has ended is waited for while a process that it started
// holds its standard error.
const waitDelay = 2 * time.Second

func (s *launchState) startProcess() (*Running, error) {
	argv := []string{s.program}
	if s.launch.Wrap != nil {
		argv = s.launch.Wrap(argv)
	}
	r := &Running{waited: make(chan struct{}), stderr: &tail.Buffer{Most: 16 << 10}}
	r.cmd = &exec.Cmd{Path: argv[0], Args: append([]string{"croft-guest"}, argv[1:]...), Env: guestEnv, Dir: "/",
		ExtraFiles: s.extra, SysProcAttr: s.launch.Sys, Stderr: r.stderr, WaitDelay: waitDelay}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the guest; Kill waits for it
		defer close(r.waited)
		r.cmd.Wait() //nolint:errcheck // how it ended is in ProcessState
	}()
	return r, nil
}

// handshake sends the Config, reads the report, and connects.
func (s *launchState) handshake(ctx context.Context, r *Running) error {
	// Close our copies of the guest's ends, so that reading the report ends when the
	// guest ends.
	for _, f := range s.extra[:2] {
		f.Close()
	}
	stop := context.AfterFunc(ctx, func() {
		r.killGroup()
		s.report.SetReadDeadline(time.Now()) //nolint:errcheck // what it has started may hold the other end
	})
	defer stop()
	if s.launch.Started != nil {
		if err := s.launch.Started(r.HostPID()); err != nil {
			return fmt.Errorf("guest: start: %w: %w", fault.Failed, err)
		}
	}
	config, err := s.launch.Config.Encode()
	if err != nil {
		return err
	}
	_, werr := s.config.Write(config)
	s.config.Close()
	said, err := readReport(s.report)
	if err := reportError(ctx, r, said, errors.Join(werr, err)); err != nil {
		return err
	}
	if s.handoff != nil {
		if r.Root, err = receiveDescriptor(s.handoff); err != nil {
			return fmt.Errorf("guest: receive the workspace: %w: %w", fault.Failed, err)
		}
	}
	return s.connectClient(ctx, r)
}

// connectClient connects the client to a guest that has started.
func (s *launchState) connectClient(ctx context.Context, r *Running) (err error) {
	conn := s.stream
	s.stream = nil // the client has it
	if s.launch.Socket != "" {
		if conn, err = dialSocket(ctx, s.launch.Socket, s.launch.ServingConfig().Token); err != nil {
			return fmt.Errorf("guest: connect: %w: %w", fault.Failed, err)
		}
	}
	r.Client, err = NewClient(ctx, conn, s.launch.Config.Version, s.launch.Config.Workspace)
	return err
}

// readReport reads to the end or to "ok": gVisor may keep the descriptor open after the
// guest has closed it.
func readReport(r io.Reader) ([]byte, error) {
	var said []byte
	buf := make([]byte, 4<<10)
	for len(said) < 64<<10 {
		n, err := r.Read(buf)
		said = append(said, buf[:n]...)
		if string(said) == "ok" || errors.Is(err, io.EOF) {
			return said, nil
		}
		if err != nil {
			return said, err
		}
	}
	return said, nil
}

// reportError turns the report of a guest that did not start into an error.
func reportError(ctx context.Context, r *Running, said []byte, err error) error {
	if string(said) == "ok" {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("guest: start: %w: %w", fault.Failed, ctx.Err())
	}
	var w fault.Wire
	if json.Unmarshal(said, &w) == nil && w.Code != "" {
		return w.Err()
	}
	<-r.waited
	msg := r.stderr.String()
	if msg == "" {
		msg = r.cmd.ProcessState.String()
	}
	return fmt.Errorf("guest: croft-guest ended before it served: %w: %w", fault.Failed, errors.Join(err, errors.New(msg)))
}

// receiveDescriptor receives one descriptor from the guest, by SCM_RIGHTS.
func receiveDescriptor(sock *os.File) (*os.File, error) {
	conn, err := net.FileConn(sock)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(buf, oob) // giveSocket made it
	if err != nil {
		return nil, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return nil, fmt.Errorf("no descriptor came (%d messages): %w", len(msgs), errors.Join(err, fault.Failed))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("no descriptor came: %w", errors.Join(err, fault.Failed))
	}
	return os.NewFile(uintptr(fds[0]), "workspace"), nil
}

// HostPID is the guest's process id on this host.
func (r *Running) HostPID() int { return r.cmd.Process.Pid }

// Exited is closed when the process of the guest has ended.
func (r *Running) Exited() <-chan struct{} { return r.waited }

// End shuts the guest down and waits for its end; after 5 seconds it kills the guest.
func (r *Running) End(ctx context.Context) error {
	r.Shutdown(ctx) //nolint:errcheck // the kill below does not ask
	select {
	case <-r.waited:
	case <-time.After(5 * time.Second):
	case <-ctx.Done():
	}
	r.Kill()
	return nil
}

// killGroup kills the process of the guest, and its process group if it leads one: bubblewrap, while
// it starts, has a child that does not end with it.
func (r *Running) killGroup() {
	select {
	case <-r.waited:
		return // its number may be another's
	default:
	}
	if sys := r.cmd.SysProcAttr; sys != nil && (sys.Setsid || sys.Setpgid) {
		unix.Kill(-r.HostPID(), unix.SIGKILL) //nolint:errcheck // it has ended already
	}
	r.cmd.Process.Kill() //nolint:errcheck // it has ended already
}

// Kill kills the guest, and with it all processes of its PID namespace, and waits for its end.
func (r *Running) Kill() {
	r.killGroup()
	<-r.waited
	if r.Client != nil {
		r.Close() //nolint:errcheck // nothing is lost with it
	}
	if r.Root != nil {
		r.Root.Close()
	}
}

// Dial connects to a guest that another process started. The guest expects the token first;
// "" sends none.
func Dial(ctx context.Context, socket, token, version, workspace string) (*Client, error) {
	conn, err := dialSocket(ctx, socket, token)
	if err != nil {
		return nil, fmt.Errorf("guest of %s: connect: %w: %w", workspace, fault.Evicted, err)
	}
	return NewClient(ctx, conn, version, workspace)
}

// Stop asks the guest that listens at socket, of any version, to end.
func Stop(ctx context.Context, socket, token string) error {
	conn, err := dialSocket(ctx, socket, token)
	if err != nil {
		return err
	}
	c := ttrpc.NewClient(conn)
	defer c.Close() //nolint:errcheck // nothing is lost with it
	_, err = guestpb.NewGuestClient(c).Shutdown(ctx, &guestpb.Empty{})
	return err
}
