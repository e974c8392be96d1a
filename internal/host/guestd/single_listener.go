package guestd

import (
	"net"
	"sync"
)

// A singleConnListener is a listener with one connection. It is closed when that connection ends.
type singleConnListener struct {
	conn chan net.Conn
	done chan struct{}
	addr net.Addr
}

func newSingleConnListener(conn net.Conn) *singleConnListener {
	s := &singleConnListener{conn: make(chan net.Conn, 1), done: make(chan struct{}), addr: conn.LocalAddr()}
	s.conn <- &closeNotifyConn{Conn: conn, ended: sync.OnceFunc(func() { close(s.done) })}
	return s
}

// Accept returns the connection, once, and then waits for its end.
func (s *singleConnListener) Accept() (net.Conn, error) {
	select {
	case c := <-s.conn:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the end of the connection closes the listener.
func (s *singleConnListener) Close() error { return nil }

// Addr is the connection's.
func (s *singleConnListener) Addr() net.Addr { return s.addr }

// A closeNotifyConn calls ended when the connection is closed or a read fails.
type closeNotifyConn struct {
	net.Conn
	ended func()
}

func (c *closeNotifyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.ended()
	}
	return n, err
}

func (c *closeNotifyConn) Close() error {
	c.ended()
	return c.Conn.Close()
}
