package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
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
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("docker: start %s: %w: %w", name, fault.Unavailable, err)
	}
	return &commandConn{cmd: cmd, in: in, out: out}, nil
}

// Read reads what the program writes.
func (c *commandConn) Read(p []byte) (int, error) { return c.out.Read(p) }

// Write writes what it reads.
func (c *commandConn) Write(p []byte) (int, error) { return c.in.Write(p) }

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
