// Package egress is the outbound proxy through which a workspace reaches the hosts that its
// network policy allows, with credentials added on the way.
//
// A [Proxy] belongs to one workspace. It serves a listener, a Unix socket to which the guest
// relays a loopback port: HTTP proxy requests, CONNECT and SOCKS5, distinguished by their
// first byte. Only hosts, ports and methods that the policy (a driver.Network) allows are
// reached.
//
// What is prevented:
//
//   - Reaching a host by another name or by its address. The proxy resolves names, and
//     connects to the address that it checked, so DNS rebinding (a TOCTOU race) has no
//     effect; see [UpstreamProxy] for what holds through one. Non-public addresses in any notation, and addresses of this host, are refused
//     unless a rule names the address or range, or the rule of the name is marked private;
//     a metadata service needs a rule with its address.
//   - Domain fronting. The server name in a TLS hello must be the requested host; a hello
//     with an encrypted name (ECH, also GREASE) is refused. The Host header must be the host
//     of the URL. Port 443 accepts only TLS, and port 80 only HTTP, request by request.
//     Another port is a plain tunnel, and needs a rule that lists it.
//   - Request smuggling: a message with an ambiguous length or syntax is refused, and
//     forwarded messages are written from their parsed form.
//   - Reading a secret. The proxy adds a rule's credential on the way to its host, over TLS
//     only, and scrubs it from responses. For such hosts only, the proxy intercepts TLS with
//     a certificate of the workspace's own authority, which may sign only for such hosts
//     and whose key never enters the workspace.
//
// What is not prevented: an allowed host may forward what it receives, also to other sites
// that it serves under the same TLS name; the resolver sees requested names; a host with a
// credential that encodes the secret in an unusual way gets it past the scrubber (package
// secret lists the known encodings).
//
// Intercepted connections use HTTP/1.1: no HTTP/2, no WebSocket upgrade, no ranges. The proxy
// follows no redirects; the client does, and the policy checks the new request.
//
// Every request emits one event, event.EgressRequest, when it has ended.
//
// Options.LocalHandler answers requests to the proxy itself, without any network.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// Options configures a proxy. The zero value allows nothing.
type Options struct {
	Workspace string         // id, for events and secrets
	Session   string         // for events
	Policy    driver.Network // the first one; SetPolicy changes it

	// Secrets has the secrets of credentials that rules name; nil has none.
	Secrets Secrets
	// Credentials says how a credential is sent, by the name that rules use. A name that
	// is not in the map is sent as a bearer token, with the secret of that name.
	Credentials map[string]Credential
	// AuthorityFile stores the certificate authorities of the workspace with their keys,
	// for later proxies. The workspace must not be able to read it. "" keeps them in
	// memory.
	AuthorityFile string

	// Refused, unless nil, is called with each refusal of the policy, as host:port and
	// reason, before the client gets the answer. It must not block.
	Refused func(host, reason string)

	// LocalHandler returns the handler of requests to the proxy itself, as to a server:
	// http://127.0.0.1:PORT/path. No policy applies to them, and they emit no event. If it
	// is nil or returns nil, they are refused.
	LocalHandler func(workspace string) http.Handler

	Events   event.Sink     // nil discards events
	Resolver Resolver       // nil is the host's
	RootCAs  *x509.CertPool // for hosts with a credential; nil is the system's

	// Upstream is the proxy through which hosts are reached; nil: hosts are reached directly.
	Upstream *UpstreamProxy

	// LocalAddrs returns the addresses of this host; nil is net.InterfaceAddrs.
	LocalAddrs func() ([]net.Addr, error)

	MaxConns        int           // at one time; 0 is 256
	MaxHeader       int           // bytes of a request's head; 0 is 32 KiB
	HeaderTimeout   time.Duration // for a request's head, a TLS hello, a SOCKS greeting; 0 is 10 s
	DialTimeout     time.Duration // for resolving and connecting; 0 is 15 s
	ResponseTimeout time.Duration // from a request to the head of its response; 0 is 10 min
	IdleTimeout     time.Duration // without a byte in either direction; 0 is 10 min
}

// A Configurable provider has proxies, and is made before the program knows their options.
type Configurable interface {
	// SetEgress sets the options of all proxies. It is called before the first Open.
	SetEgress(common Options)
}

// Secrets is where credentials come from; *secret.Store is one.
type Secrets interface {
	Get(ctx context.Context, workspace, name string) (secret.Value, error)
}

// A Resolver resolves names; *net.Resolver is one. It is given names that end
// in a dot, so that no search list applies.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// A Proxy is the egress proxy of one workspace. It is safe for concurrent use.
type Proxy struct {
	opts           Options
	transport      *http.Transport
	up             *upstreamDialer // nil without an upstream proxy
	authority      *authorities
	scrub          scrubCache
	slots          chan struct{} // one taken for each connection
	refusalSlots   chan struct{} // one taken for each connection that is being refused
	refusalTimeout time.Duration // for such a connection to say what it wants
	wg             sync.WaitGroup
	connect        func(ctx context.Context, network, addr string) (net.Conn, error) // to an address, never to a name

	mu        sync.Mutex
	rules     *rules
	flows     map[*flow]struct{}
	conns     map[net.Conn]context.CancelFunc
	listeners map[net.Listener]struct{}
	closed    bool

	refusals refusalMerger
}

// New returns a proxy that serves nothing yet.
func New(opts *Options) (*Proxy, error) {
	p := &Proxy{flows: map[*flow]struct{}{}, conns: map[net.Conn]context.CancelFunc{}, listeners: map[net.Listener]struct{}{}}
	if opts != nil {
		p.opts = *opts
	}
	p.opts.setDefaults()
	p.connect = new(net.Dialer).DialContext
	var err error
	if p.up, err = newUpstreamDialer(p.opts.Upstream); err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	if p.authority, err = openAuthorities(p.opts.AuthorityFile, p.opts.Workspace); err != nil {
		return nil, err
	}
	if err := p.checkCredentials(); err != nil {
		return nil, err
	}
	p.refusals.emit = p.opts.Events.Emit
	p.slots = make(chan struct{}, p.opts.MaxConns)
	p.refusalSlots, p.refusalTimeout = make(chan struct{}, 16), 2*time.Second
	p.transport = &http.Transport{
		DialContext:            p.dialTransport,
		TLSClientConfig:        &tls.Config{RootCAs: p.opts.RootCAs, MinVersion: tls.VersionTLS12},
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
		TLSHandshakeTimeout:    p.opts.DialTimeout,
		ResponseHeaderTimeout:  p.opts.ResponseTimeout,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConnsPerHost:    4,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 256 << 10,
	}
	if err := p.SetPolicy(p.opts.Policy); err != nil {
		return nil, err
	}
	return p, nil
}

func (o *Options) setDefaults() {
	if o.Events == nil {
		o.Events = event.Discard
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.LocalAddrs == nil {
		o.LocalAddrs = net.InterfaceAddrs
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 256
	}
	if o.MaxHeader <= 0 {
		o.MaxHeader = 32 << 10
	}
	for _, d := range []struct {
		field *time.Duration
		zero  time.Duration
	}{
		{&o.HeaderTimeout, 10 * time.Second}, {&o.DialTimeout, 15 * time.Second},
		{&o.ResponseTimeout, 10 * time.Minute}, {&o.IdleTimeout, 10 * time.Minute},
	} {
		if *d.field <= 0 {
			*d.field = d.zero
		}
	}
}

// SetPolicy replaces the policy. It closes running requests and tunnels that are no longer
// allowed before it returns. For new hosts with a credential it adds a certificate
// authority, which CAPEM then includes.
func (p *Proxy) SetPolicy(n driver.Network) error {
	rs, err := compileRules(n)
	if err != nil {
		return err
	}
	if err := p.authority.ensureAuthority(rs); err != nil {
		return err
	}
	p.mu.Lock()
	p.rules = rs
	var stop []*flow
	for f := range p.flows {
		if !p.allowsLocked(f) {
			stop = append(stop, f)
		}
	}
	p.mu.Unlock()
	for _, f := range stop {
		f.stop()
	}
	p.transport.CloseIdleConnections()
	return nil
}

func (p *Proxy) currentRules() *rules {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules
}

// CAPEM returns the certificates of the workspace's authorities, which its programs must
// trust. It is empty while no rule has a credential.
func (p *Proxy) CAPEM() []byte { return p.authority.certsPEM() }

// Serve accepts connections until ctx ends or the proxy is closed, and then
// returns nil. It closes the listener. It may be called for several listeners.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	if !p.addListener(l) {
		l.Close()
		return fmt.Errorf("egress: serve: %w: the proxy is closed", fault.WrongState)
	}
	defer p.wg.Done()
	defer p.removeListener(l)
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if fault.Of(err) == fault.ResourceExhausted { // out of descriptors: try again
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
				continue
			}
			return fmt.Errorf("egress: accept: %w: %w", fault.Unavailable, err)
		}
		p.serveConn(ctx, c)
	}
}

func (p *Proxy) addListener(l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.wg.Add(1)
	p.listeners[l] = struct{}{}
	return true
}

func (p *Proxy) removeListener(l net.Listener) {
	l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.listeners, l)
}

// serveConn serves a connection, or refuses it if there are too many.
func (p *Proxy) serveConn(ctx context.Context, conn net.Conn) {
	serve, slots := (*client).serve, p.slots
	select {
	case slots <- struct{}{}:
	default:
		serve, slots = (*client).refuseExcess, p.refusalSlots
		select {
		case slots <- struct{}{}:
		default:
			conn.Close()
			return
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.conns[conn] = cancel
		p.wg.Add(1)
	}
	p.mu.Unlock()
	if closed {
		cancel()
		conn.Close()
		<-slots
		return
	}
	go func() {
		defer p.wg.Done()
		// The end of Serve's context ends reads from the connection.
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		serve(newClient(p, conn), ctx)
		stop()
		cancel()
		conn.Close()
		p.mu.Lock()
		delete(p.conns, conn)
		p.mu.Unlock()
		<-slots
	}()
}

// WaitIdle waits until the proxy is idle. Then the events of all requests were emitted. It fails
// if ctx ends before.
func (p *Proxy) WaitIdle(ctx context.Context) error {
	for {
		p.mu.Lock()
		busy := len(p.conns) + len(p.flows)
		p.mu.Unlock()
		if busy == 0 {
			p.refusals.flush()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("egress: wait until idle: %w: %d connections are open", fault.Of(ctx.Err()), busy)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Close closes all connections and waits until they have ended, or ctx has.
func (p *Proxy) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	for l := range p.listeners {
		l.Close()
	}
	for c, cancel := range p.conns {
		cancel()
		c.Close()
	}
	var flows []*flow
	for f := range p.flows {
		flows = append(flows, f)
	}
	p.mu.Unlock()
	for _, f := range flows {
		f.stop()
	}
	done := make(chan struct{})
	go func() { // ends with the connections
		p.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		p.refusals.flush()
		p.transport.CloseIdleConnections()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("egress: close: %w", ctx.Err())
	}
}
