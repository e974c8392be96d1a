package page

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"strings"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/advice"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/internal/server/httplog"
)

// Config is what a Server needs. All but Data, Audit and Log are required.
type Config struct {
	Guard  httpguard.Guard // authenticates keys
	Key    string          // secret from which the key of cookies is derived
	Assets fs.FS           // with index.html at its top
	Data   string          // data directory, which browsers on this host are told for commands
	File   string          // configuration file, if a command needs its name; told as Data is
	Audit  event.Sink      // receives an event for each sign-in; nil discards
	Log    *slog.Logger    // nil is silent
}

// A Server serves the page.
type Server struct {
	cfg    Config
	seal   cipher.AEAD
	assets map[string]*asset // by path, such as /assets/app-1.js; "/" is index.html
}

// New returns a server. It refuses assets without index.html.
func New(cfg Config) (*Server, error) {
	if cfg.Key == "" {
		return nil, fmt.Errorf("page: new server: %w: a key for cookies is required", fault.InvalidArgument)
	}
	if cfg.Audit == nil {
		cfg.Audit = event.Discard
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Guard.Shares = true
	sum := sha256.Sum256([]byte("croft page cookie\x00" + cfg.Key))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		return nil, fmt.Errorf("page: new server: %w: %w", fault.Internal, err)
	}
	s := &Server{cfg: cfg}
	if s.seal, err = cipher.NewGCM(block); err != nil {
		return nil, fmt.Errorf("page: new server: %w: %w", fault.Internal, err)
	}
	if s.assets, err = findAssets(cfg.Assets); err != nil {
		return nil, fmt.Errorf("page: new server: %w", err)
	}
	return s, nil
}

// pagePolicy is the Content-Security-Policy of the page: it runs its own scripts only, makes no HTML or script of text, and
// connects to nothing but this origin.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'"

// contentPolicy is that of everything else: nothing of it runs in a browser.
const contentPolicy = "default-src 'none'; frame-ancestors 'none'; sandbox"

var (
	pageHeaders    = securityHeaders(pagePolicy)
	contentHeaders = securityHeaders(contentPolicy)
)

func securityHeaders(policy string) http.Header {
	return http.Header{
		"Content-Security-Policy":      {policy},
		"X-Content-Type-Options":       {"nosniff"},
		"Referrer-Policy":              {"no-referrer"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
	}
}

// Over returns a handler that serves the page, and passes everything else on to next, with the
// key of the cookie.
func (s *Server) Over(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && !isLoopbackName(r.Host) { // localhost also has the servers of others, without TLS
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		if a := s.assets[r.URL.Path]; a != nil {
			maps.Copy(w.Header(), pageHeaders)
			httplog.SetRoute(r.Context(), "page")
			s.serveAsset(w, r, a)
			return
		}
		maps.Copy(w.Header(), contentHeaders)
		if r.URL.Path == sessionPath {
			httplog.SetRoute(r.Context(), sessionPath)
			s.serveSession(w, r)
			return
		}
		if r.URL.Path == hostPath {
			httplog.SetRoute(r.Context(), hostPath)
			s.serveHost(w, r)
			return
		}
		keyed, stop, err := s.withKey(r)
		if err != nil {
			s.writeError(w, err)
			return
		}
		defer stop()
		if keyed != r { // a cache before the server knows that answers to Authorization are private, but not those to cookies
			w.Header().Set("Cache-Control", "no-store")
		}
		next.ServeHTTP(w, keyed)
	})
}

// takesCookie reports whether a path may be used with the cookie: those of package rest, and the
// templates of package e2b, which have the logs of their builds.
func takesCookie(path string) bool {
	return path == "/events" || strings.HasPrefix(path, "/v1/") || path == "/templates" || strings.HasPrefix(path, "/templates/")
}

// withKey returns a request with the key of its cookie, which ends with the session. One with a key
// of its own, or without a cookie, is returned as it is. The caller calls stop when it is answered.
func (s *Server) withKey(r *http.Request) (_ *http.Request, stop func(), err error) {
	none := func() {}
	if !takesCookie(r.URL.Path) || r.Header.Get(httpguard.KeyHeader) != "" || r.Header.Get("Authorization") != "" {
		return r, none, nil
	}
	now, ok, err := s.session(r)
	if err != nil || !ok {
		return r, none, err
	}
	if err := s.cfg.Guard.CheckHost(r.Host); err != nil {
		return r, none, err
	}
	if err := checkPage(r); err != nil {
		return r, none, err
	}
	ctx, stop := s.keep(r.Context(), now)
	r = r.Clone(ctx)
	r.Header.Del("Cookie")
	r.Header.Set("Authorization", "Bearer "+now.Key)
	return r, stop, nil
}

// PageHeader is the header that a request which may change something needs beside the cookie.
const PageHeader = "Croft-Page"

// checkPage refuses a request that relies on the cookie and that another page may have made.
func checkPage(r *http.Request) error {
	if err := httpguard.CheckOrigin(r); err != nil {
		return err
	}
	upgrade := r.Header.Get("Upgrade") != ""
	read := (r.Method == http.MethodGet || r.Method == http.MethodHead) && !upgrade
	if err := checkSite(r, read); err != nil {
		return err
	}
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case read:
		return nil
	case origin == "" && (upgrade || site == ""):
		return fmt.Errorf("request: %w: it has a cookie and no Origin; send a key instead (Authorization: Bearer KEY)", fault.PermissionDenied)
	case !upgrade && r.Header.Get(PageHeader) == "":
		return fmt.Errorf("request: %w: it has a cookie and may change something, so it needs the header %s: 1; or send a key instead (Authorization: Bearer KEY)", fault.PermissionDenied, PageHeader)
	}
	return nil
}

// checkSite refuses a request that a browser says to be of a page of another origin, also of one of
// the same site. The user may have typed the address of a read.
func checkSite(r *http.Request, read bool) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && (site != "none" || !read) {
		return fmt.Errorf("request: %w: a page of another origin made it (Sec-Fetch-Site: %.20q); the cookie of the page is for the page only", fault.PermissionDenied, site)
	}
	return nil
}

// writeError writes an error in the form of package rest.
func (s *Server) writeError(w http.ResponseWriter, err error) {
	code := fault.Of(err)
	if code == fault.Internal || fault.IsPrivate(err) {
		s.cfg.Log.Error("request failed", "request", w.Header().Get(httplog.Header), "error", err)
	}
	writeJSON(w, code.Status(), map[string]fault.Wire{"error": advice.Encode(err)})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Cache-Control", "no-store")
	httplog.WriteJSON(w, status, v)
}
