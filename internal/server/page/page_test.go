package page

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCheckPage refuses requests that rely on the cookie and that another page may have made.
func TestCheckPage(t *testing.T) {
	const own = "http://croft.example"
	for _, tt := range []struct {
		name, method string
		headers      map[string]string
		ok           bool
	}{
		{"read of the page", "GET", map[string]string{"Sec-Fetch-Site": "same-origin"}, true},
		{"typed address", "GET", map[string]string{"Sec-Fetch-Site": "none"}, true},
		{"read of another site", "GET", map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{"read of a sandbox's port below the name", "GET", map[string]string{"Sec-Fetch-Site": "same-site"}, false},
		{"change by the page", "POST", map[string]string{"Origin": own, "Sec-Fetch-Site": "same-origin", PageHeader: "1"}, true},
		{"change without the header", "POST", map[string]string{"Origin": own, "Sec-Fetch-Site": "same-origin"}, false},
		{"change without an origin", "POST", map[string]string{PageHeader: "1"}, false},
		{"change by another origin", "POST", map[string]string{"Origin": "http://attacker.example", PageHeader: "1"}, false},
		{"typed address of a change", "DELETE", map[string]string{"Sec-Fetch-Site": "none", "Origin": own, PageHeader: "1"}, false},
		{"WebSocket of the page", "GET", map[string]string{"Upgrade": "websocket", "Origin": own, "Sec-Fetch-Site": "same-origin"}, true},
		{"WebSocket without an origin", "GET", map[string]string{"Upgrade": "websocket"}, false},
		{"WebSocket of another origin", "GET", map[string]string{"Upgrade": "websocket", "Origin": "http://attacker.example"}, false},
	} {
		r := httptest.NewRequest(tt.method, own+"/v1/workspaces", nil)
		for name, value := range tt.headers {
			r.Header.Set(name, value)
		}
		if err := checkPage(r); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestTLSStays: browsers use TLS from then on, but for localhost, where others serve without it.
func TestTLSStays(t *testing.T) {
	s := &Server{}
	for url, want := range map[string]string{
		"https://croft.example/v1/version": "max-age=31536000", "http://croft.example/v1/version": "", "https://localhost:7070/v1/version": "",
	} {
		w := httptest.NewRecorder()
		s.Over(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", url, nil))
		if got := w.Header().Get("Strict-Transport-Security"); got != want {
			t.Errorf("%s: Strict-Transport-Security %q, want %q", url, got, want)
		}
	}
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{"": false, "gzip": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "gzipped": false, "gzip; q=x": false} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", header)
		if got := acceptsGzip(r); got != want {
			t.Errorf("Accept-Encoding %q: %v, want %v", header, got, want)
		}
	}
}

// TestIsLocal: the server names its data directory only to a browser on its own host.
func TestIsLocal(t *testing.T) {
	for _, tt := range []struct {
		name, from, host, header string
		want                     bool
	}{
		{"loopback", "127.0.0.1:5000", "localhost:7070", "", true},
		{"loopback of IPv6", "[::1]:5000", "[::1]:7070", "", true},
		{"another host", "192.0.2.7:5000", "localhost:7070", "", false},
		{"another name", "127.0.0.1:5000", "croft.example", "", false},
		{"a proxy on this host", "127.0.0.1:5000", "localhost:7070", "X-Forwarded-For", false},
	} {
		r := httptest.NewRequest("GET", "http://"+tt.host+hostPath, nil)
		r.RemoteAddr = tt.from
		if tt.header != "" {
			r.Header.Set(tt.header, "192.0.2.7")
		}
		if got := isLocal(r); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
