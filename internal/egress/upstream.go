package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
)

// An UpstreamProxy is a proxy of the host's network through which hosts are reached, by
// CONNECT. The policy is applied here, as without one: by name, port and method.
//
// The upstream proxy gets the name and resolves it, so that the address can't be pinned
// here. Instead the name is also resolved here, and refused if its addresses may not be
// connected to. A name that does not resolve here is passed on, unless only the rule "*"
// allows it: that the upstream proxy connects to no address of the private network is then
// up to it.
type UpstreamProxy struct {
	URL     string   // http://HOST:PORT or https://HOST:PORT
	NoProxy []string // hosts that are reached directly: names with their subdomains, addresses, ranges (CIDR)

	// User and Secret, the name of a secret with the password, are the login; "" without one.
	User, Secret string
}

// Check checks the settings.
func (u *UpstreamProxy) Check() error {
	if _, err := u.parse(); err != nil {
		return err
	}
	if (u.User == "") != (u.Secret == "") || strings.Contains(u.User, ":") {
		return fmt.Errorf("upstream proxy: %w: a login has both user and secret, and a user has no colon", fault.InvalidArgument)
	}
	for _, host := range u.NoProxy {
		if host == "" || strings.ContainsAny(host, ", /") && !isPrefix(host) {
			return fmt.Errorf("upstream proxy: noProxy %.80q: %w: it must be a host, an address or a range (CIDR)", host, fault.InvalidArgument)
		}
	}
	return nil
}

func isPrefix(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

func (u *UpstreamProxy) parse() (*url.URL, error) {
	at, err := url.Parse(u.URL)
	switch {
	case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" || strings.Trim(at.Path, "/") != "":
		return nil, fmt.Errorf("upstream proxy: %w: it must be http://HOST:PORT or https://HOST:PORT", fault.InvalidArgument) // the text may have a password
	case at.User != nil:
		return nil, fmt.Errorf("upstream proxy: %w: it has a login; give user and secret instead", fault.InvalidArgument)
	}
	return at, nil
}

// upstreamDialer connects through an upstream proxy.
type upstreamDialer struct {
	spec    UpstreamProxy
	addr    string      // host:port
	tls     *tls.Config // of the connection to the proxy; nil is plain HTTP
	through func(*url.URL) (*url.URL, error)
	dialer  net.Dialer
}

func newUpstreamDialer(spec *UpstreamProxy) (*upstreamDialer, error) {
	if spec == nil {
		return nil, nil
	}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	at, err := spec.parse()
	if err != nil {
		return nil, err
	}
	cfg := httpproxy.Config{HTTPProxy: spec.URL, HTTPSProxy: spec.URL, NoProxy: strings.Join(spec.NoProxy, ",")}
	d := &upstreamDialer{spec: *spec, through: cfg.ProxyFunc()}
	port := at.Port()
	if at.Scheme == "https" {
		d.tls = &tls.Config{ServerName: at.Hostname(), MinVersion: tls.VersionTLS12}
		if port == "" {
			port = "443"
		}
	} else if port == "" {
		port = "80"
	}
	d.addr = net.JoinHostPort(at.Hostname(), port)
	return d, nil
}

// reaches reports whether the target is reached through the upstream proxy. Loopback
// addresses never are.
func (d *upstreamDialer) reaches(t target) bool {
	if d == nil {
		return false
	}
	via, err := d.through(&url.URL{Scheme: "https", Host: t.String()})
	return err == nil && via != nil
}

// lookupTimeout bounds the lookup of a name that an upstream proxy resolves, too.
const lookupTimeout = time.Second

// dialUpstream connects to a target that the policy allows through the upstream proxy.
func (p *Proxy) dialUpstream(ctx context.Context, t target) (net.Conn, error) {
	if err := p.checkUnpinned(ctx, t); err != nil {
		return nil, err
	}
	login := ""
	if p.up.spec.Secret != "" {
		password, err := p.upstreamPassword(ctx)
		if err != nil {
			return nil, err
		}
		login = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(p.up.spec.User+":"+password.Reveal())) + "\r\n"
	}
	c, err := p.up.dialer.DialContext(ctx, "tcp", p.up.addr)
	if err != nil {
		return nil, &refusal{code: fault.Unavailable, reason: "the upstream proxy does not answer"}
	}
	if p.up.tls != nil {
		secured := tls.Client(c, p.up.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, &refusal{code: fault.Unavailable, reason: "the certificate of the upstream proxy is not trusted"}
		}
		c = secured
	}
	// The context ends the exchange by closing the connection.
	stop := context.AfterFunc(ctx, func() { c.Close() })
	br, err := connectUpstream(c, t, login)
	if !stop() && err == nil {
		err = classifyDial(context.Cause(ctx))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &tunnelConn{bufferedConn{c, br}}, nil
}

// A tunnelConn is a connection through an upstream proxy, with what was read ahead.
type tunnelConn struct{ bufferedConn }

// CloseWrite ends the direction to the target.
func (t *tunnelConn) CloseWrite() error {
	if c, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// upstreamPassword returns the password of the login, a shared secret and not one of the
// workspace.
func (p *Proxy) upstreamPassword(ctx context.Context) (secret.Value, error) {
	if p.opts.Secrets != nil {
		if v, err := p.opts.Secrets.Get(ctx, "", p.up.spec.Secret); err == nil && !hasControl(v.Reveal()) {
			return v, nil
		}
	}
	return secret.Value{}, &refusal{code: fault.Unavailable, reason: "the login of the upstream proxy is not there"}
}

// checkUnpinned checks the addresses of a target that the upstream proxy resolves.
func (p *Proxy) checkUnpinned(ctx context.Context, t target) error {
	rs := p.currentRules()
	addrs := []netip.Addr{t.addr}
	if t.name != "" {
		if rs.isPrivate(t) {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		var err error
		if addrs, err = p.opts.Resolver.LookupNetIP(ctx, "ip", t.name+"."); err != nil || len(addrs) == 0 {
			if rs.onlyAny(t) {
				return &refusal{code: fault.PermissionDenied, reason: "its name does not resolve here, so that its address can't be checked; a rule with its name allows it"}
			}
			return nil
		}
	}
	for _, a := range addrs {
		if why := rs.refuseAddr(t, a.Unmap(), p.isHostAddr); why != "" {
			return &refusal{code: fault.PermissionDenied, reason: why, addr: a.Unmap()}
		}
	}
	return nil
}

// connectUpstream asks for a tunnel to t. The reader has what the target sent already.
func connectUpstream(c net.Conn, t target, login string) (*bufio.Reader, error) {
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n%s\r\n", t, login); err != nil {
		return nil, classifyDial(err)
	}
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, &refusal{code: fault.Unavailable, reason: "the upstream proxy does not answer as it should"}
	}
	resp.Body.Close() // that of CONNECT has no length, and is not read
	switch resp.StatusCode {
	case http.StatusOK:
		return br, nil
	case http.StatusProxyAuthRequired:
		return nil, &refusal{code: fault.Unavailable, reason: "the upstream proxy refuses the login (407)"}
	}
	return nil, &refusal{code: fault.Unavailable, reason: fmt.Sprintf("the upstream proxy refuses it (%d)", resp.StatusCode)}
}

// isPrivate reports whether a rule with the name of the target, or of its domain, is marked
// private: its addresses are not checked.
func (rs *rules) isPrivate(t target) bool {
	return slices.ContainsFunc(rs.allow, func(r rule) bool { return r.spec.Private && r.matchesTarget(t) })
}

// onlyAny reports whether no rule but "*" allows the target.
func (rs *rules) onlyAny(t target) bool {
	return !slices.ContainsFunc(rs.allow, func(r rule) bool { return r.spec.Host != "*" && r.matchesTarget(t) })
}
