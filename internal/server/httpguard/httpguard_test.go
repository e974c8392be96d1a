package httpguard

import (
	"net/http/httptest"
	"testing"

	"github.com/croft-run/croft/fault"
)

// TestAnOriginWithoutTLS: a page that came without TLS, which somebody on the way can write, is no
// page of a server with TLS.
func TestAnOriginWithoutTLS(t *testing.T) {
	for _, tt := range []struct {
		server, origin string
		want           fault.Code
	}{
		{"https://croft.example", "https://croft.example", ""},
		{"https://croft.example", "http://croft.example", fault.PermissionDenied},
		{"http://croft.example", "https://croft.example", ""}, // by a proxy with TLS
	} {
		r := httptest.NewRequest("GET", tt.server, nil)
		r.Header.Set("Origin", tt.origin)
		if err := CheckOrigin(r); fault.Of(err) != tt.want {
			t.Errorf("a page of %s at %s: %v, want %q", tt.origin, tt.server, err, tt.want)
		}
	}
}

func TestCheck(t *testing.T) {
	g := Guard{Token: "right", Hosts: []string{"croft.example"}}
	for _, tt := range []struct {
		name, host, origin, authorization string
		want                              fault.Code
	}{
		{"loopback by name", "localhost:7070", "", "Bearer right", ""},
		{"in any case", "LocalHost", "", "bearer right", ""},
		{"by address", "127.0.0.1:7070", "", "Bearer right", ""},
		{"by address of version 6", "[::1]:7070", "", "Bearer right", ""},
		{"by a name of ours", "croft.example:7070", "", "Bearer right", ""},
		{"a page of this server", "localhost:7070", "http://localhost:7070", "Bearer right", ""},
		{"a name that somebody rebound", "evil.example:7070", "", "Bearer right", fault.PermissionDenied},
		{"a name that ends like ours", "not-croft.example", "", "Bearer right", fault.PermissionDenied},
		{"no host", "", "", "Bearer right", fault.PermissionDenied},
		{"a page of another server", "localhost:7070", "http://evil.example", "Bearer right", fault.PermissionDenied},
		{"a page of another port", "localhost:7070", "http://localhost:8080", "Bearer right", fault.PermissionDenied},
		{"a page of no origin", "localhost:7070", "null", "Bearer right", fault.PermissionDenied},
		{"no token", "localhost", "", "", fault.Unauthenticated},
		{"an empty token", "localhost", "", "Bearer ", fault.Unauthenticated},
		{"another token", "localhost", "", "Bearer wrong", fault.Unauthenticated},
		{"the beginning of the token", "localhost", "", "Bearer righ", fault.Unauthenticated},
		{"another scheme", "localhost", "", "Basic right", fault.Unauthenticated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Host = tt.host
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			if tt.authorization != "" {
				r.Header.Set("Authorization", tt.authorization)
			}
			_, err := g.Check(r)
			if got := fault.Of(err); got != tt.want {
				t.Errorf("Check gives %q, want %q", got, tt.want)
			}
		})
	}
}
