package egress

import (
	"bufio"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// A corporateProxy is an upstream proxy that reaches hosts by name, as the world's routes
// say, and records what it was asked for.
type corporateProxy struct {
	url   string
	login string // that it demands; "" is none

	mu    sync.Mutex
	hosts map[string]string // host:port to a listener
	asked []string
}

func newCorporateProxy(t *testing.T) *corporateProxy {
	t.Helper()
	c := &corporateProxy{hosts: map[string]string{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.url = "http://" + l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return c
}

func (c *corporateProxy) serve(conn net.Conn) {
	defer conn.Close()
	br := bufio.NewReader(conn)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.asked = append(c.asked, req.Method+" "+req.Host)
	to, ok := c.hosts[req.Host]
	c.mu.Unlock()
	switch {
	case c.login != "" && req.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(c.login)):
		io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return
	case !ok:
		io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(up, br)
		up.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(conn, up)
	conn.(*net.TCPConn).CloseWrite()
	<-done
}

func (c *corporateProxy) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.asked...)
}

// behind makes a world whose hosts are reached through a corporate proxy.
func behind(t *testing.T, n driver.Network, change func(*UpstreamProxy)) (*world, *corporateProxy) {
	t.Helper()
	c := newCorporateProxy(t)
	w := newWorld(t, n, func(o *Options) {
		o.Upstream = &UpstreamProxy{URL: c.url}
		if change != nil {
			change(o.Upstream)
		}
	})
	t.Cleanup(w.p.transport.CloseIdleConnections)
	return w, c
}

// route makes the corporate proxy reach what the world has at an address.
func (c *corporateProxy) route(w *world, name, addr string) {
	for _, port := range []string{":80", ":443"} {
		c.hosts[name+port] = w.routes[addr+port]
	}
}

func TestUpstreamGetsTheName(t *testing.T) {
	w, c := behind(t, allow("a.test"), nil)
	w.host("a.test", addrA, hello200)
	c.route(w, "a.test", addrA)
	for url, want := range map[string]string{"http://a.test/1": "GET a.test /1 ", "https://a.test/2": "GET a.test /2 "} {
		if status, got, err := w.get(url, nil); err != nil || status != 200 || !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %d %q, %v", url, status, got, err)
		}
	}
	if got := w.dialed(); got != nil {
		t.Errorf("it was dialed directly: %v", got)
	}
	for _, asked := range c.requests() {
		if asked != "CONNECT a.test:80" && asked != "CONNECT a.test:443" {
			t.Errorf("the upstream proxy was asked for %q", asked)
		}
	}
}

func TestPolicyHoldsBeforeTheUpstream(t *testing.T) {
	w, c := behind(t, allow("a.test"), nil)
	w.host("a.test", addrA, hello200)
	w.host("b.test", addrB, hello200)
	c.route(w, "a.test", addrA)
	c.route(w, "b.test", addrB)
	if status, got, _ := w.get("http://b.test/", nil); status != http.StatusForbidden {
		t.Errorf("a host without a rule: got %d %q", status, got)
	}
	if _, _, status := w.open("a.test:22"); status != http.StatusForbidden {
		t.Errorf("a port without a rule: got %d", status)
	}
	// The name in TLS must be the host, as without an upstream proxy.
	conn, _, status := w.open("a.test:443")
	if status != http.StatusOK {
		t.Fatalf("CONNECT: %d", status)
	}
	conn.Write(clientHello(t, "b.test"))
	if b, _ := io.ReadAll(conn); len(b) > 0 && b[0] != 21 { // an alert
		t.Errorf("a hello of another host was answered: %x", b)
	}
	for _, e := range w.events(3) {
		if e["verdict"] != "deny" {
			t.Errorf("event %v", e)
		}
	}
	for _, asked := range c.requests() {
		if strings.Contains(asked, "b.test") || strings.Contains(asked, ":22") {
			t.Errorf("the upstream proxy was asked for %q", asked)
		}
	}
}

// The address that the upstream proxy connects to can't be pinned. What is known here is
// still refused.
func TestPrivateAddressesBehindAnUpstream(t *testing.T) {
	n := allow("inside.test", "mixed.test", "unknown.test", "*")
	n.Allow = append(n.Allow, driver.NetRule{Host: "mirror.test", Private: true})
	w, c := behind(t, n, nil)
	w.host("inside.test", "10.1.2.3", hello200)
	w.host("mirror.test", "10.1.2.4", hello200)
	w.host("unknown.test", addrA, hello200)
	w.names["mixed.test"] = []string{addrA + ",10.1.2.3"}
	w.names["wide.test"] = []string{"192.168.0.9"}
	c.route(w, "inside.test", "10.1.2.3")
	c.route(w, "mirror.test", "10.1.2.4")
	c.route(w, "unknown.test", addrA)
	delete(w.names, "unknown.test")
	for _, tt := range []struct {
		url  string
		want int
	}{
		{"http://inside.test/", http.StatusForbidden},
		{"http://mixed.test/", http.StatusForbidden},
		{"http://wide.test/", http.StatusForbidden},    // only "*" allows it
		{"http://nowhere.test/", http.StatusForbidden}, // and does not resolve here
		{"http://10.1.2.3/", http.StatusForbidden},     // by its address
		{"http://169.254.169.254/", http.StatusForbidden},
		{"http://mirror.test/", http.StatusOK},  // the rule says private
		{"http://unknown.test/", http.StatusOK}, // its name has a rule
	} {
		if status, got, err := w.get(tt.url, nil); status != tt.want {
			t.Errorf("%s: got %d %q, %v; want %d", tt.url, status, got, err, tt.want)
		}
	}
	for _, asked := range c.requests() {
		if asked != "CONNECT mirror.test:80" && asked != "CONNECT unknown.test:80" {
			t.Errorf("the upstream proxy was asked for %q", asked)
		}
	}
}

func TestNoProxyIsDialedDirectly(t *testing.T) {
	w, c := behind(t, allow("a.near.test", "near.test", "10.9.0.1"), func(u *UpstreamProxy) { u.NoProxy = []string{"near.test", "10.9.0.0/16"} })
	w.host("a.near.test", addrA, hello200)
	w.host("near.test", addrB, hello200)
	w.host("x.test", "10.9.0.1", hello200)
	for _, url := range []string{"http://a.near.test/", "https://near.test/", "http://10.9.0.1/"} {
		if status, got, err := w.get(url, nil); status != 200 || err != nil {
			t.Errorf("%s: got %d %q, %v", url, status, got, err)
		}
	}
	if got := c.requests(); got != nil {
		t.Errorf("the upstream proxy was asked for %v", got)
	}
}

func TestUpstreamLoginAndErrors(t *testing.T) {
	w, c := behind(t, allow("a.test", "gone.test"), func(u *UpstreamProxy) { u.User, u.Secret = "me", "tok" })
	c.login = "me:" + token
	w.host("a.test", addrA, hello200)
	w.names["gone.test"] = []string{addrB}
	c.route(w, "a.test", addrA)
	if status, got, err := w.get("https://a.test/", nil); status != 200 || err != nil {
		t.Errorf("with the login: got %d %q, %v", status, got, err)
	}
	if status, got, _ := w.get("http://gone.test/", nil); status != http.StatusServiceUnavailable || !strings.Contains(got, "the upstream proxy refuses it (502)") {
		t.Errorf("a host that the upstream proxy does not reach: got %d %q", status, got)
	}
	c.login = "me:other"
	if status, got, _ := w.get("http://a.test/", nil); status != http.StatusServiceUnavailable || !strings.Contains(got, "407") || strings.Contains(got, token) {
		t.Errorf("a wrong login: got %d %q", status, got)
	}
}

func TestBadUpstream(t *testing.T) {
	for _, u := range []UpstreamProxy{
		{URL: "socks5://p.test:1080"}, {URL: "p.test:3128"}, {URL: "http://u:p@p.test"}, {URL: "http://p.test/path"},
		{URL: "http://p.test", User: "me"}, {URL: "http://p.test", NoProxy: []string{"a,b"}},
	} {
		if _, err := New(&Options{Upstream: &u}); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%+v: got %v", u, err)
		}
	}
}
