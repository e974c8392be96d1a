package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// patience is how long a test waits for what is certain to come, on a machine that
// does nothing for seconds now and then.
const patience = 2 * time.Minute

// TestMain fails if goroutines are left once everything is closed.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	fuzzing := flag.Lookup("test.fuzz").Value.String() != "" // which leaves goroutines of its own
	for end := time.Now().Add(patience); code == 0 && !fuzzing && runtime.NumGoroutine() > before; {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "%d goroutines before, %d after:\n%s\n", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
			code = 1
		}
		time.Sleep(50 * time.Millisecond)
	}
	os.Exit(code)
}

// A world is a proxy and an internet of its own: names resolve by a table, and
// a connection to an address and port goes to a listener on loopback. Nothing
// else can be reached.
type world struct {
	t     testing.TB
	p     *Proxy
	ring  *event.Ring
	roots *x509.CertPool

	rootsPEM bytes.Buffer
	addr     string // of the proxy, on TCP
	sock     string // and as a Unix socket

	mu     sync.Mutex
	names  map[string][]string // host to addresses; each lookup of "a|b" takes the next
	lookup map[string]int
	routes map[string]string // address:port to a listener
	dials  []string
}

func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	host, rooted := strings.CutSuffix(host, ".")
	answers, ok := w.names[host]
	if !ok || !rooted {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	answer := answers[min(w.lookup[host], len(answers)-1)]
	w.lookup[host]++
	var out []netip.Addr
	for a := range strings.SplitSeq(answer, ",") {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (w *world) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, addr)
	to, ok := w.routes[addr]
	w.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("no route to %s", addr)
	}
	return new(net.Dialer).DialContext(ctx, network, to)
}

func (w *world) dialed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.dials...)
}

// secrets is a source of secrets for tests.
type secrets map[string]string

func (s secrets) Get(_ context.Context, _, name string) (secret.Value, error) {
	if v, ok := s[strings.ToLower(name)]; ok {
		return secret.NewValue(strings.ToLower(name), v), nil
	}
	return secret.Value{}, fmt.Errorf("unknown secret: %w", fault.NotFound)
}

const token = "tok-3n+Very/Secret=="

func newWorld(t testing.TB, n driver.Network, change func(*Options)) *world {
	t.Helper()
	w := &world{t: t, ring: event.NewRing(1000), roots: x509.NewCertPool(), names: map[string][]string{},
		lookup: map[string]int{}, routes: map[string]string{}}
	opts := &Options{Workspace: "w1", Policy: n, Events: w.ring, Resolver: w, RootCAs: w.roots,
		Secrets: secrets{"tok": token, "short": "abc", "bad": "a\nbcdef"}, HeaderTimeout: patience, DialTimeout: patience}
	if change != nil {
		change(opts)
	}
	var err error
	if w.p, err = New(opts); err != nil {
		t.Fatal(err)
	}
	w.p.connect, w.p.refusalTimeout = w.connect, patience
	w.sock = filepath.Join(t.TempDir(), "egress.sock")
	unix, err := net.Listen("unix", w.sock)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = tcp.Addr().String()
	var wg sync.WaitGroup
	for _, l := range []net.Listener{unix, tcp} {
		wg.Go(func() {
			if err := w.p.Serve(t.Context(), l); err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	w.serves(2) // or one that is slow to begin would find the proxy closed
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.p.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
		if n := len(w.p.flows); n != 0 {
			t.Errorf("%d flows are left", n)
		}
	})
	return w
}

// serves waits until the proxy serves n listeners.
func (w *world) serves(n int) {
	w.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		w.p.mu.Lock()
		got := len(w.p.listeners)
		w.p.mu.Unlock()
		if got == n {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%d listeners are served, want %d", got, n)
		}
	}
}

// await waits for what another goroutine does.
func await(t testing.TB, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("it never came so far: %s", what)
	}
}

// host makes a server of one name and address; with TLS on port 443 too.
func (w *world) host(name, addr string, h http.HandlerFunc) {
	answer := h
	h = func(rw http.ResponseWriter, r *http.Request) {
		answer(rw, r)
		io.Copy(io.Discard, r.Body) // a server that hangs up on a body resets the connection
	}
	w.t.Helper()
	w.names[name] = []string{addr}
	plain := httptest.NewServer(h)
	w.t.Cleanup(plain.Close)
	w.routes[addr+":80"] = plain.Listener.Addr().String()
	ca, err := newAuthority("internet", []string{name}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.roots.AddCert(ca.cert)
	_ = pem.Encode(&w.rootsPEM, &pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	leaf, err := ca.signLeaf(target{name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	secure := httptest.NewUnstartedServer(h)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
	secure.StartTLS()
	w.t.Cleanup(secure.Close)
	w.routes[addr+":443"] = secure.Listener.Addr().String()
}

// raw makes a server of bytes.
func (w *world) raw(addrPort string, serve func(net.Conn)) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	w.t.Cleanup(func() {
		l.Close()
		w.p.transport.CloseIdleConnections()
		wg.Wait()
	})
	w.routes[addrPort] = l.Addr().String()
}

// trust is what a program in the workspace trusts.
func (w *world) trust() *x509.CertPool {
	pool := w.roots.Clone()
	pool.AppendCertsFromPEM(w.p.CAPEM())
	return pool
}

// client is an HTTP client that goes through the proxy's Unix socket.
func (w *world) client() *http.Client {
	tr := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.invalid:1"}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", w.sock)
		},
		TLSClientConfig: &tls.Config{RootCAs: w.trust()},
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
			if res.StatusCode != http.StatusOK {
				body, _ := io.ReadAll(res.Body)
				return fmt.Errorf("CONNECT: %d: %s", res.StatusCode, body)
			}
			return nil
		},
	}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// get returns the status and the whole answer as it was received, head and all.
func (w *world) get(u string, change func(*http.Request)) (int, string, error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, u, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	resp, err := w.client().Do(req)
	if err != nil {
		return 0, err.Error(), err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var all bytes.Buffer
	fmt.Fprintf(&all, "%s\n", resp.Status)
	_ = resp.Header.Write(&all)
	all.Write(body)
	return resp.StatusCode, all.String(), err
}

// talk sends bytes to the proxy and returns what comes back until it closes.
func (w *world) talk(send string) string {
	w.t.Helper()
	c, err := net.Dial("unix", w.sock)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, send); err != nil {
		w.t.Fatal(err)
	}
	if !strings.Contains(send, "Connection: close") && !strings.Contains(send, "X-Secret-Hop, close") {
		_ = c.(*net.UnixConn).CloseWrite() // which an answer under way would take for the client's end
	}
	got, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return string(got) + "\nERROR " + err.Error()
	}
	return string(got)
}

// open makes a tunnel by CONNECT.
func (w *world) open(hostport string) (c net.Conn, br *bufio.Reader, status int) {
	w.t.Helper()
	c, err := net.Dial("unix", w.sock)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", hostport, hostport)
	br = bufio.NewReader(c)
	resp, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	return c, br, resp.StatusCode
}

// events waits for n events and returns their fields.
func (w *world) events(n int) []map[string]any {
	w.t.Helper()
	all := w.ring.Events()
	for end := time.Now().Add(patience); len(all) < n && time.Now().Before(end); all = w.ring.Events() {
		time.Sleep(5 * time.Millisecond)
	}
	if len(all) != n {
		w.t.Fatalf("there are %d events, want %d: %v", len(all), n, all)
	}
	var fields []map[string]any
	for _, e := range all {
		if e.Kind != event.EgressRequest || e.Workspace != "w1" {
			w.t.Errorf("event %v", e)
		}
		fields = append(fields, e.Fields)
	}
	return fields
}

// wire parses the error in an answer.
func wire(t testing.TB, answer string) fault.Wire {
	t.Helper()
	var e fault.Wire
	if err := json.Unmarshal([]byte(answer[strings.LastIndex(answer, "{"):]), &e); err != nil {
		t.Fatalf("%q: %v", answer, err)
	}
	return e
}

func allow(hosts ...string) driver.Network {
	var n driver.Network
	for _, h := range hosts {
		n.Allow = append(n.Allow, driver.NetRule{Host: h})
	}
	return n
}

const (
	addrA = "93.184.216.34"
	addrB = "93.184.216.35"
)
