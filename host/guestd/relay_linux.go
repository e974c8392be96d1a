package guestd

import (
	"errors"
	"github.com/croft-run/croft/host/guestproto"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// A relay listens on a loopback port inside and forwards connections to the egress proxy,
// which listens on a Unix socket of the host: programs take the address of a proxy as host
// and port.
type relay struct {
	listener net.Listener
	target   string        // path of the proxy's socket
	reverse  *reverseConns // used instead of target with Config.RemoteProxy
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
	r.wg.Go(r.acceptLoop)
	return r, nil
}

// maxRelayed bounds the connections that the workload makes the guest hold, since the
// limits of the workload do not apply to the guest. The proxy accepts fewer, and answers
// the others with an error.
const maxRelayed = 320

func (r *relay) acceptLoop() {
	places := make(chan struct{}, maxRelayed)
	for {
		places <- struct{}{}
		conn, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as ECONNABORTED
			time.Sleep(10 * time.Millisecond)
			<-places
			continue
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
