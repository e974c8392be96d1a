// Package egress is the way out of a workspace that has no network of its own.
//
// A [Proxy] belongs to one workspace. It serves what comes from a listener,
// which is a Unix socket that the guest relays a loopback port to: requests of
// an HTTP proxy, CONNECT and SOCKS5, told apart by their first byte. Nothing is
// allowed but what the policy (a driver.Network) allows by host, port and method.
//
// What is prevented:
//
//   - Reaching a host by another name, or an address by any. Names are resolved
//     here, and the connection goes to the very address that was judged, so an
//     answer of DNS that changes in between is of no use. Addresses that are not
//     of the public internet, in whatever form they are written, and those of
//     this host itself, are refused unless a rule names the address or range, or
//     its name is marked private; a metadata service needs a rule with its address.
//   - Passing another host off as the allowed one. The server name in a TLS hello
//     must be the host that was asked for; a hello that hides its name (ECH) is
//     refused, also where it only pretends to. The Host header must be the host
//     of the URL. On port 443 nothing but TLS passes, and on port 80 nothing but
//     HTTP, request by request. Another port is a plain tunnel, and only for a
//     rule that lists it.
//   - Smuggling a request in another: a message with a doubtful length or syntax
//     is refused, and what goes on is written anew.
//   - Knowing a secret. A rule's credential is added here, on its way to that
//     host and over TLS alone; what the host answers is scrubbed of it. For such
//     a host, and for no other, TLS is taken apart with a certificate of the
//     workspace's own authority, which may sign for such hosts alone and whose
//     key stays here.
//
// What is not prevented: a host that is allowed may pass on what it is sent,
// among it to other sites that it serves under the same TLS name; a name asked
// for tells itself to the resolver; and a credentialed host that encodes the
// secret in an unusual way gets it past the scrubber (package secret says which
// ways are known).
//
// Taken apart, a host speaks HTTP/1.1: no HTTP/2, no upgrade to WebSocket, no
// ranges. The proxy follows no redirect; the client does, and is judged again.
//
// Every request leaves one event, event.EgressRequest, when it has ended.
//
// Whoever holds a workspace can also answer it here, on the same port and without
// any network: see Options.Inside.
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

	// Secrets has what rules name as credentials. Nil has none.
	Secrets Secrets
	// Credentials says how a credential is sent, by the name that rules use. A
	// name that is not here is a bearer token, of the secret with that name.
	Credentials map[string]Credential
	// AuthorityFile is where the authorities of the workspace are kept, with
	// their keys, so that a later proxy goes on with them. It must be out of the
	// workspace's reach. "" keeps them in memory.
	AuthorityFile string

	// Refused is told what the policy refuses, as host:port and the reason, before
	// the workspace hears of it; nil is nobody. It must not wait.
	Refused func(host, reason string)

	// LocalHandler returns what answers requests of a workspace to the proxy itself, as to
	// a server: http://127.0.0.1:PORT/path. They go nowhere, so no policy judges them
	// and no event tells of them. Nil, or what returns nil, refuses them.
	LocalHandler func(workspace string) http.Handler

	Events   event.Sink     // nil is none
	Resolver Resolver       // nil is the host's
	RootCAs  *x509.CertPool // for hosts with a credential; nil is the system's

	// LocalAddrs returns the addresses of this host; nil is net.InterfaceAddrs.
	LocalAddrs func() ([]net.Addr, error)

	MaxConns        int           // at one time; 0 is 256
	MaxHeader       int           // bytes of a request's head; 0 is 32 KiB
	HeaderTimeout   time.Duration // for a request's head, a TLS hello, a SOCKS greeting; 0 is 10 s
	DialTimeout     time.Duration // for resolving and connecting; 0 is 15 s
	ResponseTimeout time.Duration // from a request to the head of its answer; 0 is 10 min
	IdleTimeout     time.Duration // without a byte in either direction; 0 is 10 min
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

// A Proxy is the way out of one workspace. It is safe for concurrent use.
type Proxy struct {
	opts           Options
	transport      *http.Transport
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
	if p.authority, err = openAuthorities(p.opts.AuthorityFile, p.opts.Workspace); err != nil {
		return nil, err
	}
	if err := p.checkCredentials(); err != nil {
		return nil, err
	}
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

// SetPolicy replaces the policy, for requests under way too: what is no longer
// allowed is cut off before it returns. An authority for hosts that are new
// among those with a credential is added; CAPEM has it from then on.
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

// CAPEM returns the certificates of the workspace's authorities, for the
// programs in it to trust. It is empty while no rule has a credential.
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
			if fault.Of(err) == fault.ResourceExhausted { // no descriptors: some will be free again
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

// serveConn serves a connection, or tells it that there are too many.
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
		// What is read from the connection ends with the context of Serve.
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

// Settle waits until nothing goes through the proxy any more: each request was told
// of then, which is when it is over. It fails where ctx ends before.
func (p *Proxy) Settle(ctx context.Context) error {
	for {
		p.mu.Lock()
		busy := len(p.conns) + len(p.flows)
		p.mu.Unlock()
		if busy == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("egress: settle: %w: %d connections are open", fault.Of(ctx.Err()), busy)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Close cuts off everything and waits until it has ended, or ctx has.
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
	go func() { // ends with what it waits for
		p.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		p.transport.CloseIdleConnections()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("egress: close: %w", ctx.Err())
	}
}
