package guestd

import (
	"crypto/subtle"
	"io"
	"net"
	"sync"
	"time"
)

// tokenTimeout bounds the wait for a token, which a host sends at once.
const tokenTimeout = 10 * time.Second

// A tokenListener is a listener that accepts only connections that begin with a token. It
// keeps the workload, which may be able to open the socket, from calling the guest. It does
// not protect against a process that can read the guest's memory or the host's state.
type tokenListener struct {
	net.Listener
	token    []byte
	accepted chan net.Conn
	done     chan struct{}
	once     sync.Once
	wg       sync.WaitGroup
}

// maxUnauthenticated bounds connections that have not sent their token yet.
const maxUnauthenticated = 64

func newTokenListener(l net.Listener, token string) *tokenListener {
	d := &tokenListener{Listener: l, token: []byte(token), accepted: make(chan net.Conn), done: make(chan struct{})}
	d.wg.Go(d.acceptLoop)
	return d
}

func (d *tokenListener) acceptLoop() {
	places := make(chan struct{}, maxUnauthenticated)
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
			d.checkToken(conn)
		})
	}
}

func (d *tokenListener) checkToken(conn net.Conn) {
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
	d.deliver(conn)
}

// addTrusted adds a connection that needs no token.
func (d *tokenListener) addTrusted(conn net.Conn) {
	d.wg.Go(func() { d.deliver(conn) })
}

func (d *tokenListener) deliver(conn net.Conn) {
	select {
	case d.accepted <- conn:
	case <-d.done:
		conn.Close()
	}
}

// Accept returns the next authenticated connection.
func (d *tokenListener) Accept() (net.Conn, error) {
	select {
	case conn := <-d.accepted:
		return conn, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and the connections that wait.
func (d *tokenListener) Close() error {
	err := d.Listener.Close()
	d.once.Do(func() { close(d.done) })
	d.wg.Wait()
	return err
}
