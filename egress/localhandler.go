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

// RelayPort is the loopback port inside of workspaces on which guests pass
// programs on to the proxy.
const RelayPort = 3128

// localHandler returns what answers the next request if it asks the proxy itself, as
// one asks a server; nil where it is for somebody else, or nothing answers. What
// is wrong with its head shows when it is read.
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

// serveLocal lets a handler answer this connection to its end. No byte of its
// first request has been taken out of br.
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

// bufferedConn is a connection of which something was read already.
type bufferedConn struct {
	net.Conn
	br *bufio.Reader
}

func (b *bufferedConn) Read(p []byte) (int, error) { return b.br.Read(p) }

// singleListener is a listener that has one connection, and ends with it.
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
