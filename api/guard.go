package api

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

const healthPath = "/healthz"

// guard refuses a request that must not reach any route.
func (s *Server) guard(r *http.Request) error {
	if err := s.checkHost(r.Host); err != nil {
		return err
	}
	if err := checkOrigin(r); err != nil {
		return err
	}
	if r.URL.Path == healthPath {
		return nil
	}
	if err := s.checkToken(r.Header.Get("Authorization")); err != nil {
		return err
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return fmt.Errorf("query: %w: %w", fault.InvalidArgument, err)
	}
	return nil
}

// checkHost is the guard against DNS rebinding: a name that somebody else makes
// resolve to this machine is not one of ours.
func (s *Server) checkHost(hostport string) error {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || slices.Contains(s.cfg.Hosts, host) {
		return nil
	}
	if net.ParseIP(host) != nil {
		return nil // an address needs no resolving, so nobody can rebind it
	}
	return fmt.Errorf("host %q: %w: this server answers to localhost, to addresses and to the names %q", host, fault.PermissionDenied, s.cfg.Hosts)
}

// checkOrigin refuses what a page of another origin makes a browser send.
func checkOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return fmt.Errorf("origin %q: %w: only pages of this server may ask", origin, fault.PermissionDenied)
}

func (s *Server) checkToken(header string) error {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return fmt.Errorf("request: %w: send the header Authorization: Bearer TOKEN", fault.Unauthenticated)
	}
	// Hashing first makes both sides of equal length, so that time tells nothing.
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(s.cfg.Token))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return fmt.Errorf("request: %w: the token is not the server's", fault.Unauthenticated)
	}
	return nil
}

// unmatched answers a request that no route takes.
func (s *Server) unmatched(w http.ResponseWriter, r *http.Request, h http.Handler) {
	rec := &statusRecorder{header: http.Header{}}
	h.ServeHTTP(rec, r)
	if rec.status == http.StatusMethodNotAllowed {
		allow := rec.header.Get("Allow")
		err := fmt.Errorf("%s %s: %w: the route takes %s", r.Method, r.URL.Path, fault.InvalidArgument, allow)
		s.fail(w, r, &statusError{err, http.StatusMethodNotAllowed, http.Header{"Allow": {allow}}})
		return
	}
	s.fail(w, r, fmt.Errorf("route %s: %w: see /v1/openapi.json", r.URL.Path, fault.NotFound))
}

// statusRecorder keeps the status and headers that a handler would answer with.
type statusRecorder struct {
	header http.Header
	status int
}

func (r *statusRecorder) Header() http.Header         { return r.header }
func (r *statusRecorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *statusRecorder) WriteHeader(status int)      { r.status = status }
