// Package replica forwards HTTP requests between the replicas of a cluster: to the one that owns
// the workspace of a request.
//
// A request is forwarded once. It has the credentials of its client, which the owner checks as
// those of any request, and a header that says who forwarded it for which client. The header is
// authenticated with a secret of the cluster; it gives no access.
package replica

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httplog"
)

// Header is the header of a forwarded request:
//
//	Croft-Forwarded: TIME FROM CLIENT MAC
//
// TIME is in seconds since 1970, FROM is the name of the node that forwards, CLIENT the address
// of the client, and MAC the HMAC-SHA256, in hexadecimal digits, of these, the node that the
// request is for, the method, the host, the URL and the request's id.
//
// In an answer it says that the header of the request was refused.
const Header = "Croft-Forwarded"

// MinSecret is the minimum length of a secret.
const MinSecret = 32

// maxSkew bounds the age of a header, and the difference between the clocks of two replicas.
const maxSkew = time.Minute

// dialTimeout bounds connecting to another replica: one that takes longer is as good as lost.
const dialTimeout = 3 * time.Second

// upgradeTimeout bounds the wait for the answer to an upgrade, which may open the workspace first.
// Other requests have pings.
const upgradeTimeout = 2 * time.Minute

// Bounds of an HTTP/2 connection, which all requests to a replica share. A request has a part of
// what the connection holds, so that bodies which nobody reads can't fill it.
const (
	maxStreams      = 250
	maxStreamBuffer = 256 << 10
)

// ServerHTTP2 returns the settings of the server of a replica.
func ServerHTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: maxStreamBuffer, MaxReceiveBufferPerConnection: maxStreams * maxStreamBuffer,
	}
}

// A Forwarder forwards requests, and accepts those of other replicas.
type Forwarder struct {
	node   string
	secret []byte
	log    *slog.Logger

	streams  *http.Transport // HTTP/2, with many requests on a connection
	upgrades *http.Transport // HTTP/1.1, which WebSockets need

	done context.Context // ends with Close
	end  context.CancelFunc

	mu     sync.Mutex
	closed bool           // guarded by mu
	wg     sync.WaitGroup // upgraded connections; added to under mu
}

// New returns a forwarder of a node. The secret has at least MinSecret bytes. Why a request can't be
// forwarded is logged.
func New(ctx context.Context, node string, secret []byte, log *slog.Logger) (*Forwarder, error) {
	if node == "" || len(secret) < MinSecret {
		return nil, fmt.Errorf("replica: %w: a node, and a secret of at least %d characters, are required", fault.InvalidArgument, MinSecret)
	}
	f := &Forwarder{node: node, secret: secret, log: log, streams: newTransport(), upgrades: newTransport()}
	f.streams.Protocols, f.upgrades.Protocols = new(http.Protocols), new(http.Protocols)
	f.streams.Protocols.SetHTTP2(true)
	f.streams.Protocols.SetUnencryptedHTTP2(true)
	f.upgrades.Protocols.SetHTTP1(true)
	// Pings find a replica that has vanished with its host.
	f.streams.HTTP2 = &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second, MaxReceiveBufferPerStream: 4 * maxStreamBuffer}
	f.upgrades.ResponseHeaderTimeout = upgradeTimeout
	f.done, f.end = context.WithCancel(context.WithoutCancel(ctx))
	return f, nil
}

func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true, // bodies are passed on as they are
	}
}

// Close ends upgraded connections, and waits for them.
func (f *Forwarder) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.end()
	f.wg.Wait()
	f.streams.CloseIdleConnections()
	f.upgrades.CloseIdleConnections()
}

// A Target is the replica that a request is forwarded to.
type Target struct {
	Node    string
	Address string // URL
}

// forwardedCounter counts forwarded requests.
var forwardedCounter = sync.OnceValue(func() metric.Int64Counter {
	// The name is valid, so the only failure is a nil instrument.
	c, _ := otel.Meter("github.com/croft-run/croft/internal/server/replica").Int64Counter("croft.replica.forwarded",
		metric.WithDescription("Requests that were forwarded to the replica which owns their workspace, by that node and outcome."))
	return c
})

func count(ctx context.Context, node, outcome string) {
	if c := forwardedCounter(); c != nil {
		c.Add(ctx, 1, metric.WithAttributes(attribute.String("node", node), attribute.String("outcome", outcome)))
	}
}

// Forward sends a request to another replica and passes its answer on. An error means that
// nothing was answered. A request that was forwarded to this replica is not forwarded again: the
// workspace has moved meanwhile, and the client has to try again.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, to Target) error {
	if IsForwarded(r.Context()) {
		return fmt.Errorf("replica: %w: the workspace has moved to node %s while this request was forwarded; try again", fault.Unavailable, to.Node)
	}
	target, err := url.Parse(to.Address)
	if err != nil {
		return fmt.Errorf("replica: address of node %s: %w: %w", to.Node, fault.Internal, err)
	}
	transport := f.streams
	if isUpgrade(r) {
		if !f.begin() {
			return fmt.Errorf("replica: %w: the server shuts down", fault.Unavailable)
		}
		defer f.wg.Done()
		transport = f.upgrades
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(f.done, cancel)()
		r = r.WithContext(ctx)
	}
	// The owner may answer before it has read the whole body. HTTP/2 always allows it.
	http.NewResponseController(w).EnableFullDuplex() //nolint:errcheck // see above
	body := &watchedBody{ReadCloser: r.Body, ended: r.Body == nil || r.Body == http.NoBody}
	if !body.ended {
		r = r.WithContext(r.Context())
		r.Body = body
	}
	var failure error
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { f.rewrite(p, target, to.Node) },
		Transport:     transport,
		FlushInterval: -1, // at once
		ModifyResponse: func(res *http.Response) error {
			if !body.hasEnded() {
				// With full duplex net/http panics if it reads the rest of a body and then the next request.
				res.Header.Set("Connection", "close")
			}
			if err := checkAnswer(res); err != nil {
				return err
			}
			for name := range res.Header {
				w.Header().Del(name) // what this replica has set already; some headers are invalid twice
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failure = err },
		ErrorLog:     log.New(io.Discard, "", 0), // both ends of a broken connection see it
	}
	outcome := "cut"
	defer func() { count(context.WithoutCancel(r.Context()), to.Node, outcome) }()
	proxy.ServeHTTP(w, r) // it panics if the answer is cut off
	if failure != nil {
		httplog.Add(r.Context(), slog.String("forward", failure.Error())) // clients do not see addresses of replicas
		if !body.hasEnded() {
			w.Header().Set("Connection", "close") // as above
		}
		if r.Context().Err() != nil {
			return fmt.Errorf("replica: forward to node %s: %w", to.Node, context.Cause(r.Context()))
		}
		if err := body.failure(); err != nil {
			return fmt.Errorf("replica: read the body of the request: %w", fault.Default(err, fault.InvalidArgument))
		}
		outcome = "unreachable"
		f.log.WarnContext(r.Context(), "a request was not forwarded", "node", to.Node, "address", to.Address, "error", failure.Error())
		if refused := (refusedError{}); errors.As(failure, &refused) {
			return fmt.Errorf("replica: node %s refuses requests of node %s: %w: the secrets of the cluster or the clocks differ; the log of node %s has the reason", to.Node, f.node, fault.Unavailable, f.node)
		}
		return fmt.Errorf("replica: node %s does not answer: %w: try again; if it is lost, its lease ends within seconds", to.Node, fault.Unavailable)
	}
	httplog.Add(r.Context(), slog.String("forwarded", to.Node))
	outcome = "answered"
	return nil
}

// checkAnswer refuses the answer that the header was refused: it is not for the client.
func checkAnswer(res *http.Response) error {
	res.Header.Del(httplog.Header) // it is in the answer already
	if res.Header.Get(Header) == "" {
		return nil
	}
	const most = 1 << 10
	text, _ := io.ReadAll(io.LimitReader(res.Body, most)) // what came is logged
	return refusedError{fmt.Errorf("%s: %s", res.Status, text)}
}

// A refusedError is the error of a request whose header was refused.
type refusedError struct{ error }

// A watchedBody is the body of a request. It keeps the error of reading it, which is the client's.
type watchedBody struct {
	io.ReadCloser
	mu    sync.Mutex
	ended bool  // guarded by mu; a read returned io.EOF
	err   error // guarded by mu; another error
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(err, io.EOF):
		b.ended = true
	case err != nil && !errors.Is(err, http.ErrBodyReadAfterClose):
		b.err = err
	}
	return n, err
}

func (b *watchedBody) hasEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

func (b *watchedBody) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// begin counts an upgraded connection; false after Close.
func (f *Forwarder) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.wg.Add(1)
	}
	return !f.closed
}

// isUpgrade reports whether the client asks for another protocol. Some offer HTTP/2 with every
// request, which servers of HTTP/2 ignore.
func isUpgrade(r *http.Request) bool {
	to := r.Header.Get("Upgrade")
	return r.ProtoMajor == 1 && to != "" && !strings.EqualFold(to, "h2c")
}

func (f *Forwarder) rewrite(p *httputil.ProxyRequest, target *url.URL, node string) {
	p.Out.URL.Scheme, p.Out.URL.Host = target.Scheme, target.Host
	p.Out.URL.RawQuery = p.In.URL.RawQuery // also where it can't be parsed
	p.Out.Host = p.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := p.In.Header[name]; ok { // of a load balancer, for programs in workspaces
			p.Out.Header[name] = values
		}
	}
	if !isUpgrade(p.In) {
		p.Out.Header.Del("Connection") // HTTP/2 refuses them
		p.Out.Header.Del("Upgrade")
	}
	id := httplog.ID(p.In.Context())
	p.Out.Header.Set(httplog.Header, id)
	now := strconv.FormatInt(time.Now().Unix(), 10)
	p.Out.Header.Set(Header, strings.Join([]string{now, f.node, p.In.RemoteAddr, f.mac(p.Out, now, f.node, p.In.RemoteAddr, node, id)}, " "))
}

// mac authenticates a request for a node.
func (f *Forwarder) mac(r *http.Request, parts ...string) string {
	sum := hmac.New(sha256.New, f.secret)
	for _, part := range append(parts, r.Method, r.Host, r.URL.RequestURI()) {
		fmt.Fprintf(sum, "%d:%s,", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

type contextKey struct{}

// IsForwarded reports whether the request of a context was forwarded by another replica.
func IsForwarded(ctx context.Context) bool { return ctx.Value(contextKey{}) != nil }

// Accept returns a handler for requests of clients and of other replicas. The address of a
// forwarded request is that of the client. A request whose header is forged is refused.
func (f *Forwarder) Accept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.Header.Values(Header)
		if len(values) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		client, err := f.verify(r, values)
		if err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set(Header, "refused")
			w.WriteHeader(fault.Of(err).Status())
			_ = json.NewEncoder(w).Encode(map[string]fault.Wire{"error": fault.Encode(err)}) // the client is gone
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), contextKey{}, true))
		r.Header.Del(Header)
		r.RemoteAddr = client
		next.ServeHTTP(w, r)
	})
}

// verify checks the header of a forwarded request and returns the address of the client.
func (f *Forwarder) verify(r *http.Request, values []string) (client string, err error) {
	refused := func(why string) error {
		return fmt.Errorf("header %s: %w: %s", Header, fault.Unauthenticated, why)
	}
	fields := strings.Fields(values[0])
	if len(values) != 1 || len(fields) != 4 {
		return "", refused("it is malformed; it is for the replicas of a cluster alone")
	}
	now, from, client := fields[0], fields[1], fields[2]
	if !hmac.Equal([]byte(fields[3]), []byte(f.mac(r, now, from, client, f.node, r.Header.Get(httplog.Header)))) {
		return "", refused("it was not made by a replica of this cluster for this request to node " + f.node)
	}
	at, err := strconv.ParseInt(now, 10, 64)
	if err != nil {
		return "", refused("its time is malformed")
	}
	if age := time.Since(time.Unix(at, 0)); age.Abs() > maxSkew {
		return "", refused(fmt.Sprintf("it was made %s ago: set the clocks of the nodes %s and %s", age.Round(time.Second), from, f.node))
	}
	return client, nil
}

// ReadSecret checks the text of a file with a secret.
func ReadSecret(text []byte) ([]byte, error) {
	secret := strings.TrimSpace(string(text))
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("it has %d characters: %w: at least %d are required, such as those of openssl rand -hex 32", len(secret), fault.InvalidArgument, MinSecret)
	}
	return []byte(secret), nil
}

// Derive returns a key for a purpose, the same on all replicas.
func Derive(secret []byte, purpose string) []byte {
	sum := hmac.New(sha256.New, secret)
	sum.Write([]byte("croft/" + purpose))
	return []byte(hex.EncodeToString(sum.Sum(nil)))
}
