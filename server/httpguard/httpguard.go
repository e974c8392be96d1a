// Package httpguard turns away requests that must not reach a server on this
// machine: those of pages in somebody's browser, and of those who do not know the
// token.
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

// A Guard knows who may ask.
type Guard struct {
	Token string   // that every request must bear
	Hosts []string // names of this server beyond the loopback ones, in lower case
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

// CheckHost is the guard against DNS rebinding: a name that somebody else makes
// resolve to this machine is not one of ours.
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
		return nil // an address needs no resolving, so nobody can rebind it
	}
	names := ""
	if len(g.Hosts) > 0 {
		names = fmt.Sprintf(", and to the names %q", g.Hosts)
	}
	return fmt.Errorf("host %q: %w: this server answers to localhost and to addresses%s; --host adds a name", host, fault.PermissionDenied, names)
}

// CheckOrigin refuses what a page of another origin makes a browser send.
func CheckOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return fmt.Errorf("origin %q: %w: only pages of this server may ask", origin, fault.PermissionDenied)
}

// CheckToken refuses an Authorization header without the token.
func (g Guard) CheckToken(header string) error {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return fmt.Errorf("request: %w: send the header Authorization: Bearer TOKEN", fault.Unauthenticated)
	}
	// Hashing first makes both sides of equal length, so that time tells nothing.
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(g.Token))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return fmt.Errorf("request: %w: the token is not the server's", fault.Unauthenticated)
	}
	return nil
}
