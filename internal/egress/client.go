package egress

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// Protocols in events.
const (
	protoHTTP    = "http"
	protoHTTPS   = "https"
	protoConnect = "connect"
	protoSOCKS   = "socks5"
)

// A client is one connection from the workspace, or the inside of a tunnel.
type client struct {
	p        *Proxy
	conn     net.Conn
	br       *bufio.Reader
	protocol string
	fixed    *target // inside a tunnel: the target of all requests
	https    bool    // inside a tunnel with intercepted TLS

	mu        sync.Mutex // of answering: the response has begun
	answering bool
}

func newClient(p *Proxy, conn net.Conn) *client {
	return &client{p: p, conn: conn, br: bufio.NewReaderSize(conn, p.opts.MaxHeader), protocol: protoHTTP}
}

func deadline(d time.Duration) time.Time { return time.Now().Add(d) }

// serve detects SOCKS or HTTP by the first byte, and serves the connection.
func (c *client) serve(ctx context.Context) {
	_ = c.conn.SetReadDeadline(deadline(c.p.opts.IdleTimeout))
	b, err := c.br.Peek(1)
	if err != nil {
		return
	}
	if b[0] == socksVersion {
		c.serveSOCKS(ctx)
		return
	}
	c.serveHTTP(ctx)
}

// refuseExcess refuses a connection beyond MaxConns.
func (c *client) refuseExcess(ctx context.Context) {
	why := &refusal{code: fault.ResourceExhausted, reason: fmt.Sprintf("there are %d connections already", c.p.opts.MaxConns)}
	rec := &requestRecord{began: time.Now(), protocol: c.protocol, err: why}
	_ = c.conn.SetDeadline(deadline(c.p.refusalTimeout))
	if b, err := c.br.Peek(1); err != nil {
		return
	} else if b[0] == socksVersion {
		rec.protocol = protoSOCKS
		if t, _, err := c.greetSOCKS(); err == nil {
			rec.target = t
			_ = c.replySOCKS(why)
		}
	} else if _, err := peekHead(c.br); err == nil {
		c.writeRefusal(rec, nil, why, false)
		c.linger()
	}
	c.p.emitEvent(rec)
}

// serveHTTP serves requests one after the other until one of them, or the
// client, ends the connection.
func (c *client) serveHTTP(ctx context.Context) {
	for ctx.Err() == nil {
		_ = c.conn.SetReadDeadline(deadline(c.p.opts.IdleTimeout))
		if _, err := c.br.Peek(1); err != nil {
			return
		}
		_ = c.conn.SetReadDeadline(deadline(c.p.opts.HeaderTimeout))
		if h := c.localHandler(); h != nil {
			c.serveLocal(ctx, h)
			return
		}
		req, h, err := c.readHTTPRequest()
		if err != nil {
			c.rejectMalformed(err)
			return
		}
		_ = c.conn.SetReadDeadline(time.Time{})
		c.answering = false
		if req.Method == http.MethodConnect {
			c.serveConnect(ctx, h)
			return
		}
		if !c.serveRequest(ctx, req, h) {
			return
		}
	}
}

// readHTTPRequest reads and checks the next request.
func (c *client) readHTTPRequest() (*http.Request, head, error) {
	b, err := peekHead(c.br)
	if err != nil {
		return nil, head{}, err
	}
	h, err := parseHead(b)
	if err != nil {
		return nil, head{}, err
	}
	req, err := http.ReadRequest(c.br)
	if err != nil {
		return nil, head{}, invalidRequest("the request is malformed")
	}
	return req, h, nil
}

// rejectMalformed answers a malformed request.
func (c *client) rejectMalformed(err error) {
	var why *refusal
	if !errors.As(err, &why) {
		return // the client disconnected or timed out
	}
	rec := &requestRecord{began: time.Now(), protocol: c.protocol, err: why}
	if c.fixed != nil {
		rec.target = *c.fixed
	}
	c.writeRefusal(rec, nil, why, false)
	c.linger()
}

// writeRefusal emits the event of a refused request, and writes the error response.
func (c *client) writeRefusal(rec *requestRecord, req *http.Request, why *refusal, keep bool) {
	c.mu.Lock()
	c.answering = true
	c.mu.Unlock()
	host, status := rec.target.hostOrEmpty(), why.code.Status()
	rec.err, rec.status = why, status
	c.p.emitEvent(rec)
	c.p.reportRefusal(host, why)
	verb := "request"
	if req != nil {
		verb = req.Method
	}
	if host != "" {
		verb += " " + host
	}
	body, err := json.Marshal(fault.Encode(fmt.Errorf("egress: %s: %w: %s", verb, why.code, why.reason)))
	if err != nil {
		return
	}
	connection := ""
	if !keep {
		connection = "Connection: close\r\n"
	}
	if req != nil && req.Method == http.MethodHead {
		body = nil
	}
	_ = c.conn.SetWriteDeadline(deadline(c.p.opts.HeaderTimeout))
	// The reason is in the status line: of a response to CONNECT, programs show no more.
	fmt.Fprintf(c.conn, "HTTP/1.1 %d %s (croft: %s)\r\nContent-Type: application/json\r\nContent-Length: %d\r\nProxy-Status: croft; error=%s; details=%q\r\n%s\r\n%s",
		status, statusText(status), headerText(why.reason), len(body), proxyStatus(why.code), headerText(why.reason), connection, body)
}

// headerText returns a reason as one line of ASCII, for a header.
func headerText(reason string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, reason)
}

// proxyStatus returns the RFC 9209 error type of a code.
func proxyStatus(c fault.Code) string {
	switch c {
	case fault.PermissionDenied:
		return "http_request_denied"
	case fault.InvalidArgument:
		return "http_request_error"
	case fault.ResourceExhausted:
		return "connection_limit_reached"
	case fault.DeadlineExceeded:
		return "connection_timeout"
	case fault.Internal:
		return "proxy_internal_error"
	}
	return "destination_unavailable"
}

func statusText(code int) string {
	if s := http.StatusText(code); s != "" {
		return s
	}
	return "Status"
}

// linger reads and discards input for a moment (lingering close): closing a connection with
// unread input resets it, and the client would lose the response.
func (c *client) linger() {
	if hc, ok := c.conn.(interface{ CloseWrite() error }); ok {
		_ = hc.CloseWrite()
	}
	_ = c.conn.SetReadDeadline(deadline(time.Second))
	_, _ = io.CopyN(io.Discard, c.br, 1<<20)
}
