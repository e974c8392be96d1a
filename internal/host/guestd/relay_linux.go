package guestd

import (
	"bytes"
	"errors"
	"github.com/croft-run/croft/internal/host/guestproto"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A relay listens on a loopback port inside and forwards connections to the egress proxy,
// which listens on a Unix socket of the host: programs take the address of a proxy as host
// and port.
type relay struct {
	listener net.Listener
	forwards []net.Listener // at the places of ports of the host
	target   string         // path of the proxy's socket
	reverse  *reverseConns  // used instead of target with Config.RemoteProxy
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil once closed
}

func startRelay(cfg *guestproto.Config) (*relay, error) {
	dir := dirPath(cfg, "egress")
	if dir == "" && !cfg.RemoteProxy {
		return nil, nil
	}
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.RelayPort))) //nolint:noctx // it is made, or it is not
	if err != nil {
		return nil, setupError("listen for the proxy", err)
	}
	r := &relay{listener: l, target: dir + "/" + guestproto.ProxySocket, conns: map[net.Conn]struct{}{}}
	if cfg.RemoteProxy {
		r.reverse = newReverseConns()
	}
	places := make(chan struct{}, maxRelayed)
	r.wg.Go(func() { r.acceptLoop(l, places, "") })
	for _, target := range cfg.Forwards {
		r.listenFor(target, places)
	}
	return r, nil
}

// listenFor listens where a port of the host is, on the loopback interface inside. A port
// that can't be had, such as one below 1024 of a guest without capabilities, is not there.
func (r *relay) listenFor(target string, places chan struct{}) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return
	}
	addrs := []string{host}
	if host == "localhost" {
		addrs = []string{"127.0.0.1", "::1"}
	}
	for _, addr := range addrs {
		l, err := net.Listen("tcp", net.JoinHostPort(addr, port)) //nolint:noctx // it is made, or it is not
		if err != nil {
			continue
		}
		r.forwards = append(r.forwards, l)
		r.wg.Go(func() { r.acceptLoop(l, places, target) })
	}
}

// A tunnelConn is a connection of the workload to a port of the host. To the proxy it begins
// with a CONNECT for that port. Of the answer the workload gets nothing, if it is a success.
type tunnelConn struct {
	net.Conn
	request  io.Reader
	response []byte // the head, until it is complete
	open     bool   // the head was read
}

func newTunnelConn(conn net.Conn, target string) *tunnelConn {
	return &tunnelConn{Conn: conn, request: strings.NewReader("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")}
}

func (t *tunnelConn) Read(b []byte) (int, error) {
	if n, err := t.request.Read(b); err == nil {
		return n, nil
	}
	return t.Conn.Read(b)
}

// maxTunnelHead bounds the head of the proxy's answer.
const maxTunnelHead = 16 << 10

// Write passes on what the proxy sends after the head. A refusal is passed on whole: it says
// why to programs that speak HTTP.
func (t *tunnelConn) Write(b []byte) (int, error) {
	if t.open {
		return t.Conn.Write(b)
	}
	t.response = append(t.response, b...)
	head, rest, ok := bytes.Cut(t.response, []byte("\r\n\r\n"))
	switch {
	case !ok && len(t.response) > maxTunnelHead:
		return 0, errors.New("the answer of the proxy has no end")
	case !ok:
		return len(b), nil
	case !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")):
		rest = t.response
	}
	t.open, t.response = true, nil
	if _, err := t.Conn.Write(rest); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (t *tunnelConn) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Close()
}

// maxRelayed bounds the connections that the workload makes the guest hold, since the
// limits of the workload do not apply to the guest. The proxy accepts fewer, and answers
// the others with an error.
const maxRelayed = 320

// acceptLoop accepts connections to the proxy, or through it to target.
func (r *relay) acceptLoop(l net.Listener, places chan struct{}, target string) {
	for {
		places <- struct{}{}
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as ECONNABORTED
			time.Sleep(10 * time.Millisecond)
			<-places
			continue
		}
		if target != "" {
			conn = newTunnelConn(conn, target)
		}
		if !r.track(conn) {
			conn.Close()
			return
		}
		r.wg.Go(func() {
			defer func() { <-places }()
			r.forward(conn)
		})
	}
}

// track adds a connection to those that close closes.
func (r *relay) track(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		return false
	}
	r.conns[conn] = struct{}{}
	return true
}

func (r *relay) untrack(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
	conn.Close()
}

func (r *relay) forward(inside net.Conn) {
	defer r.untrack(inside)
	if r.reverse != nil {
		r.reverse.forward(inside)
		return
	}
	outside, err := net.Dial("unix", r.target) //nolint:noctx // it is there, or it is not
	if err != nil {
		return
	}
	if !r.track(outside) {
		outside.Close()
		return
	}
	defer r.untrack(outside)
	var wg sync.WaitGroup
	wg.Go(func() { copyOneWay(outside, inside) })
	copyOneWay(inside, outside)
	wg.Wait()
}

// copyOneWay copies until the end of from, and then closes the writing side of to.
func copyOneWay(to, from net.Conn) {
	io.Copy(to, from) //nolint:errcheck // an error ends this direction
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite() //nolint:errcheck // likewise
		return
	}
	to.Close()
}

func (r *relay) close() {
	r.listener.Close()
	for _, l := range r.forwards {
		l.Close()
	}
	if r.reverse != nil {
		close(r.reverse.closed)
	}
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.wg.Wait()
}
