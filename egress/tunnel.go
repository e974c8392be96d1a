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

// connect serves a CONNECT request.
func (c *client) connect(ctx context.Context, h head) {
	if c.fixed != nil {
		c.reject(invalid("a tunnel inside a tunnel is not served"))
		return
	}
	t, err := splitTarget(h.uri, 0)
	if err == nil && h.hasHost {
		// Clients differ in whether they add the port.
		if said, herr := splitTarget(h.host, t.port); herr != nil || said != t {
			err = invalid("the Host header is not the host of the request")
		}
	}
	if err != nil {
		why := asRefusal(err)
		rec := &record{began: time.Now(), host: h.uri, protocol: protoConnect, method: tunnel, err: why}
		rec.status = c.refuse(&http.Request{Method: tunnel}, "", why, false)
		c.p.audit(rec)
		c.linger()
		return
	}
	c.tunnel(ctx, t, protoConnect, func(why *refusal) (int, error) {
		if why != nil {
			status := c.refuse(&http.Request{Method: tunnel}, t.String(), why, false)
			c.linger()
			return status, nil
		}
		_ = c.conn.SetWriteDeadline(deadline(c.p.opts.HeaderTimeout))
		_, err := io.WriteString(c.conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		return http.StatusOK, err
	})
}

// tunnel serves a connection to a target. It calls answer once, with the reason
// if it is refused.
func (c *client) tunnel(ctx context.Context, t target, protocol string, answer func(*refusal) (int, error)) {
	rec := &record{began: time.Now(), target: t, protocol: protocol, method: tunnel}
	rs := c.p.policy()
	seen := t.port == 80 || rs.credentialed(t)
	v := rs.judge(t, tunnel)
	if seen {
		v = rs.reachable(t) // each request inside is judged by itself
	}
	rec.rule = v.rule
	if !v.allowed {
		c.give(rec, denied(v), answer)
		return
	}
	switch {
	case t.port == 80:
		if _, err := answer(nil); err == nil {
			c.protocol, c.fixed = protocol, &t
			c.serveHTTP(ctx)
		}
	case seen:
		if _, err := answer(nil); err == nil {
			c.intercept(ctx, t, rec)
		}
	default:
		c.pass(ctx, t, rec, answer)
	}
}

// give answers with a refusal and emits its event.
func (c *client) give(rec *record, why *refusal, answer func(*refusal) (int, error)) {
	rec.err = why
	if rec.protocol == protoSOCKS {
		c.p.refused(rec.target.hostOrEmpty(), why)
	}
	if answer != nil {
		rec.status, _ = answer(why)
	}
	c.p.audit(rec)
}

// hello reads a TLS hello and checks it.
func (c *client) hello(ctx context.Context, t target) (hello, error) {
	_ = c.conn.SetReadDeadline(deadline(c.p.opts.HeaderTimeout))
	h, err := readHello(ctx, c.br)
	_ = c.conn.SetReadDeadline(time.Time{})
	if err == nil {
		err = h.check(t, c.p.policy())
	}
	if err != nil && len(h.raw) > 0 && h.raw[0] == recordHandshake {
		_ = c.conn.SetWriteDeadline(deadline(c.p.opts.HeaderTimeout))
		_, _ = c.conn.Write(alert)
	}
	return h, err
}

// intercept takes TLS apart and serves the requests inside.
func (c *client) intercept(ctx context.Context, t target, rec *record) {
	h, err := c.hello(ctx, t)
	if err != nil {
		c.give(rec, asRefusal(err), nil)
		c.linger()
		return
	}
	conn := tls.Server(&replay{c.conn, io.MultiReader(bytes.NewReader(h.raw), c.br)}, c.p.authority.config(t))
	_ = conn.SetDeadline(deadline(c.p.opts.HeaderTimeout))
	if err := conn.HandshakeContext(ctx); err != nil {
		c.give(rec, &refusal{code: fault.Canceled, reason: "the client does not trust the authority of the workspace, or ended the handshake"}, nil)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	inner := newClient(c.p, conn)
	inner.protocol, inner.fixed, inner.https = protoHTTPS, &t, true
	inner.serveHTTP(ctx)
	_ = conn.CloseWrite()
}

// pass connects, and passes bytes on unseen but for the first ones: on port 443
// they must be a TLS hello for this host, and on other ports if they are a hello
// at all.
func (c *client) pass(ctx context.Context, t target, rec *record, answer func(*refusal) (int, error)) {
	up, addr, err := c.p.dial(ctx, t)
	if err != nil {
		c.give(rec, asRefusal(err), answer)
		return
	}
	defer up.Close()
	rec.addr = addr
	cut := false
	var once sync.Once
	f := &flow{target: t, method: tunnel, addr: addr, stop: func() {
		once.Do(func() { cut = true })
		up.Close()
		c.conn.Close()
	}}
	if err := c.p.begin(f); err != nil {
		c.give(rec, asRefusal(err), answer)
		return
	}
	if rec.status, err = answer(nil); err == nil {
		s := &splice{c: c, up: up, target: t}
		rec.err = s.run(ctx)
		rec.in, rec.out = s.down.Load(), s.out.Load()
	}
	c.p.end(f)
	once.Do(func() {})
	if cut {
		rec.err = &refusal{code: fault.PermissionDenied, reason: "the policy has changed"}
		if ctx.Err() != nil {
			rec.err = &refusal{code: fault.Canceled, reason: "it was cut off"}
		}
	}
	c.p.audit(rec)
}

// A splice passes bytes between a client and a server in both directions, each
// as fast as its reader takes them, until both have ended or nothing moves.
type splice struct {
	c         *client
	up        net.Conn
	target    target
	last      atomic.Int64 // when a byte moved, in Unix nanoseconds
	down, out atomic.Int64 // bytes
}

func (s *splice) run(ctx context.Context) error {
	s.last.Store(time.Now().UnixNano())
	var first []byte
	if s.target.port == 443 {
		h, err := s.c.hello(ctx, s.target)
		if err != nil {
			return err
		}
		first = h.raw
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.copy(s.c.conn, s.up, s.up, &s.down) })
	err := s.send(ctx, first)
	if err != nil {
		s.up.Close()
		s.c.conn.Close()
	}
	wg.Wait()
	return err
}

// send passes on what the client says.
func (s *splice) send(ctx context.Context, first []byte) error {
	if first == nil {
		_ = s.c.conn.SetReadDeadline(deadline(s.c.p.opts.IdleTimeout))
		if b, err := s.c.br.Peek(1); err == nil && b[0] == recordHandshake {
			h, err := s.c.hello(ctx, s.target)
			if err != nil {
				return err
			}
			first = h.raw
		}
	}
	s.copy(s.up, s.c.conn, io.MultiReader(bytes.NewReader(first), s.c.br), &s.out)
	return nil
}

// copy moves bytes from r, which reads from src, to dst. At the end of r it ends
// dst's direction alone; on an error both connections.
func (s *splice) copy(dst, src net.Conn, r io.Reader, n *atomic.Int64) {
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
