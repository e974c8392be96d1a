// Package httpguard checks the bearer token, Host and Origin of HTTP requests.
//
// It prevents access without the token, DNS rebinding, and requests of web pages of
// another origin. It does not protect against programs that can read the token.
package httpguard

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A Guard is the token and names of a server.
type Guard struct {
	Token string   // required in every request
	Hosts []string // names of this server besides localhost, in lower case
}

// Check refuses a request with the wrong Host, Origin or token.
func (g Guard) Check(r *http.Request) error {
	if err := g.CheckHost(r.Host); err != nil {
		return err
	}
	if err := CheckOrigin(r); err != nil {
		return err
	}
	return g.CheckToken(r.Header.Get("Authorization"))
}

// CheckHost prevents DNS rebinding: it refuses a Host that is neither localhost, an IP
// address, nor one of g.Hosts. An attacker's name that resolves to this host is refused.
func (g Guard) CheckHost(hostport string) error {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || slices.Contains(g.Hosts, host) {
		return nil
	}
	if net.ParseIP(host) != nil {
		return nil // an address is not resolved, so it can't be rebound
	}
	names := ""
	if len(g.Hosts) > 0 {
		names = fmt.Sprintf(", and the names %q", g.Hosts)
	}
	return fmt.Errorf("host %q: %w: this server accepts localhost and addresses%s; add a name with --host", host, fault.PermissionDenied, names)
}

// CheckOrigin refuses requests of web pages of another origin.
func CheckOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return fmt.Errorf("origin %q: %w: only pages of this server may send requests", origin, fault.PermissionDenied)
}

// CheckToken refuses an Authorization header without the token.
func (g Guard) CheckToken(header string) error {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return fmt.Errorf("request: %w: send the header Authorization: Bearer TOKEN", fault.Unauthenticated)
	}
	// Hashes have equal length, so the constant-time comparison leaks no length.
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(g.Token))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return fmt.Errorf("request: %w: wrong token; croft up prints the token of the server", fault.Unauthenticated)
	}
	return nil
}
