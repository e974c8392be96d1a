package egress

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

func credentialed(names ...string) driver.Network {
	n := allow("plain.test")
	for _, name := range names {
		n.Allow = append(n.Allow, driver.NetRule{Host: name, Credential: "TOK"})
	}
	return n
}

// forms are the ways in which a server may show a secret.
func forms(s string) []string {
	j, _ := json.Marshal(s)
	return []string{s, base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte("x:" + s)),
		base64.StdEncoding.EncodeToString([]byte("xy" + s + "z")), hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))),
		url.QueryEscape(s), url.PathEscape(s), string(j)}
}

// leaks reports what of a secret shows in a text, in any of its forms.
func leaks(text string) string {
	for _, f := range append(forms(token), token[4:14], base64.StdEncoding.EncodeToString([]byte(token))[4:20], hex.EncodeToString([]byte(token))[8:24]) {
		if f = strings.Trim(f, `"`); strings.Contains(text, f) {
			return f
		}
	}
	return ""
}

// noLeak fails if the secret is in anything that the workspace or the audit sees.
func (w *world) noLeak(what, text string) {
	w.t.Helper()
	if f := leaks(text); f != "" {
		w.t.Errorf("%s: %q shows in %q", what, f, text)
	}
	for _, e := range w.ring.Events() {
		if f := leaks(fmt.Sprint(e)); f != "" {
			w.t.Errorf("%s: %q shows in the event %v", what, f, e)
		}
	}
}

func TestCredentialIsAdded(t *testing.T) {
	w := newWorld(t, credentialed("api.test"), nil)
	var got http.Header
	record := func(rw http.ResponseWriter, r *http.Request) { got = r.Header; fmt.Fprint(rw, "ok") }
	w.host("api.test", addrA, record)
	w.host("plain.test", addrB, record)
	for name, tt := range map[string]struct {
		url  string
		send http.Header
		want string
	}{
		"added":       {"https://api.test/", nil, "Bearer " + token},
		"replaced":    {"https://api.test/", http.Header{"Authorization": {"Bearer own"}}, "Bearer " + token},
		"swapped":     {"https://api.test/", http.Header{"Authorization": {"token croft-secret:tok"}}, "token " + token},
		"basic":       {"https://api.test/", http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("me:croft-secret:TOK"))}}, "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+token))},
		"other name":  {"https://api.test/", http.Header{"X-Key": {"croft-secret:other"}}, "Bearer " + token},
		"not for it":  {"https://plain.test/", http.Header{"Authorization": {"croft-secret:tok"}}, "croft-secret:tok"},
		"not for it2": {"http://plain.test/", http.Header{"Authorization": {"croft-secret:tok"}}, "croft-secret:tok"},
	} {
		got = nil
		status, answer, err := w.get(tt.url, func(r *http.Request) {
			for k, v := range tt.send {
				r.Header[k] = v
			}
			r.Header.Set("Range", "bytes=0-3")
		})
		if err != nil || status != 200 || got.Get("Authorization") != tt.want {
			t.Errorf("%s: %d %q %v; the server got %q, want %q", name, status, answer, err, got.Get("Authorization"), tt.want)
		}
		if api := strings.Contains(tt.url, "api"); api && (got.Get("Range") != "" || got.Get("Accept-Encoding") != "identity") {
			t.Errorf("%s: the server got %v", name, got)
		}
	}
	if status, answer, _ := w.get("http://api.test/", nil); status != 403 || !strings.Contains(answer, "use https") {
		t.Errorf("without TLS: %d %s", status, answer)
	}
	for _, f := range w.events(7) { // one more is a tunnel that is still open
		if f["host"] == "api.test" && f["port"] == 443 && (f["credential"] != "TOK" || f["protocol"] != "https" || f["method"] != "GET") {
			t.Errorf("event %v", f)
		}
	}
}

func TestCredentialKinds(t *testing.T) {
	n := driver.Network{}
	creds := map[string]Credential{
		"key":    {Secret: "tok", Header: "X-Api-Key", Format: "{secret}"},
		"user":   {Secret: "tok", User: "git"},
		"holder": {Secret: "tok", Placeholder: true},
		"clear":  {Secret: "tok", Plain: true},
	}
	for name := range creds {
		n.Allow = append(n.Allow, driver.NetRule{Host: name + ".test", Credential: name})
	}
	for _, name := range []string{"short", "bad", "absent"} {
		n.Allow = append(n.Allow, driver.NetRule{Host: name + ".test", Credential: name})
	}
	w := newWorld(t, n, func(o *Options) { o.Credentials = creds })
	var got http.Header
	for i, r := range n.Allow {
		w.host(r.Host, fmt.Sprintf("93.184.216.%d", 40+i), func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	}
	for _, tt := range []struct {
		url, header, want string
		status            int
	}{
		{"https://key.test/", "X-Api-Key", token, 200},
		{"https://user.test/", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+token)), 200},
		{"https://holder.test/", "Authorization", "", 200},
		{"http://clear.test/", "Authorization", "Bearer " + token, 200},
		{"https://short.test/", "Authorization", "", 503},
		{"https://bad.test/", "Authorization", "", 503},
		{"https://absent.test/", "Authorization", "", 503},
	} {
		got = nil
		status, answer, err := w.get(tt.url, nil)
		if err != nil || status != tt.status || got.Get(tt.header) != tt.want {
			t.Errorf("%s: %d %v; the server got %q, want %q", tt.url, status, err, got.Get(tt.header), tt.want)
		}
		w.noLeak(tt.url, answer)
	}
	for _, c := range []Credential{{Header: "a b"}, {Format: "no mark"}, {User: "a:b"}} {
		if _, err := New(&Options{Credentials: map[string]Credential{"c": c}}); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSecretNeverComesBack has a server that does what it can to give away what
// it was sent.
func TestSecretNeverComesBack(t *testing.T) {
	w := newWorld(t, credentialed("api.test"), nil)
	long := strings.Repeat("filler ", 10_000)
	w.host("api.test", addrA, func(rw http.ResponseWriter, r *http.Request) {
		s := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s != token {
			t.Errorf("the server got %q", s)
		}
		switch r.URL.Path {
		case "/body":
			for _, f := range forms(s) {
				fmt.Fprintf(rw, "%s>%s<", long, f)
			}
		case "/length":
			rw.Header().Set("Content-Length", fmt.Sprint(len(s)))
			fmt.Fprint(rw, s)
		case "/slow":
			for i := range len(s) {
				fmt.Fprint(rw, s[i:i+1])
				rw.(http.Flusher).Flush()
			}
		case "/headers":
			for i, f := range forms(s) {
				rw.Header().Set(fmt.Sprintf("X-%d", i), f)
			}
			rw.Header().Set("X-"+hex.EncodeToString([]byte(s)), "name")
			rw.Header().Set("Location", "https://evil.test/?t="+url.QueryEscape(s))
			rw.Header().Set("Set-Cookie", "t="+base64.StdEncoding.EncodeToString([]byte(s)))
			rw.WriteHeader(http.StatusBadRequest)
		case "/trailer":
			rw.Header().Set("Trailer", "X-T")
			fmt.Fprint(rw, "body")
			rw.Header().Set("X-T", s)
		case "/gzip":
			rw.Header().Set("Content-Encoding", "gzip")
			zw := gzip.NewWriter(rw)
			fmt.Fprint(zw, "zipped "+s)
			_ = zw.Close()
		case "/br":
			rw.Header().Set("Content-Encoding", "br")
			fmt.Fprint(rw, s)
		case "/range":
			rw.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(rw, s[:8])
		default: // words that are not HTTP
			c, _, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			switch r.URL.Path {
			case "/status":
				fmt.Fprintf(c, "HTTP/1.1 200 %s\r\nContent-Length: 0\r\n\r\n", s)
			case "/malformed":
				fmt.Fprintf(c, "%s\r\n\r\n", s)
			case "/badheader":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", s)
			case "/badlength":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n", s)
			case "/badchunk":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n%s\r\n", s, s)
			case "/early":
				fmt.Fprintf(c, "HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", s)
			case "/switch":
				fmt.Fprintf(c, "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n%s", s)
			}
		}
	})
	for path, want := range map[string]string{
		"/body": "[REDACTED:tok]", "/length": "[REDACTED:tok]", "/slow": "[REDACTED:tok]", "/headers": "400 Bad Request", "/trailer": "body",
		"/gzip": "zipped [REDACTED:tok]", "/br": "could not be seen", "/range": "could not be seen", "/status": "200 OK",
		"/malformed": "does not answer as it should", "/badheader": "does not answer as it should", "/badlength": "does not answer as it should",
		"/badchunk": "", "/early": "ok", "/switch": "another protocol",
	} {
		status, got, err := w.get("https://api.test"+path, nil)
		if !strings.Contains(got, want) {
			t.Errorf("%s: %d %.300q %v, want %q in it", path, status, got, err, want)
		}
		w.noLeak(path, got)
	}
}

func TestUntrustedServer(t *testing.T) {
	w := newWorld(t, credentialed("api.test", "other.test"), nil)
	called := false
	w.host("other.test", addrB, func(http.ResponseWriter, *http.Request) { called = true })
	w.names["api.test"] = []string{addrA}
	w.routes[addrA+":443"] = w.routes[addrB+":443"] // its certificate is for another host
	status, got, err := w.get("https://api.test/", nil)
	if status != 503 || !strings.Contains(got, "its certificate is not trusted") || called {
		t.Errorf("%d %q %v, called %v", status, got, err, called)
	}
}

// Programs show of a tunnel that was not made no more than the status line.
func TestStatusLineSaysWhy(t *testing.T) {
	w := newWorld(t, allow("api.test"), nil)
	got := w.talk("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
	line, rest, _ := strings.Cut(got, "\r\n")
	if !strings.HasPrefix(line, "HTTP/1.1 503 Service Unavailable (croft: its name ") || !strings.Contains(rest, `details="its name `) {
		t.Errorf("the answer is %q", got)
	}
}

func TestStreamKeepsItsPace(t *testing.T) {
	w := newWorld(t, credentialed("api.test"), nil)
	next := make(chan struct{})
	w.host("api.test", addrA, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			fmt.Fprint(rw, "data: x\n\n")
			rw.(http.Flusher).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	})
	resp, err := w.client().Get("https://api.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 3 {
		buf := make([]byte, len("data: x\n\n"))
		if _, err := io.ReadFull(resp.Body, buf); err != nil {
			t.Fatal(err)
		}
		next <- struct{}{} // the server goes on only after its event was seen
	}
}

func TestMethodsAreSeenWithACredential(t *testing.T) {
	n := driver.Network{Allow: []driver.NetRule{{Host: "api.test", Methods: []string{"GET"}, Credential: "tok"}}}
	w := newWorld(t, n, nil)
	w.host("api.test", addrA, hello200)
	if status, got, err := w.get("https://api.test/", nil); status != 200 {
		t.Errorf("GET: %d %s %v", status, got, err)
	}
	if status, got, err := w.get("https://api.test/", func(r *http.Request) { r.Method = "DELETE" }); status != 403 {
		t.Errorf("DELETE: %d %s %v", status, got, err)
	}
	// Inside, another host is not served, nor another tunnel.
	for _, send := range []string{"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n"} {
		c, br, _ := w.open("api.test:443")
		tc := tls.Client(&replayConn{c, br}, &tls.Config{ServerName: "api.test", RootCAs: w.trust()})
		fmt.Fprint(tc, send)
		buf := make([]byte, 12)
		if _, err := io.ReadFull(tc, buf); err != nil || string(buf) != "HTTP/1.1 400" {
			t.Errorf("%q: %q %v", send, buf, err)
		}
	}
}

func TestAuthorities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authority")
	w := newWorld(t, credentialed("api.test", "*.wild.test"), func(o *Options) { o.AuthorityFile = file })
	first := w.p.CAPEM()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(first) {
		t.Fatal("there is no authority")
	}
	if bytes.Contains(first, []byte("PRIVATE")) || bytes.Contains(w.p.Bundle([]byte("roots\n")), []byte("PRIVATE")) {
		t.Error("a key is handed out")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	// It is trusted for the hosts with a credential and for no others.
	a := w.p.authority.all[0]
	for _, tt := range []struct {
		to target
		ok bool
	}{{target{name: "api.test"}, true}, {target{name: "x.wild.test"}, true}, {target{name: "plain.test"}, false}, {target{name: "test"}, false},
		{target{name: "bank.example"}, false}, {mustTarget(t, "93.184.216.34:1"), false}} {
		leaf, err := a.signLeaf(tt.to)
		if err != nil {
			t.Fatal(err)
		}
		_, err = leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: tt.to.name})
		if (err == nil) != tt.ok {
			t.Errorf("a certificate for %s: %v, want ok %v", tt.to.host(), err, tt.ok)
		}
		if _, err := w.p.authority.leafCert(tt.to); (err == nil) != tt.ok {
			t.Errorf("leaf(%s): %v, want ok %v", tt.to.host(), err, tt.ok)
		}
	}
	if err := w.p.SetPolicy(credentialed("api.test", "new.test", "93.184.216.34")); err != nil {
		t.Fatal(err)
	}
	second := w.p.CAPEM()
	if !bytes.HasPrefix(second, first) || len(second) <= len(first) {
		t.Error("a new host did not add an authority")
	}
	if _, err := w.p.authority.leafCert(mustTarget(t, "93.184.216.34:1")); err != nil {
		t.Errorf("for an address: %v", err)
	}
	again, err := New(&Options{Workspace: "w1", Policy: credentialed("api.test", "new.test"), AuthorityFile: file})
	if err != nil || !bytes.Equal(again.CAPEM(), second) {
		t.Errorf("a later proxy has other authorities: %v", err)
	}
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(&Options{AuthorityFile: file}); fault.Of(err) != fault.Failed {
		t.Errorf("a damaged file: %v", err)
	}
}

func mustTarget(t *testing.T, s string) target {
	to, err := splitTarget(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestExpectContinue(t *testing.T) {
	w := newWorld(t, allow("a.test"), nil)
	w.host("a.test", addrA, hello200)
	c, err := net.Dial("unix", w.sock)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
	buf := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("%q %v", buf, err)
	}
	fmt.Fprint(c, "hello")
	if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "POST a.test / hello") {
		t.Errorf("%q %v", b, err)
	}
	// A request that is refused is not asked for its body.
	if got := w.talk("POST http://b.test/ HTTP/1.1\r\nHost: b.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("%q", got)
	}
}

// TestPlaceholderInHeaders: a placeholder is replaced in headers that carry credentials alone.
func TestPlaceholderInHeaders(t *testing.T) {
	for name, want := range map[string]bool{"Authorization": true, "X-Api-Key": true, "Private-Token": true, "Cookie": true, "X-Own": true, "X-A": false, "Referer": false, "User-Agent": false} {
		h := http.Header{name: {"a " + Placeholder + "tok"}}
		Credential{Secret: "TOK", Header: "X-Own", Placeholder: true}.applyTo(h, secret.NewValue("tok", token))
		if got := h[name][0] == "a "+token; got != want || len(h) != 1 {
			t.Errorf("%s: replaced is %v, want %v: %q", name, got, want, h)
		}
	}
}
