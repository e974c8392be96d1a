package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/proxy"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func hello200(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(rw, "%s %s %s %s", r.Method, r.Host, r.URL.RequestURI(), body)
}

func TestHTTP(t *testing.T) {
	w := newWorld(t, allow("a.test"), nil)
	w.host("a.test", addrA, hello200)
	status, got, err := w.get("http://A.test/p%2Fq?x=1", nil)
	if err != nil || status != 200 || !strings.HasSuffix(got, "GET a.test /p%2Fq?x=1 ") {
		t.Errorf("got %d %q, %v", status, got, err)
	}
	w.events(1) // a request is told of once it is answered, perhaps after the next one
	resp, err := w.client().Post("http://a.test/", "text/plain", io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000))))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || len(body) != len("POST a.test / ")+100_000 {
		t.Errorf("got %d bytes, %v", len(body), err)
	}
	e := w.events(2)
	if e[0]["verdict"] != "allow" || e[0]["host"] != "a.test" || e[0]["port"] != 80 || e[0]["method"] != "GET" ||
		e[0]["status"] != 200 || e[0]["bytes_in"] != int64(len("GET a.test /p%2Fq?x=1 ")) || e[0]["address"] != addrA || e[0]["protocol"] != "http" {
		t.Errorf("event %v", e[0])
	}
	if e[1]["bytes_out"] != int64(100_000) {
		t.Errorf("event %v", e[1])
	}
}

func TestDenied(t *testing.T) {
	w := newWorld(t, allow("a.test"), nil)
	w.host("b.test", addrB, hello200)
	status, got, _ := w.get("http://b.test/", nil)
	e := wire(t, got)
	if status != http.StatusForbidden || e.Code != "E_PERMISSION_DENIED" || !strings.Contains(e.Message, "b.test:80") || !strings.Contains(e.Message, "allowed are a.test") {
		t.Errorf("got %d %q", status, got)
	}
	if _, _, status := w.open("b.test:443"); status != http.StatusForbidden {
		t.Errorf("CONNECT: %d", status)
	}
	if _, _, status := w.open("a.test:22"); status != http.StatusForbidden {
		t.Errorf("CONNECT to a port without a rule: %d", status)
	}
	for _, f := range w.events(3) {
		if f["verdict"] != "deny" || f["reason"] == "" || f["status"] != 403 {
			t.Errorf("event %v", f)
		}
	}
	if d := w.dialed(); d != nil {
		t.Errorf("dialed %v", d)
	}
}

func TestConnect(t *testing.T) {
	w := newWorld(t, allow("*.test"), nil)
	w.host("a.test", addrA, hello200)
	status, got, err := w.get("https://a.test/x", nil)
	if err != nil || status != 200 || !strings.HasSuffix(got, "GET a.test /x ") {
		t.Errorf("got %d %q, %v", status, got, err)
	}
	if w.p.CAPEM() != nil {
		t.Error("there is an authority although no rule has a credential")
	}
	w.p.Close(t.Context())
	if f := w.events(1)[0]; f["method"] != "CONNECT" || f["protocol"] != "connect" || f["bytes_in"].(int64) < 100 || f["bytes_out"].(int64) < 100 {
		t.Errorf("event %v", f)
	}
}

// socks returns an HTTP client that goes through the proxy by SOCKS5.
func (w *world) socks() *http.Client {
	d, err := proxy.SOCKS5("unix", w.sock, nil, proxy.Direct)
	if err != nil {
		w.t.Fatal(err)
	}
	tr := &http.Transport{DialContext: d.(proxy.ContextDialer).DialContext, TLSClientConfig: &tls.Config{RootCAs: w.trust()}}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestSOCKS(t *testing.T) {
	n := allow("a.test", "refused.test", "10.1.2.3", "absent.test")
	n.Allow = append(n.Allow, driver.NetRule{Host: "readonly.test", Methods: []string{"get"}})
	w := newWorld(t, n, nil)
	w.host("a.test", addrA, hello200)
	w.host("readonly.test", addrB, hello200)
	w.names["refused.test"] = []string{"192.168.1.1"}
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "http://a.test/1", "GET a.test /1 "},
		{"GET", "https://a.test/2", "GET a.test /2 "},
		{"GET", "http://readonly.test/", "GET readonly.test / "},
		{"POST", "http://readonly.test/", "does not allow the method POST"}, // seen inside the tunnel
		{"GET", "https://readonly.test/", "not allowed"},                    // not seen
		{"GET", "http://b.test/", "not allowed"},
		{"GET", "https://refused.test/", "not allowed"},
		{"GET", "https://absent.test/", "host unreachable"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, tt.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		resp, err := w.socks().Do(req)
		if err != nil {
			got = err.Error()
		} else {
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			got = string(b)
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: got %q, want %q", tt.method, tt.url, got, tt.want)
		}
	}
}

func TestSOCKSReplies(t *testing.T) {
	w := newWorld(t, allow("a.test"), nil)
	for name, tt := range map[string]struct{ send, want string }{
		"no method":      {"\x05\x01\x02", "\x05\xff"},
		"bind":           {"\x05\x01\x00\x05\x02\x00\x03\x06a.test\x01\xbb", "\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00"},
		"udp":            {"\x05\x01\x00\x05\x03\x00\x03\x06a.test\x01\xbb", "\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00"},
		"address kind":   {"\x05\x01\x00\x05\x01\x00\x09\x06a.test\x01\xbb", "\x05\x00\x05\x08\x00\x01\x00\x00\x00\x00\x00\x00"},
		"denied":         {"\x05\x01\x00\x05\x01\x00\x03\x06b.test\x01\xbb", "\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"},
		"address":        {"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x01\xbb", "\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"},
		"number":         {"\x05\x01\x00\x05\x01\x00\x03\x0a2130706433\x01\xbb", "\x05\x00\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00"},
		"cut":            {"\x05\x01\x00\x05\x01\x00\x03\xff", "\x05\x00"},
		"version 4":      {"\x04\x01\x01\xbb\x7f\x00\x00\x01\x00", ""},
		"port is zero":   {"\x05\x01\x00\x05\x01\x00\x03\x06a.test\x00\x00", "\x05\x00\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00"},
		"does not exist": {"\x05\x01\x00\x05\x01\x00\x03\x06a.test\x01\xbb", "\x05\x00\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00"},
	} {
		if got := w.talk(tt.send); got != tt.want {
			t.Errorf("%s: got %x, want %x", name, got, tt.want)
		}
	}
}

func TestServerNameMustBeTheHost(t *testing.T) {
	n := allow("a.test", "b.test", addrA)
	n.Allow = append(n.Allow, driver.NetRule{Host: "a.test", Ports: []int{8443}})
	w := newWorld(t, n, nil)
	w.host("a.test", addrA, hello200)
	w.host("b.test", addrB, hello200)
	w.routes[addrA+":8443"] = w.routes[addrA+":443"]
	for _, tt := range []struct {
		hostport, name string
		ok             bool
	}{
		{"a.test:443", "a.test", true},
		{"a.test:443", "A.TEST", true},
		{"a.test:443", "b.test", false},
		{"a.test:443", "evil.test", false},
		{"a.test:443", "", false},
		{"a.test:8443", "a.test", true},
		{"a.test:8443", "evil.test", false},
		{addrA + ":443", "", true},
		{addrA + ":443", "a.test", true},
		{addrA + ":443", "evil.test", false},
	} {
		c, br, status := w.open(tt.hostport)
		if status != 200 {
			t.Fatalf("%s: %d", tt.hostport, status)
		}
		tc := tls.Client(&replayConn{c, br}, &tls.Config{ServerName: tt.name, InsecureSkipVerify: true})
		if err := tc.HandshakeContext(t.Context()); (err == nil) != tt.ok {
			t.Errorf("%s with server name %q: %v, want ok %v", tt.hostport, tt.name, err, tt.ok)
		}
	}
}

func TestEncryptedHelloIsRefused(t *testing.T) {
	w := newWorld(t, allow("a.test"), nil)
	w.host("a.test", addrA, hello200)
	c, _, _ := w.open("a.test:443")
	if _, err := c.Write(withExtension(clientHello(t, "a.test"), 0xfe0d, append([]byte{0, 0, 1, 0, 1, 5, 0, 32, 32: 0, 40: 0, 41: 16}, make([]byte, 16)...))); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(c); string(got) != string(unrecognizedNameAlert) {
		t.Errorf("got %x, want the alert", got)
	}
	if f := w.events(1)[0]; f["verdict"] != "deny" || !strings.Contains(fmt.Sprint(f["reason"]), "ECH") {
		t.Errorf("event %v", f)
	}
}

func TestOnlyTLSOnPort443(t *testing.T) {
	n := allow("a.test")
	n.Allow = append(n.Allow, driver.NetRule{Host: "a.test", Ports: []int{22}})
	w := newWorld(t, n, nil)
	w.names["a.test"] = []string{addrA}
	got443 := make(chan string, 1)
	w.raw(addrA+":443", func(c net.Conn) { b, _ := io.ReadAll(c); got443 <- string(b) })
	w.raw(addrA+":22", func(c net.Conn) {
		fmt.Fprint(c, "SSH-2.0-banner\n") // the server speaks first
		b, _ := io.ReadAll(c)             // until the client has ended its half
		fmt.Fprintf(c, "got %s", b)
	})
	c, br, _ := w.open("a.test:443")
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	if b, _ := io.ReadAll(br); len(b) != 0 {
		t.Errorf("plain text on port 443 was answered: %q", b)
	}
	if b := <-got443; b != "" {
		t.Errorf("plain text on port 443 got through: %q", b)
	}
	w.events(1) // which comes before that of the next
	c, br, status := w.open("a.test:22")
	if status != 200 {
		t.Fatal(status)
	}
	fmt.Fprint(c, "hello")
	_ = c.(*net.UnixConn).CloseWrite()
	if b, err := io.ReadAll(br); err != nil || string(b) != "SSH-2.0-banner\ngot hello" {
		t.Errorf("a tunnel to a listed port: %q, %v", b, err)
	}
	e := w.events(2)
	if e[0]["verdict"] != "deny" || e[0]["reason"] != "it is not TLS" || e[1]["bytes_in"] != int64(24) || e[1]["bytes_out"] != int64(5) {
		t.Errorf("events %v", e)
	}
}

func TestRebinding(t *testing.T) {
	w := newWorld(t, allow("a.test", "mixed.test"), nil)
	w.host("a.test", addrA, hello200)
	w.names["a.test"] = []string{addrA, "127.0.0.1", "10.0.0.1", "::ffff:169.254.169.254"}
	w.names["mixed.test"] = []string{"127.0.0.1," + addrA}
	w.routes["127.0.0.1:443"] = w.routes[addrA+":443"]
	if _, _, status := w.open("a.test:443"); status != 200 {
		t.Errorf("first: %d", status)
	}
	for range 3 {
		_, _, status := w.open("a.test:443")
		if status != http.StatusForbidden {
			t.Errorf("after the change: %d", status)
		}
	}
	// Of an answer with a good and a bad address the good one is taken.
	if _, _, status := w.open("mixed.test:443"); status != 200 {
		t.Errorf("mixed: %d", status)
	}
	for _, d := range w.dialed() {
		if d != addrA+":443" {
			t.Errorf("dialed %s", d)
		}
	}
	if n := w.lookup["a.test"]; n != 4 {
		t.Errorf("%d lookups for 4 connections, want one each", n)
	}
}

func TestRedirectToPrivate(t *testing.T) {
	w := newWorld(t, allow("a.test", "*.evil.test"), nil)
	to := ""
	w.host("a.test", addrA, func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to, http.StatusFound) })
	w.names["meta.evil.test"] = []string{"169.254.169.254"}
	for _, to = range []string{"http://169.254.169.254/latest/", "http://127.0.0.1/", "http://[::1]/", "http://meta.evil.test/", "http://2130706433/", "http://0x7f.1/", "http://localhost/"} {
		status, got, err := w.get("http://a.test/", nil)
		if status != http.StatusForbidden && status != http.StatusBadRequest {
			t.Errorf("redirect to %s: %d %q, %v", to, status, got, err)
		}
	}
	for _, d := range w.dialed() {
		if d != addrA+":80" {
			t.Errorf("dialed %s", d)
		}
	}
}

func TestPrivateWhereNamed(t *testing.T) {
	n := allow("10.1.0.0/16", "name.test")
	n.Allow = append(n.Allow, driver.NetRule{Host: "flag.test", Private: true}, driver.NetRule{Host: "169.254.169.254"})
	n.Deny = []driver.NetRule{{Host: "10.1.9.0/24"}}
	w := newWorld(t, n, nil)
	w.host("base.test", addrA, hello200)
	for name, a := range map[string]string{"flag.test": "127.0.0.1", "name.test": "10.1.2.3"} {
		w.names[name] = []string{a}
	}
	for _, a := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254"} {
		w.routes[a+":80"] = w.routes[addrA+":80"]
	}
	for u, want := range map[string]int{
		"http://10.1.2.3/": 200, "http://10.2.2.3/": 403, "http://10.1.9.1/": 403, "http://name.test/": 200,
		"http://flag.test/": 200, "http://127.0.0.1/": 403, "http://169.254.169.254/": 200, "http://169.254.169.253/": 403,
	} {
		if got, body, err := w.get(u, nil); got != want {
			t.Errorf("%s: %d %q %v, want %d", u, got, body, err, want)
		}
	}
}

func TestPolicyChangeCutsOff(t *testing.T) {
	n := allow("a.test", "b.test")
	n.Allow = append(n.Allow, driver.NetRule{Host: "raw.test", Ports: []int{7}})
	w := newWorld(t, n, nil)
	release := make(chan struct{})
	w.host("a.test", addrA, func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, "begin\n")
		rw.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		fmt.Fprint(rw, "end\n")
	})
	w.names["raw.test"] = []string{addrB}
	w.raw(addrB+":7", func(c net.Conn) { _, _ = io.Copy(c, c) })

	tun, br, _ := w.open("raw.test:7")
	fmt.Fprint(tun, "ping\n")
	if s, err := br.ReadString('\n'); s != "ping\n" {
		t.Fatalf("%q %v", s, err)
	}
	resp, err := w.client().Get("http://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	if s, err := body.ReadString('\n'); s != "begin\n" {
		t.Fatalf("%q %v", s, err)
	}
	// A policy that still allows both leaves both alone.
	if err := w.p.SetPolicy(n); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(tun, "pong\n")
	if s, err := br.ReadString('\n'); s != "pong\n" {
		t.Fatalf("%q %v", s, err)
	}
	if err := w.p.SetPolicy(allow("b.test")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(br); len(b) > 0 {
		t.Errorf("the tunnel lives on: %q %v", b, err)
	}
	if b, err := io.ReadAll(body); err == nil {
		t.Errorf("the request lives on: %q", b)
	}
	close(release)
	if status, got, _ := w.get("http://a.test/", nil); status != http.StatusForbidden {
		t.Errorf("a new request: %d %q", status, got)
	}
	for _, f := range w.events(3) {
		if f["host"] == "raw.test" && (f["reason"] != "the policy has changed" || f["verdict"] != "deny") {
			t.Errorf("event %v", f)
		}
	}
	if err := w.p.SetPolicy(allow("bad host")); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a bad policy: %v", err)
	}
}

func TestTooManyConnections(t *testing.T) {
	w := newWorld(t, allow("a.test"), func(o *Options) { o.MaxConns = 2 })
	w.host("a.test", addrA, hello200)
	a, _, _ := w.open("a.test:443")
	w.open("a.test:443")
	got := w.talk("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if e := wire(t, got); !strings.HasPrefix(got, "HTTP/1.1 429 ") || e.Code != fault.ResourceExhausted.Wire() {
		t.Errorf("got %q", got)
	}
	if got := w.talk("\x05\x01\x00\x05\x01\x00\x03\x06a.test\x01\xbb"); got != "\x05\x00\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00" {
		t.Errorf("SOCKS got %x", got)
	}
	a.Close()
	w.events(3) // the two that were refused, and the one that has ended
	for end := time.Now().Add(patience); ; {
		if status, got, _ := w.get("http://a.test/", nil); status == 200 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("after one has ended: %d %q", status, got)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestIdleEnds: what says nothing is ended, be it a tunnel or one who never asked. The
// connections are in memory, so that time passes as it does for nobody else.
func TestIdleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = time.Minute
		n := driver.Network{Allow: []driver.NetRule{{Host: "raw.test", Ports: []int{7}}}}
		names := &world{names: map[string][]string{"raw.test": {addrB}}, lookup: map[string]int{}}
		p, err := New(&Options{Policy: n, Resolver: names, IdleTimeout: idle, LocalAddrs: func() ([]net.Addr, error) { return nil, nil }})
		if err != nil {
			t.Fatal(err)
		}
		var echo sync.WaitGroup
		p.connect = func(context.Context, string, string) (net.Conn, error) {
			near, there := net.Pipe()
			echo.Go(func() { _, _ = io.Copy(there, there) })
			return near, nil
		}
		for _, send := range []string{"CONNECT raw.test:7 HTTP/1.1\r\nHost: raw.test:7\r\n\r\n", ""} {
			c, inside := net.Pipe()
			p.serveConn(t.Context(), inside)
			br := bufio.NewReader(c)
			if send != "" {
				fmt.Fprint(c, send)
				resp, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"})
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				fmt.Fprint(c, "ping\n")
				if s, err := br.ReadString('\n'); s != "ping\n" {
					t.Fatalf("%q %v", s, err)
				}
			}
			began := time.Now()
			b, err := io.ReadAll(br)
			if took := time.Since(began); len(b) != 0 || err != nil || took != idle {
				t.Errorf("after %q: %q %v, ended after %v, want %v", send, b, err, took, idle)
			}
			c.Close()
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		echo.Wait()
	})
}

func TestCloseEndsEverything(t *testing.T) {
	n := allow("a.test")
	w := newWorld(t, n, nil)
	began, ended := make(chan struct{}), make(chan struct{})
	w.host("a.test", addrA, func(_ http.ResponseWriter, r *http.Request) { close(began); <-r.Context().Done(); close(ended) })
	c, err := net.Dial("unix", w.sock)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
	w.open("a.test:443")
	await(t, began, "the request is with the server")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, ended, "the server sees its request end")
	if err := w.p.Serve(t.Context(), closedListener(t)); fault.Of(err) != fault.WrongState {
		t.Errorf("Serve after Close: %v", err)
	}
	if _, err := net.Dial("unix", w.sock); err == nil {
		t.Error("the socket still listens")
	}
}

func closedListener(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestClientGoesAway(t *testing.T) {
	w := newWorld(t, allow("a.test"), nil)
	began, ended := make(chan struct{}), make(chan struct{})
	w.host("a.test", addrA, func(rw http.ResponseWriter, r *http.Request) { close(began); <-r.Context().Done(); close(ended) })
	c, err := net.Dial("unix", w.sock)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
	await(t, began, "the request is with the server")
	c.Close()
	await(t, ended, "the server sees its request end")
	if f := w.events(1)[0]; f["code"] != fault.Canceled.Wire() || f["verdict"] != event.VerdictAllow {
		t.Errorf("event %v", f)
	}
}
