package page

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/internal/strictjson"
)

const sessionPath = "/page/session"

// Names of the cookie: over TLS and on loopback, and by plain HTTP beyond it.
const (
	secureCookie   = httpguard.SecureCookie
	insecureCookie = httpguard.InsecureCookie
)

// cookieAge is how long a cookie is accepted, if its key is.
const cookieAge = 7 * 24 * time.Hour

// A session is what a cookie has.
type session struct {
	Key     string    `json:"key"` // the text of the key
	Expires time.Time `json:"expires"`

	id string // of the cookie, by which its end is recorded
}

// Who is the answer of /page/session.
type Who struct {
	client.Me
	ExpiresAt time.Time `json:"expiresAt"` // of the cookie
	Secure    bool      `json:"secure"`    // the cookie is sent over TLS or on loopback only
}

// signIn is the body of POST /page/session.
type signIn struct {
	Key string `json:"key"`

	// Share accepts the key of a share link only. The link contains the key, and the author of a
	// link must not sign in another person as another client.
	Share bool `json:"share"`
}

const maxSignIn = 4 << 10

// serveSession signs in (POST), says who is signed in (GET), and signs out (DELETE).
func (s *Server) serveSession(w http.ResponseWriter, r *http.Request) {
	if err := s.cfg.Guard.CheckHost(r.Host); err != nil {
		s.writeError(w, err)
		return
	}
	if err := httpguard.CheckOrigin(r); err != nil {
		s.writeError(w, err)
		return
	}
	var err error
	switch r.Method {
	case http.MethodPost:
		err = s.signIn(w, r)
	case http.MethodGet, http.MethodHead:
		err = s.showSession(w, r)
	case http.MethodDelete:
		err = s.signOut(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		writeJSON(w, http.StatusMethodNotAllowed, map[string]fault.Wire{"error": fault.Encode(
			fmt.Errorf("%.20s %s: %w: the route takes GET, POST and DELETE", r.Method, sessionPath, fault.InvalidArgument))})
	}
	if err != nil {
		s.writeError(w, err)
	}
}

// signIn answers a valid key with a cookie.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
	if err := checkSite(r, false); err != nil {
		return err
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		return fmt.Errorf("sign in: %w: send {\"key\": ...} as application/json", fault.InvalidArgument)
	}
	var in signIn
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSignIn))
	if err != nil {
		return fmt.Errorf("sign in: %w: %w", fault.InvalidArgument, err)
	}
	if err := strictjson.Decode("", data, &in); err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	p, err := s.authenticate(r, strings.TrimSpace(in.Key))
	if err == nil && in.Share && p.Workspace == "" {
		err = fmt.Errorf("sign in: %w: the key in this address is not that of a share link", fault.PermissionDenied)
	}
	if fault.Of(err) != fault.Unauthenticated { // those without a key must not fill the audit events; the log has their requests
		s.audit(r, p, err)
	}
	if err != nil {
		return err
	}
	secure := isSecure(r)
	now := session{Key: strings.TrimSpace(in.Key), Expires: time.Now().Add(cookieAge).UTC().Truncate(time.Second)}
	value, err := s.encode(now, secure)
	if err != nil {
		return err
	}
	http.SetCookie(w, newCookie(value, secure, int(cookieAge.Seconds())))
	writeJSON(w, http.StatusOK, Who{Me: me(p), ExpiresAt: now.Expires, Secure: secure})
	return nil
}

// authenticate returns the principal of a key.
func (s *Server) authenticate(r *http.Request, key string) (auth.Principal, error) {
	check := &http.Request{Header: http.Header{"Authorization": {"Bearer " + key}}, RemoteAddr: r.RemoteAddr}
	return s.cfg.Guard.Authenticate(check.WithContext(r.Context()))
}

func me(p auth.Principal) client.Me {
	return client.Me{Key: p.Key, Tenant: p.Tenant, Scope: string(p.Scope), Operator: p.Operator(), Workspace: p.Workspace}
}

// audit emits the event of a sign-in.
func (s *Server) audit(r *http.Request, p auth.Principal, err error) {
	status := http.StatusOK
	if err != nil {
		status, p.Addr = fault.Of(err).Status(), r.RemoteAddr
	}
	httpguard.Audit(auth.With(r.Context(), p), s.cfg.Audit, httpguard.Call{Method: r.Method, Route: sessionPath, Status: status})
}

var errSignedOut = fmt.Errorf("session: %w: nobody is signed in; POST %s with a key", fault.Unauthenticated, sessionPath)

func (s *Server) showSession(w http.ResponseWriter, r *http.Request) error {
	if err := checkPage(r); err != nil {
		return err
	}
	now, ok, err := s.session(r)
	if err != nil {
		return err
	}
	if !ok {
		return errSignedOut
	}
	p, err := s.authenticate(r, now.Key)
	if err != nil {
		return err
	}
	_, err = r.Cookie(secureCookie)
	writeJSON(w, http.StatusOK, Who{Me: me(p), ExpiresAt: now.Expires, Secure: err == nil})
	return nil
}

// signOut ends the session, so that a copy of the cookie is worth nothing, and removes the cookie.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	if err := checkPage(r); err != nil {
		return err
	}
	now, ok, err := s.session(r)
	if ok && err == nil && s.cfg.Guard.Keys != nil {
		err = s.cfg.Guard.Keys.EndSession(r.Context(), now.id, now.Expires)
	}
	if err != nil && fault.Of(err) != fault.Unauthenticated { // one that has ended is removed from the browser, too
		return err
	}
	for _, secure := range []bool{true, false} {
		http.SetCookie(w, newCookie("", secure, -1))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func newCookie(value string, secure bool, age int) *http.Cookie {
	c := &http.Cookie{Name: insecureCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if secure {
		c.Name, c.Secure = secureCookie, true
	}
	return c
}

// isSecure reports whether the browser that made a request takes Secure cookies from this
// server: by TLS, which may end at a proxy before it, or on loopback.
func isSecure(r *http.Request) bool {
	if u, err := url.Parse(r.Header.Get("Origin")); err == nil && u.Scheme == "https" {
		return true
	}
	return r.TLS != nil || isLoopbackName(r.Host)
}

// isLoopbackName reports whether the host of a request is a name or an address of loopback.
func isLoopbackName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// session returns what the cookie of a request has; ok is false if it has none. A session that
// ended is fault.Unauthenticated.
func (s *Server) session(r *http.Request) (now session, ok bool, err error) {
	c, err := r.Cookie(secureCookie)
	secure := err == nil
	// A host name below this one, such as that of a sandbox, can set croft-insecure. It counts
	// only where the browser has no other: Sec-Fetch-Site is sent wherever Secure cookies are.
	if errors.Is(err, http.ErrNoCookie) && r.TLS == nil && r.Header.Get("Sec-Fetch-Site") == "" {
		c, err = r.Cookie(insecureCookie)
	}
	if err != nil {
		return session{}, false, nil
	}
	if now, err = s.decode(c.Value, secure); err == nil {
		err = s.checkSession(r.Context(), now)
	}
	return now, err == nil, err
}

// checkSession refuses a session that its user ended.
func (s *Server) checkSession(ctx context.Context, now session) error {
	if s.cfg.Guard.Keys == nil {
		return nil
	}
	return s.cfg.Guard.Keys.CheckSession(ctx, now.id)
}

// sessionCheck is the interval at which the session of a request that takes longer is checked again.
const sessionCheck = 5 * time.Second

// keep returns a context that ends, with the cause httpguard.ErrKeyEnded, when a session does. The
// caller calls stop when the request is answered.
func (s *Server) keep(ctx context.Context, now session) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var timer atomic.Pointer[time.Timer]
	var check func()
	check = func() {
		if err := s.checkSession(ctx, now); fault.Of(err) == fault.Unauthenticated {
			cancel(httpguard.ErrKeyEnded)
		} else if ctx.Err() == nil {
			timer.Store(time.AfterFunc(sessionCheck, check))
		}
	}
	timer.Store(time.AfterFunc(sessionCheck, check))
	return ctx, func() {
		cancel(nil)
		timer.Load().Stop()
	}
}

// encode encrypts a session as the value of a cookie.
func (s *Server) encode(now session, secure bool) (string, error) {
	data, err := json.Marshal(now)
	if err != nil {
		return "", fmt.Errorf("session: %w: %w", fault.Internal, err)
	}
	nonce := make([]byte, s.seal.NonceSize(), s.seal.NonceSize()+len(data)+s.seal.Overhead())
	rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(s.seal.Seal(nonce, nonce, data, []byte(newCookie("", secure, 0).Name))), nil
}

// decode is the inverse of encode. The value of another server, or one that has expired, is
// fault.Unauthenticated.
func (s *Server) decode(value string, secure bool) (session, error) {
	bad := fmt.Errorf("session: %w: this server did not make the cookie, or it has expired; sign in again", fault.Unauthenticated)
	data, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(data) < s.seal.NonceSize() {
		return session{}, bad
	}
	n := s.seal.NonceSize()
	plain, err := s.seal.Open(nil, data[:n], data[n:], []byte(newCookie("", secure, 0).Name))
	var now session
	if err != nil || json.Unmarshal(plain, &now) != nil || !time.Now().Before(now.Expires) {
		return session{}, bad
	}
	sum := sha256.Sum256(data)
	now.id = hex.EncodeToString(sum[:])
	return now, nil
}
