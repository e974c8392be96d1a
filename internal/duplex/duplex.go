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

// A Conn is one end of a connection. Write returns when all data is in a buffer, from which
// the other end reads.
type Conn struct {
	in, out *half
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
	one, two := newHalf(), newHalf()
	ends := &[2]end{{closed: make(chan struct{})}, {closed: make(chan struct{})}}
	return &Conn{in: one, out: two, ends: ends, self: 0}, &Conn{in: two, out: one, ends: ends, self: 1}
}

func (c *Conn) peer() *end { return &c.ends[1-c.self] }

// Read returns io.EOF after CloseWrite or Close of the other end, and the error of its
// Abort.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.explain(err)
}

// Write fails with EPIPE if the other end does not read any more.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.explain(err)
}

// explain replaces the errors of a half, which say only that one of the ends is closed.
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
func (c *Conn) CloseWrite() error {
	c.out.end()
	return nil
}

// CloseRead makes writes of the other end fail.
func (c *Conn) CloseRead() error {
	c.in.drop()
	return nil
}

// Close ends both directions. The other end still reads what was written.
func (c *Conn) Close() error {
	c.ends[c.self].once.Do(func() {
		close(c.ends[c.self].closed)
		c.in.drop()
		c.out.end()
	})
	return nil
}

// Abort is Close, and the other end gets err instead of io.EOF.
func (c *Conn) Abort(err error) {
	c.ends[c.self].failed.CompareAndSwap(nil, &err)
	c.Close() //nolint:errcheck // it always answers nil
}

// PeerClosed is closed when Close or Abort of the other end was called.
func (c *Conn) PeerClosed() <-chan struct{} { return c.peer().closed }

// addr is the address of both ends.
type addr struct{}

func (addr) Network() string { return "duplex" }
func (addr) String() string  { return "duplex" }

// LocalAddr returns an address without content.
func (c *Conn) LocalAddr() net.Addr { return addr{} }

// RemoteAddr returns an address without content.
func (c *Conn) RemoteAddr() net.Addr { return addr{} }

// SetDeadline sets the deadlines of Read and Write.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline of Read.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.readBy.set(t)
	return nil
}

// SetWriteDeadline sets the deadline of Write.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.writeBy.set(t)
	return nil
}
