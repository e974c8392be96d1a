// Package duplex has a connection in memory whose ends can be closed by direction and
// aborted with an error, as those of TCP can.
package duplex

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Conn is one end of a connection. It buffers nothing: Write returns when the other end
// has read the data, or fails.
type Conn struct {
	in, out net.Conn // halves of two net.Pipes, each used in one direction
	ends    *[2]end
	self    int // index in ends
}

// An end is the state of one end, which both see.
type end struct {
	once   sync.Once
	closed chan struct{}
	failed atomic.Pointer[error] // why it was aborted
}

// Pipe returns both ends of a new connection.
func Pipe() (*Conn, *Conn) {
	aIn, bOut := net.Pipe()
	bIn, aOut := net.Pipe()
	ends := &[2]end{{closed: make(chan struct{})}, {closed: make(chan struct{})}}
	return &Conn{in: aIn, out: aOut, ends: ends, self: 0}, &Conn{in: bIn, out: bOut, ends: ends, self: 1}
}

func (c *Conn) peer() *end { return &c.ends[1-c.self] }

// Read returns io.EOF after CloseWrite or Close of the other end, and the error of its
// Abort.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	return n, c.explain(err)
}

// Write fails with EPIPE if the other end does not read any more.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	return n, c.explain(err)
}

// explain replaces the errors of net.Pipe, which say only that one of the ends is closed.
func (c *Conn) explain(err error) error {
	if err == nil || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	select {
	case <-c.ends[c.self].closed:
		return net.ErrClosed
	default:
	}
	if why := c.peer().failed.Load(); why != nil {
		return *why
	}
	if errors.Is(err, io.ErrClosedPipe) {
		return syscall.EPIPE
	}
	return err
}

// CloseWrite ends the direction from here to the other end.
func (c *Conn) CloseWrite() error { return c.out.Close() }

// CloseRead makes writes of the other end fail.
func (c *Conn) CloseRead() error { return c.in.Close() }

// Close ends both directions. The other end still reads what was written.
func (c *Conn) Close() error {
	c.ends[c.self].once.Do(func() {
		close(c.ends[c.self].closed)
		c.in.Close()
		c.out.Close()
	})
	return nil
}

// Abort is Close, and the other end gets err instead of io.EOF.
func (c *Conn) Abort(err error) {
	c.ends[c.self].failed.CompareAndSwap(nil, &err)
	c.Close()
}

// PeerClosed is closed when Close or Abort of the other end was called.
func (c *Conn) PeerClosed() <-chan struct{} { return c.peer().closed }

// LocalAddr returns an address without content.
func (c *Conn) LocalAddr() net.Addr { return c.in.LocalAddr() }

// RemoteAddr returns an address without content.
func (c *Conn) RemoteAddr() net.Addr { return c.in.RemoteAddr() }

// SetDeadline sets the deadlines of Read and Write.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline of Read.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.deadlineSet(c.in.SetReadDeadline(t)) }

// SetWriteDeadline sets the deadline of Write.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.deadlineSet(c.out.SetWriteDeadline(t)) }

// deadlineSet returns the error of setting a deadline: a direction that has ended needs none.
func (c *Conn) deadlineSet(err error) error {
	if err = c.explain(err); errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
