package guestd

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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/internal/sleep"
)

// On another machine, which the host reaches by ssh, each workspace has a directory, with the
// names guestproto.Machine*. "croft-guest daemon" starts the guest as a process of its own,
// which outlives the connection, and then copies bytes between the connection and the guest's
// socket. Later connections do so by "croft-guest connect". The guest holds the flock of
// guestproto.MachineLock, so a directory has one guest at most, and "croft-guest end" knows
// whether it lives.

// machineMain runs a verb for the directory of a workspace, and reports whether there is
// such a verb.
func machineMain(verb, dir string) (status int, ok bool) {
	switch verb {
	case guestproto.ServeVerb:
		return serveMain(dir), true
	case guestproto.TunnelVerb:
		return tunnelMain(dir), true
	case guestproto.ConnectVerb, guestproto.DaemonVerb, guestproto.EndVerb, guestproto.RemoveVerb:
	default:
		return 0, false
	}
	if verb == guestproto.ConnectVerb {
		if err := os.Chdir(dir); err != nil { // the address of a Unix socket holds only 108 bytes
			fmt.Fprintln(os.Stderr, "croft-guest:", err)
			return 1, true
		}
		return connectMain(guestproto.MachineSocket), true
	}
	var conn net.Conn
	message, err := guestproto.ReadMessage(os.Stdin, maxConfig)
	switch {
	case err != nil:
		err = setupError("read the request", err)
	case verb == guestproto.DaemonVerb:
		conn, err = startMachineGuest(dir, message)
	default:
		err = endMachineGuest(dir, string(message), verb == guestproto.RemoveVerb)
	}
	if werr := guestproto.WriteMessage(os.Stdout, encodeReport(err)); err != nil || werr != nil {
		return 1, true
	}
	if conn == nil {
		return 0, true
	}
	return bridgeStdio(conn), true
}

// loginEnv are the variables of the login that commands get, besides LC_*, unless the
// configuration has others.
var loginEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "TZ"}

// newMachineStart prepares the start of a guest in dir, which becomes the working directory,
// with an encoded Config.
func newMachineStart(dir string, config []byte) (*daemonStart, error) {
	cfg, err := guestproto.DecodeConfig(config)
	if err != nil {
		return nil, err
	}
	if cfg.Token == "" {
		return nil, setupError("serve", fmt.Errorf("the configuration has no token: %w", fault.InvalidArgument))
	}
	if err := os.Chdir(dir); err != nil {
		return nil, fmt.Errorf("guest: the directory of the workspace: %w: %w", fault.Of(err), err)
	}
	if cfg.Env == nil {
		cfg.Env = map[string]string{}
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if _, set := cfg.Env[name]; !set && (strings.HasPrefix(name, "LC_") || slices.Contains(loginEnv, name)) {
			cfg.Env[name] = value
		}
	}
	return &daemonStart{cfg: cfg}, nil
}

// startMachineGuest starts a guest in dir with an encoded Config, and connects to it.
func startMachineGuest(dir string, config []byte) (net.Conn, error) {
	d, err := newMachineStart(dir, config)
	if err != nil {
		return nil, err
	}
	defer d.closeAll()
	if err := d.openFiles(); err != nil {
		return nil, err
	}
	if err := d.run(); err != nil {
		return nil, err
	}
	conn, err := net.Dial("unix", guestproto.MachineSocket) //nolint:noctx // it is there, or it is not
	if err == nil {
		_, err = io.WriteString(conn, d.cfg.Token)
	}
	if err != nil {
		return nil, setupError("connect to the guest", err)
	}
	return conn, nil
}

// A daemonStart has the descriptors that are open while a guest starts. The working directory
// is that of the workspace.
type daemonStart struct {
	cfg   *guestproto.Config
	lock  *os.File
	extra []*os.File // from descriptor fdConfig on
	close []io.Closer
}

func (d *daemonStart) closeAll() {
	for _, c := range d.close {
		c.Close()
	}
}

// openFiles takes the lock and opens what the guest gets, after its pipes.
func (d *daemonStart) openFiles() error {
	lock, err := os.OpenFile(guestproto.MachineLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return setupError("open the lock", err)
	}
	d.lock, d.close = lock, append(d.close, lock)
	if !tryLock(lock) {
		return fmt.Errorf("guest: %w: another guest serves this workspace", fault.Conflict)
	}
	log, err := os.Open(guestproto.MachineLog)
	if err != nil {
		return setupError("open the directory of logs", err)
	}
	d.close = append(d.close, log)
	if err := os.Remove(guestproto.MachineSocket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return setupError("remove the socket", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: guestproto.MachineSocket, Net: "unix"})
	if err != nil {
		return setupError("listen", err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close() //nolint:errcheck // the guest has the socket
	listen, err := l.File()
	if err != nil {
		return setupError("listen", err)
	}
	d.close = append(d.close, listen)
	d.cfg.Descriptors, d.cfg.Paths = map[string]int{}, nil
	d.extra = make([]*os.File, fdFirst-fdConfig) // the pipes
	for _, f := range []struct {
		name string
		file *os.File
	}{{"listen", listen}, {"log", log}, {"lock", lock}} {
		d.cfg.Descriptors[f.name] = fdConfig + len(d.extra)
		d.extra = append(d.extra, f.file)
	}
	return os.Chmod(guestproto.MachineSocket, 0o600)
}

// run starts the process of the guest and waits for its report.
func (d *daemonStart) run() error {
	configR, configW, err := os.Pipe()
	if err != nil {
		return setupError("open a pipe", err)
	}
	d.close = append(d.close, configR, configW)
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return setupError("open a pipe", err)
	}
	d.close = append(d.close, reportR, reportW)
	d.extra[0], d.extra[1] = configR, reportW
	config, err := d.cfg.Encode()
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"croft-guest"}, Env: []string{"GOMAXPROCS=1"}, Dir: "/",
		ExtraFiles: d.extra, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return setupError("start the guest", err)
	}
	configR.Close()
	reportW.Close()
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := errors.Join(d.lock.Truncate(0), writeAtStart(d.lock, pid)); err != nil {
		cmd.Process.Kill() //nolint:errcheck // the process has ended already
		cmd.Wait()         //nolint:errcheck // it was killed
		return setupError("write the process id", err)
	}
	_, werr := configW.Write(config)
	configW.Close()
	said, rerr := io.ReadAll(io.LimitReader(reportR, maxConfig))
	if string(said) == "ok" {
		return cmd.Process.Release()
	}
	cmd.Wait() //nolint:errcheck // the report says more
	var w fault.Wire
	if json.Unmarshal(said, &w) == nil && w.Code != "" {
		return w.Err()
	}
	return setupError("start", errors.Join(werr, rerr, io.ErrUnexpectedEOF))
}

func writeAtStart(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

func tryLock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// endTimeout is how long a guest may take to end after it was asked to, and after it was
// killed.
const endTimeout = 15 * time.Second

// endMachineGuest ends the guest of the workspace in dir, if it has one. With remove it also
// kills processes that a dead guest left, and removes the directory.
func endMachineGuest(dir, token string, remove bool) error {
	lock, err := os.OpenFile(filepath.Join(dir, guestproto.MachineLock), os.O_RDWR, 0)
	if err == nil {
		defer lock.Close()
		err = endLocked(dir, token, lock)
	}
	if errors.Is(err, os.ErrNotExist) { // no guest was ever started
		err = nil
	}
	if err != nil || !remove {
		return err
	}
	killOrphans(dir)
	if err := files.RemoveTree(dir); err != nil {
		return fmt.Errorf("guest: remove the workspace: %w: %w", fault.Of(err), err)
	}
	return nil
}

// endLocked asks the guest to end, and kills it if it does not.
func endLocked(dir, token string, lock *os.File) error {
	if tryLock(lock) {
		return nil
	}
	ctx, cancel := context.WithTimeout(background(), endTimeout)
	defer cancel()
	if err := shutDownAt(ctx, dir, token); err == nil && waitForLock(ctx, lock) {
		return nil
	}
	text := make([]byte, 20)
	n, err := lock.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("guest: read the process id: %w: %w", fault.Of(err), err)
	}
	pid, err := strconv.Atoi(string(text[:n]))
	if err != nil || pid <= 1 {
		return fmt.Errorf("guest: the guest does not end, and its process id is not known: %w", fault.Unavailable)
	}
	if tryLock(lock) { // otherwise the guest lives, and the id is its own
		return nil
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("guest: kill the guest: %w: %w", fault.Of(err), err)
	}
	after, cancel := context.WithTimeout(background(), endTimeout)
	defer cancel()
	if !waitForLock(after, lock) {
		return fmt.Errorf("guest: the guest was killed and does not end: %w", fault.Unavailable)
	}
	return nil
}

// shutDownAt asks the guest in dir to end.
func shutDownAt(ctx context.Context, dir, token string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", guestproto.MachineSocket)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(conn, token); err != nil {
		return errors.Join(err, conn.Close())
	}
	c := ttrpc.NewClient(conn)
	defer c.Close() //nolint:errcheck // nothing is lost with it
	_, err = guestpb.NewGuestClient(c).Shutdown(ctx, &guestpb.Empty{})
	return err
}

// waitForLock waits until no guest has the lock.
func waitForLock(ctx context.Context, lock *os.File) bool {
	const interval = 5 * time.Millisecond
	for !tryLock(lock) {
		if sleep.For(ctx, interval) != nil {
			return false
		}
	}
	return true
}

// killOrphans kills processes of a guest that was killed: a Manager does so for the sessions
// that it finds in the journal.
func killOrphans(dir string) {
	m, err := process.New(&process.Options{Root: filepath.Join(dir, guestproto.MachineFiles), LogDir: filepath.Join(dir, guestproto.MachineLog)})
	if err != nil {
		return // a directory is missing: nothing ran
	}
	ctx, cancel := context.WithTimeout(background(), endTimeout)
	defer cancel()
	m.Close(ctx) //nolint:errcheck // it runs nothing
}
