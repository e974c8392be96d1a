package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/fault"
)

// serveConnect serves a CONNECT request.
func (c *client) serveConnect(ctx context.Context, h head) {
	if c.fixed != nil {
		c.rejectMalformed(invalidRequest("a tunnel inside a tunnel is not served"))
		return
	}
	t, err := splitTarget(h.uri, 0)
	if err == nil && h.hasHost {
		// Some clients leave out the port.
		if said, herr := splitTarget(h.host, t.port); herr != nil || said != t {
			err = invalidRequest("the Host header is not the host of the request")
		}
	}
	if err != nil {
		why := asRefusal(err)
		rec := &requestRecord{began: time.Now(), host: h.uri, protocol: protoConnect, method: methodTunnel, err: why}
		c.writeRefusal(rec, &http.Request{Method: methodTunnel}, why, false)
		c.linger()
		return
	}
	c.serveTunnel(ctx, t, protoConnect, func(rec *requestRecord, why *refusal) (int, error) {
		if why != nil {
			c.writeRefusal(rec, &http.Request{Method: methodTunnel}, why, false)
			c.linger()
			return rec.status, nil
		}
		_ = c.conn.SetWriteDeadline(deadline(c.p.opts.HeaderTimeout))
		_, err := io.WriteString(c.conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		return http.StatusOK, err
	})
}

// serveTunnel serves a tunnel to a target. It calls answer once, with a refusal or nil.
func (c *client) serveTunnel(ctx context.Context, t target, protocol string, answer func(*requestRecord, *refusal) (int, error)) {
	rec := &requestRecord{began: time.Now(), target: t, protocol: protocol, method: methodTunnel}
	rs := c.p.currentRules()
	seen := t.port == 80 || rs.hasCredential(t)
	v := rs.checkRequest(t, methodTunnel)
	if seen {
		v = rs.checkHost(t) // each request inside is checked by itself
	}
	rec.rule = v.rule
	if !v.allowed {
		c.refuseTunnel(rec, newDenial(v), answer)
		return
	}
	switch {
	case t.port == 80:
		if _, err := answer(rec, nil); err == nil {
			c.protocol, c.fixed = protocol, &t
			c.serveHTTP(ctx)
		}
	case seen:
		if _, err := answer(rec, nil); err != nil {
			return
		}
		if c.beginsWithMethod() { // HTTP to another port, without TLS
			c.protocol, c.fixed = protocol, &t
			c.serveHTTP(ctx)
			return
		}
		c.interceptTLS(ctx, t, rec)
	default:
		c.forwardTunnel(ctx, t, rec, answer)
	}
}

// beginsWithMethod reports whether a tunnel begins as a request of HTTP does, and not as TLS
// does.
func (c *client) beginsWithMethod() bool {
	_ = c.conn.SetReadDeadline(deadline(c.p.opts.HeaderTimeout))
	first, err := c.br.Peek(1)
	_ = c.conn.SetReadDeadline(time.Time{})
	return err == nil && first[0] >= 'A' && first[0] <= 'Z'
}

// refuseTunnel answers with a refusal and emits its event.
func (c *client) refuseTunnel(rec *requestRecord, why *refusal, answer func(*requestRecord, *refusal) (int, error)) {
	rec.err = why
	if rec.protocol == protoSOCKS {
		c.p.emitEvent(rec)
		c.p.reportRefusal(rec.target.hostOrEmpty(), why)
	}
	if answer != nil {
		rec.status, _ = answer(rec, why)
	}
	c.p.emitEvent(rec)
}

// readCheckedHello reads a TLS hello and checks its server name.
func (c *client) readCheckedHello(ctx context.Context, t target) (hello, error) {
	_ = c.conn.SetReadDeadline(deadline(c.p.opts.HeaderTimeout))
	h, err := readHello(ctx, c.br)
	_ = c.conn.SetReadDeadline(time.Time{})
	if err == nil {
		err = h.checkName(t, c.p.currentRules())
	}
	if err != nil && len(h.raw) > 0 && h.raw[0] == recordHandshake {
		_ = c.conn.SetWriteDeadline(deadline(c.p.opts.HeaderTimeout))
		_, _ = c.conn.Write(unrecognizedNameAlert)
	}
	return h, err
}

// interceptTLS terminates TLS with the workspace's certificate authority and serves the
// requests inside.
func (c *client) interceptTLS(ctx context.Context, t target, rec *requestRecord) {
	h, err := c.readCheckedHello(ctx, t)
	if err != nil {
		c.refuseTunnel(rec, asRefusal(err), nil)
		c.linger()
		return
	}
	conn := tls.Server(&replayConn{c.conn, io.MultiReader(bytes.NewReader(h.raw), c.br)}, c.p.authority.tlsConfig(t))
	_ = conn.SetDeadline(deadline(c.p.opts.HeaderTimeout))
	if err := conn.HandshakeContext(ctx); err != nil {
		c.refuseTunnel(rec, &refusal{code: fault.Canceled, reason: "the client does not trust the authority of the workspace, or ended the handshake"}, nil)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	inner := newClient(c.p, conn)
	inner.protocol, inner.fixed, inner.https = protoHTTPS, &t, true
	inner.serveHTTP(ctx)
	_ = conn.CloseWrite()
}

// forwardTunnel connects and copies bytes without inspection, except for the first ones: on
// port 443 they must be a TLS hello for this host; on other ports a TLS hello is checked,
// too, if there is one.
func (c *client) forwardTunnel(ctx context.Context, t target, rec *requestRecord, answer func(*requestRecord, *refusal) (int, error)) {
	up, addr, err := c.p.dial(ctx, t)
	if err != nil {
		c.refuseTunnel(rec, asRefusal(err), answer)
		return
	}
	defer up.Close()
	rec.addr = addr
	cut := false
	var once sync.Once
	f := &flow{target: t, method: methodTunnel, addr: addr, stop: func() {
		once.Do(func() { cut = true })
		up.Close()
		c.conn.Close()
	}}
	if err := c.p.addFlow(f); err != nil {
		c.refuseTunnel(rec, asRefusal(err), answer)
		return
	}
	if rec.status, err = answer(rec, nil); err == nil {
		s := &splice{c: c, up: up, target: t}
		rec.err = s.run(ctx)
		rec.in, rec.out = s.down.Load(), s.out.Load()
	}
	c.p.removeFlow(f)
	once.Do(func() {})
	if cut {
		rec.err = &refusal{code: fault.PermissionDenied, reason: "the policy has changed"}
		if ctx.Err() != nil {
			rec.err = &refusal{code: fault.Canceled, reason: "it was cut off"}
		}
	}
	c.p.emitEvent(rec)
}

// A splice copies bytes between a client and a server in both directions, until both have
// ended or the idle timeout.
type splice struct {
	c         *client
	up        net.Conn
	target    target
	last      atomic.Int64 // time of the last copied byte, in Unix nanoseconds
	down, out atomic.Int64 // bytes
}

func (s *splice) run(ctx context.Context) error {
	s.last.Store(time.Now().UnixNano())
	var first []byte
	if s.target.port == 443 {
		h, err := s.c.readCheckedHello(ctx, s.target)
		if err != nil {
			return err
		}
		first = h.raw
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.copyBytes(s.c.conn, s.up, s.up, &s.down) })
	err := s.sendClient(ctx, first)
	if err != nil {
		s.up.Close()
		s.c.conn.Close()
	}
	wg.Wait()
	return err
}

// sendClient copies from the client to the server.
func (s *splice) sendClient(ctx context.Context, first []byte) error {
	if first == nil {
		_ = s.c.conn.SetReadDeadline(deadline(s.c.p.opts.IdleTimeout))
		if b, err := s.c.br.Peek(1); err == nil && b[0] == recordHandshake {
			h, err := s.c.readCheckedHello(ctx, s.target)
			if err != nil {
				return err
			}
			first = h.raw
		}
	}
	if first == nil {
		s.copyBytes(s.up, s.c.conn, s.c.br, &s.out)
		return nil
	}
	f := newHelloFilter(ctx, io.MultiReader(bytes.NewReader(first), s.c.br), func(h hello) error { return h.checkName(s.target, s.c.p.currentRules()) })
	s.copyBytes(s.up, s.c.conn, f, &s.out)
	if f.refused != nil {
		return f.refused
	}
	return nil
}

// copyBytes copies from r, which reads from src, to dst. At the end of r it closes only dst's
// write side; on an error both connections.
func (s *splice) copyBytes(dst, src net.Conn, r io.Reader, n *atomic.Int64) {
	buf := make([]byte, 32<<10)
	idle := s.c.p.opts.IdleTimeout
	for {
		_ = src.SetReadDeadline(deadline(idle))
		m, err := r.Read(buf)
		if m > 0 {
			s.last.Store(time.Now().UnixNano())
			_ = dst.SetWriteDeadline(deadline(idle))
			if _, werr := dst.Write(buf[:m]); werr != nil {
				break
			}
			n.Add(int64(m))
		}
		if err == io.EOF {
			if hc, ok := dst.(interface{ CloseWrite() error }); ok && hc.CloseWrite() == nil {
				return
			}
			break
		}
		if ne, ok := err.(net.Error); ok && ne.Timeout() && time.Since(time.Unix(0, s.last.Load())) < idle { //nolint:errorlint // a connection returns it unwrapped
			continue // the other direction is busy
		}
		if err != nil {
			break
		}
	}
	dst.Close()
	src.Close()
}
