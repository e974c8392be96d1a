package egress

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// RelayPort is the loopback port inside workspaces that guests relay to the proxy.
const RelayPort = 3128

// localHandler returns the handler of the next request if it is for the proxy itself, as for a
// server; else nil. Errors in its head are reported when it is read.
func (c *client) localHandler() http.Handler {
	if c.fixed != nil || c.p.opts.LocalHandler == nil {
		return nil
	}
	b, err := peekHead(c.br)
	if err != nil {
		return nil
	}
	if h, err := parseHead(b); err != nil || !strings.HasPrefix(h.uri, "/") {
		return nil
	}
	return c.p.opts.LocalHandler(c.p.opts.Workspace)
}

// serveLocal serves this connection by a handler to its end. The first request is still
// unread in br.
func (c *client) serveLocal(ctx context.Context, h http.Handler) {
	_ = c.conn.SetDeadline(time.Time{})
	l := &singleListener{conn: &bufferedConn{c.conn, c.br}, addr: c.conn.LocalAddr(), ended: make(chan struct{})}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: c.p.opts.HeaderTimeout, IdleTimeout: c.p.opts.IdleTimeout, MaxHeaderBytes: c.p.opts.MaxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				l.end()
			}
		},
	}
	_ = srv.Serve(l) // it ends with the connection
}

// bufferedConn is a connection that is read through a buffer.
type bufferedConn struct {
	net.Conn
	br *bufio.Reader
}

func (b *bufferedConn) Read(p []byte) (int, error) { return b.br.Read(p) }

// singleListener is a listener with one connection, which ends with it.
type singleListener struct {
	conn  net.Conn
	addr  net.Addr
	ended chan struct{}
	once  sync.Once
}

func (l *singleListener) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.ended
	return nil, net.ErrClosed
}

func (l *singleListener) end()           { l.once.Do(func() { close(l.ended) }) }
func (l *singleListener) Close() error   { return nil }
func (l *singleListener) Addr() net.Addr { return l.addr }
