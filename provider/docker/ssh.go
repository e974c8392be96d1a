package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tail"
)

// sshEngine stands for an engine that is reached by ssh, in its address.
const sshEngine = "engine.over.ssh"

// sshDialer returns what connects to the engine of a host that is reached by ssh,
// as the docker command does: the command of the same name on that host passes its
// standard input and output on to the engine there. Who this is, and which keys it
// has, is ssh's business.
func sshDialer(host string) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	u, err := url.Parse(host)
	if err != nil || u.Hostname() == "" || u.Hostname()[0] == '-' || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return nil, fmt.Errorf("docker: engine at %q: %w: it is ssh://[user@]host[:port]", host, fault.InvalidArgument)
	}
	args := []string{"-o", "ConnectTimeout=30", "-o", "BatchMode=yes", "-T"}
	if name := u.User.Username(); name != "" {
		args = append(args, "-l", name)
	}
	if port := u.Port(); port != "" {
		args = append(args, "-p", port)
	}
	args = append(args, "--", u.Hostname(), "docker", "system", "dial-stdio")
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return dialCommand(ctx, "ssh", args...) }, nil
}

// A commandConn is a connection to standard input and output of a program.
type commandConn struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
	end sync.Once

	spoke atomic.Bool // the program has written something
	said  tail.Buffer
}

// dialCommand starts a program to speak to. It ends with the connection.
func dialCommand(ctx context.Context, name string, args ...string) (net.Conn, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("docker: %w: %w", fault.Internal, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("docker: %w: %w", fault.Internal, err)
	}
	c := &commandConn{cmd: cmd, in: in, out: out}
	cmd.Stderr, cmd.WaitDelay = &c.said, time.Second // what it started may have it open for longer
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("docker: start %s: %w: %w", name, fault.Unavailable, err)
	}
	return c, nil
}

// Read reads what the program writes.
func (c *commandConn) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if n > 0 {
		c.spoke.Store(true)
	}
	return n, c.why(err)
}

// Write writes what it reads.
func (c *commandConn) Write(p []byte) (int, error) {
	n, err := c.in.Write(p)
	return n, c.why(err)
}

// why makes the end of a program that never spoke what it complained of.
func (c *commandConn) why(err error) error {
	if err == nil || c.spoke.Load() {
		return err
	}
	c.Close() //nolint:errcheck // it always succeeds; what the program said is complete then
	if text := strings.Join(strings.Fields(c.said.String()), " "); text != "" {
		return fmt.Errorf("%w: %s", fault.Unavailable, text)
	}
	return err
}

// CloseWrite says that nothing more is written.
func (c *commandConn) CloseWrite() error { return c.in.Close() }

// Close ends the program, and waits for it.
func (c *commandConn) Close() error {
	c.end.Do(func() {
		c.in.Close()         // it ends by force then
		c.cmd.Process.Kill() //nolint:errcheck // it has ended by itself then
		_ = c.cmd.Wait()     // how it ends is of no interest
	})
	return nil
}

// LocalAddr is for people.
func (c *commandConn) LocalAddr() net.Addr { return commandAddr(c.cmd.Path) }

// RemoteAddr is for people.
func (c *commandConn) RemoteAddr() net.Addr { return commandAddr(c.cmd.Path) }

// SetDeadline is not to be had; a hung engine is given up by its context.
func (c *commandConn) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline is not to be had.
func (c *commandConn) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline is not to be had.
func (c *commandConn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

type commandAddr string

// Network is for people.
func (a commandAddr) Network() string { return "command" }

func (a commandAddr) String() string { return string(a) }
