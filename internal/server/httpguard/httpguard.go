// Package httpguard authenticates HTTP requests, by the server's token or an API key, and
// checks their Host and Origin.
//
// It prevents access without a key, DNS rebinding, and requests of web pages of another
// origin. It does not protect against programs that can read the token or a key.
package httpguard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
)

// A Guard is the token, keys and names of a server.
type Guard struct {
	Token string      // of the operator
	Hosts []string    // names of this server besides localhost, in lower case
	Keys  *auth.Keys  // nil is a server without API keys
	Rates *auth.Rates // requests per second; nil is no limit

	Open   *auth.Open // requests at the same time; nil is no limit
	Bodies *Bodies    // requests in memory; nil is no limit

	// Shares accepts the keys of share links, which show one workspace. A server that sets it
	// refuses them where they show more.
	Shares bool
}

// Check refuses a request with the wrong Host or Origin, or without a key, and returns its
// principal.
func (g Guard) Check(r *http.Request) (auth.Principal, error) {
	if err := g.CheckHost(r.Host); err != nil {
		return auth.Principal{}, err
	}
	if err := CheckOrigin(r); err != nil {
		return auth.Principal{}, err
	}
	return g.Authenticate(r)
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
	err := fmt.Errorf("host %q: %w: this server accepts localhost and addresses%s", host, fault.PermissionDenied, names)
	return fault.WithHint(err, fault.HintSetting, "hosts")
}

// CheckOrigin refuses requests of web pages of another origin.
func CheckOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	// Without TLS of this server, a proxy before it may have TLS.
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (r.TLS == nil || u.Scheme == "https") {
		return nil
	}
	return fmt.Errorf("origin %q: %w: only pages of this server may send requests", origin, fault.PermissionDenied)
}

// KeyHeader is the header of the E2B SDKs for an API key. It precedes Authorization.
const KeyHeader = "X-API-KEY"

// Names of the cookie of a session on the page, over TLS or on loopback, and without.
const (
	SecureCookie   = "__Host-croft"
	InsecureCookie = "croft-insecure"
)

// LocalKey is the id of the server's token as a key, in audit events.
const LocalKey = "token"

// Authenticate returns the principal of a request, by X-API-KEY or "Authorization: Bearer".
// A request without a valid key is fault.Unauthenticated, and one beyond the tenant's requests
// per second fault.ResourceExhausted. The caller puts the principal into the context.
func (g Guard) Authenticate(r *http.Request) (auth.Principal, error) {
	text := keyText(r)
	if text == "" {
		return auth.Principal{}, fmt.Errorf("request: %w: send an API key or the server's token in the header %s, or as Authorization: Bearer KEY", fault.Unauthenticated, KeyHeader)
	}
	p, err := g.principal(r.Context(), text)
	if err != nil {
		return auth.Principal{}, err
	}
	if p.Workspace != "" && !g.Shares {
		return auth.Principal{}, fmt.Errorf("request: %w: the key of a share link is for the page and for reading its workspace under /v1", fault.PermissionDenied)
	}
	p.Addr = r.RemoteAddr
	return p, g.Rates.Allow(p.Tenant)
}

// keyText returns the key of a request.
func keyText(r *http.Request) string {
	return cmp.Or(strings.TrimSpace(r.Header.Get(KeyHeader)), bearer(r))
}

func bearer(r *http.Request) string {
	if scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest)
	}
	return ""
}

// KeyHeaders returns the names of the headers of a request that have the server's token, or text
// in the form of an API key.
func (g Guard) KeyHeaders(r *http.Request) []string {
	var names []string
	for name, text := range map[string]string{KeyHeader: strings.TrimSpace(r.Header.Get(KeyHeader)), "Authorization": bearer(r)} {
		if strings.HasPrefix(text, auth.Prefix) || g.isToken(text) {
			names = append(names, name)
		}
	}
	return names
}

func (g Guard) isToken(text string) bool {
	// Hashes have equal length, so the constant-time comparison leaks no length.
	got, want := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(g.Token))
	return g.Token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// ErrKeyEnded is the cause of the end of a request whose key was revoked or has expired.
var ErrKeyEnded = fmt.Errorf("request: %w: its API key was revoked or has expired", fault.Unauthenticated)

// keyCheck is the interval at which the key of a request that takes longer is checked again.
const keyCheck = 5 * time.Second

// Keep returns an authenticated request whose context ends, with the cause ErrKeyEnded, when
// its key does: a stream must not outlive the key by which it was opened. The caller calls stop
// when the request is answered.
func (g Guard) Keep(r *http.Request) (_ *http.Request, stop func()) {
	text := keyText(r)
	if text == "" {
		return r, func() {} // of a route that needs none
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	var check func()
	var timer atomic.Pointer[time.Timer]
	check = func() {
		if _, err := g.principal(ctx, text); fault.Of(err) == fault.Unauthenticated {
			cancel(ErrKeyEnded)
		} else if ctx.Err() == nil {
			timer.Store(time.AfterFunc(keyCheck, check))
		}
	}
	timer.Store(time.AfterFunc(keyCheck, check))
	return r.WithContext(ctx), func() {
		cancel(nil)
		timer.Load().Stop()
	}
}

func (g Guard) principal(ctx context.Context, text string) (auth.Principal, error) {
	switch {
	case g.isToken(text):
		return auth.Principal{Key: LocalKey, Scope: auth.Admin}, nil
	case g.Keys != nil && strings.HasPrefix(text, auth.Prefix):
		return g.Keys.Authenticate(ctx, text)
	}
	err := fmt.Errorf("request: %w: wrong token: it is neither the token of the server nor an API key, %s and 40 hexadecimal digits",
		fault.Unauthenticated, auth.Prefix)
	return auth.Principal{}, fault.WithHint(err, fault.HintKey)
}

// A Call is a call that may change something, for Audit.
type Call struct {
	Method    string // such as POST, or the name of a tool
	Route     string // such as /v1/workspaces/{id}
	Target    string // id or name of what the call is about; may be ""
	Workspace string // id of the workspace; may be ""
	Status    int    // of the answer; a code of package fault has one
}

// Audit emits the event of a call on behalf of the context's principal. Every call that may
// change something has exactly one, also a refused one.
func Audit(ctx context.Context, events event.Sink, c Call) {
	p, _ := auth.From(ctx)
	fields := map[string]any{
		event.FieldKey: p.Key, event.FieldAddress: p.Addr, event.FieldMethod: c.Method, event.FieldRoute: c.Route, event.FieldStatus: c.Status,
	}
	if c.Target != "" {
		fields[event.FieldTarget] = c.Target
	}
	events.Emit(event.Event{Kind: event.APICall, Tenant: p.Tenant, Workspace: c.Workspace, Fields: fields})
}
