package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/croft-run/croft/fault"
)

// A refusal says why a request failed. Its text never contains data of a server, which might
// include a secret.
type refusal struct {
	code   fault.Code
	reason string
	rule   string
	addr   netip.Addr // that was refused, for the event and not for the workspace
	reply  byte       // of SOCKS, where the code does not say it
}

func (r *refusal) Error() string { return r.reason }
func (r *refusal) Unwrap() error { return r.code }

func newDenial(v verdict) *refusal {
	return &refusal{code: fault.PermissionDenied, reason: v.reason, rule: v.rule}
}

// A flow is a running request or connection that a change of policy may close.
type flow struct {
	target     target
	method     string     // "" for a connection that serves requests of any method
	credential string     // that was added
	addr       netip.Addr // that it goes to, if it is a connection
	stop       func()     // may be called more than once
}

// addFlow registers a flow. It checks the policy again under the lock, which prevents a TOCTOU
// race with SetPolicy.
func (p *Proxy) addFlow(f *flow) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return &refusal{code: fault.Unavailable, reason: "the proxy is closed"}
	}
	if !p.allowsLocked(f) {
		return &refusal{code: fault.PermissionDenied, reason: "the policy has changed"}
	}
	p.flows[f] = struct{}{}
	return nil
}

func (p *Proxy) removeFlow(f *flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.flows, f)
}

// allowsLocked reports whether the policy allows a flow.
func (p *Proxy) allowsLocked(f *flow) bool {
	rs := p.rules
	if f.addr.IsValid() && rs.refuseAddr(f.target, f.addr, p.isHostAddr) != "" {
		return false
	}
	switch f.method {
	case "":
		return rs.checkHost(f.target).allowed
	case methodTunnel:
		return rs.checkRequest(f.target, methodTunnel).allowed && !rs.hasCredential(f.target)
	}
	v := rs.checkRequest(f.target, f.method)
	return v.allowed && v.credential == f.credential
}

func (p *Proxy) isHostAddr(a netip.Addr) bool { return isHostAddr(a, p.opts.LocalAddrs) }

// localhost is the name of the loopback interface, which no resolver is asked for (RFC 6761).
const localhost = "localhost"

// dial connects to a target that the policy allows. It resolves the name once, and connects
// only to addresses of that answer that it has checked. It returns no address for a
// connection through an upstream proxy.
func (p *Proxy) dial(ctx context.Context, t target) (net.Conn, netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	if p.up.reaches(t) {
		c, err := p.dialUpstream(ctx, t)
		return c, netip.Addr{}, err
	}
	addrs := []netip.Addr{t.addr}
	switch t.name {
	case "":
	case localhost:
		addrs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	default:
		var err error
		if addrs, err = p.opts.Resolver.LookupNetIP(ctx, "ip", t.name+"."); err != nil {
			return nil, netip.Addr{}, classifyDial(err)
		}
	}
	rs := p.currentRules()
	var last error = &refusal{code: fault.Unavailable, reason: "its name has no address"}
	tried := 0
	for _, a := range addrs {
		a = a.Unmap()
		if why := rs.refuseAddr(t, a, p.isHostAddr); why != "" {
			if tried == 0 {
				last = &refusal{code: fault.PermissionDenied, reason: why, addr: a}
			}
			continue
		}
		if tried++; tried > 4 {
			break
		}
		c, err := p.connect(ctx, "tcp", netip.AddrPortFrom(a, uint16(t.port)).String())
		if err == nil {
			return c, a, nil
		}
		last = classifyDial(err)
	}
	return nil, netip.Addr{}, last
}

// classifyDial turns an error of resolving, connecting or a TLS handshake into a refusal.
func classifyDial(err error) *refusal {
	var r *refusal
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, context.Canceled):
		return &refusal{code: fault.Canceled, reason: "it was cut off"}
	case errors.As(err, &dns) && dns.IsNotFound:
		return &refusal{code: fault.Unavailable, reason: "its name does not resolve"}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &refusal{code: fault.DeadlineExceeded, reason: "it does not answer in time"}
	case errors.As(err, &dns):
		return &refusal{code: fault.Unavailable, reason: "its name can't be resolved now"}
	case errors.As(err, &cert), errors.As(err, &unknown), errors.As(err, &name):
		return &refusal{code: fault.Unavailable, reason: "its certificate is not trusted"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &refusal{code: fault.Unavailable, reason: "it refuses the connection", reply: socksRefused}
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return &refusal{code: fault.Unavailable, reason: "there is no way to it"}
	}
	return &refusal{code: fault.Unavailable, reason: "it does not answer as it should"}
}

// dialTransport is dial for the HTTP transport. A connection may serve many requests, so it is
// a flow of its own.
func (p *Proxy) dialTransport(ctx context.Context, _, addr string) (net.Conn, error) {
	t, err := splitTarget(addr, 0)
	if err != nil {
		return nil, err
	}
	c, a, err := p.dial(ctx, t)
	if err != nil {
		return nil, err
	}
	u := &upstream{Conn: c, p: p, flow: &flow{target: t, addr: a}}
	u.flow.stop = func() { _ = u.Close() }
	if err := p.addFlow(u.flow); err != nil {
		c.Close()
		return nil, err
	}
	return u, nil
}

// upstream is a connection of the transport.
type upstream struct {
	net.Conn
	p    *Proxy
	flow *flow
	once sync.Once
}

func (u *upstream) Close() error {
	u.once.Do(func() { u.p.removeFlow(u.flow) })
	return u.Conn.Close()
}

func invalidRequest(format string, args ...any) *refusal {
	return &refusal{code: fault.InvalidArgument, reason: fmt.Sprintf(format, args...)}
}
