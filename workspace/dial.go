package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/croft-run/croft/fault"
)

// Dial connects to a TCP port on which a process of the workspace listens on its loopback.
// The error is Unavailable with the cause fault.CauseRefused if there is none.
//
// The connection outlives ctx, and the workspace counts as used until the connection is
// closed. It ends with the handle, with Pause, and with the guest of the workspace. It has
// a method CloseWrite() error, which ends one direction.
func (w *Workspace) Dial(ctx context.Context, port int) (conn net.Conn, err error) {
	err = w.callShell(ctx, verbDial, subject{port: strconv.Itoa(port)}, func(ctx context.Context, d *live) error {
		if port < 1 || port > 65535 {
			return fmt.Errorf("port %d: %w: a port is 1 to 65535", port, fault.InvalidArgument)
		}
		if d.Shell.Dial == nil {
			return w.unsupported("connections to ports", d)
		}
		c, err := d.Shell.Dial(ctx, port)
		if err != nil {
			return err
		}
		conn = w.trackConn(c)
		return nil
	})
	return conn, err
}

// A portConn is a connection of Dial. Closing the handle closes it.
type portConn struct {
	net.Conn
	w      *Workspace
	opened *openResource
}

// trackConn registers a connection with the handle, within the call.
func (w *Workspace) trackConn(conn net.Conn) *portConn {
	w.inflight.readers.Add(1)
	used := sync.OnceFunc(func() { w.inflight.readers.Add(-1) })
	c := &portConn{Conn: conn, w: w}
	c.opened = w.inflight.registerResource(&openResource{endsWithPause: true, close: func() error {
		defer used()
		return conn.Close()
	}})
	return c
}

// Read reads until the connection or the handle is closed.
func (c *portConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.closeReason(err)
}

// Write writes until the connection or the handle is closed.
func (c *portConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.closeReason(err)
}

// closeReason adds why the handle was closed to the error of a connection that it closed.
func (c *portConn) closeReason(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if why := c.w.inflight.closeReason(); why != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	return err
}

// CloseWrite ends the direction to the workspace.
func (c *portConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("close one direction of a connection: %w", fault.Unsupported)
}

// Close closes the connection.
func (c *portConn) Close() error { return c.w.inflight.closeResource(c.opened) }
