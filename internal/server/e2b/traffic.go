package e2b

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
)

// Headers of traffic.
const (
	idHeader      = "E2b-Sandbox-Id"
	portHeader    = "E2b-Sandbox-Port"
	trafficHeader = "E2b-Traffic-Access-Token"
)

// sandboxLabel is the first label of a host name of a sandbox: port, id, and what E2B's
// older clients append.
var sandboxLabel = lazyregexp.New(`^([0-9]{1,5})-([a-z0-9]+)(-[a-z0-9-]*)?$`)

// IsTraffic reports whether a request is for a sandbox: for a port of a program, or for envd.
func (s *Server) IsTraffic(r *http.Request) bool {
	if _, _, ok := s.hostTarget(r.Host); ok || r.Header.Get(idHeader) != "" {
		return true
	}
	return r.URL.Path == "/files" && r.URL.Query().Get("signature") != ""
}

// hostTarget returns the sandbox and port of a host name PORT-ID.DOMAIN.
func (s *Server) hostTarget(host string) (id string, port int, ok bool) {
	host = strings.ToLower(host)
	domain := s.sandboxDomain()
	label, rest, found := strings.Cut(host, ".")
	if !found || domain == "" || withoutPort(rest) != withoutPort(domain) {
		return "", 0, false
	}
	m := sandboxLabel.FindStringSubmatch(label)
	if m == nil {
		return "", 0, false
	}
	port, err := strconv.Atoi(m[1])
	return m[2], port, err == nil
}

func withoutPort(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}

// target returns the sandbox and port of a request.
func (s *Server) target(r *http.Request) (id string, port int, err error) {
	if id, port, ok := s.hostTarget(r.Host); ok {
		return id, port, checkPort(port)
	}
	if err := s.cfg.Guard.CheckHost(r.Host); err != nil {
		return "", 0, err
	}
	id = r.Header.Get(idHeader)
	if id == "" {
		id, err = s.signer(r)
		return id, envd.Port, err
	}
	port, err = strconv.Atoi(r.Header.Get(portHeader))
	if err != nil {
		return "", 0, fmt.Errorf("header %s: %w: it is the port in the sandbox", portHeader, fault.InvalidArgument)
	}
	return id, port, checkPort(port)
}

func checkPort(port int) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("port %d: %w: a port is 1 to 65535", port, fault.InvalidArgument)
	}
	return nil
}

// A tokenList has the access tokens of sandboxes, for URLs of files that name no sandbox: the
// SDK makes them where all sandboxes have one base URL (E2B_SANDBOX_URL).
type tokenList struct {
	mu     sync.Mutex
	tokens map[string]string // guarded by mu; by id of the sandbox; not changed

	listing sync.Mutex
	listed  time.Time // guarded by listing; when the last list began
}

// signer finds the sandbox whose token signed a URL.
func (s *Server) signer(r *http.Request) (string, error) {
	arrived := time.Now()
	if id := s.signedBy(r); id != "" {
		return id, nil
	}
	// One list at a time, for all requests that wait: they need no key.
	t := &s.tokens
	t.listing.Lock()
	defer t.listing.Unlock()
	if t.listed.Before(arrived) {
		began := time.Now()
		recs, err := s.cfg.Registry.List(auth.Without(r.Context()), registry.Filter{})
		if err != nil {
			return "", err
		}
		tokens := map[string]string{}
		for _, rec := range recs {
			if _, ok := sandboxOf(rec); ok {
				tokens[rec.ID] = s.token(envdPurpose, rec.ID)
			}
		}
		t.mu.Lock()
		t.tokens = tokens
		t.mu.Unlock()
		t.listed = began
	}
	if id := s.signedBy(r); id != "" {
		return id, nil
	}
	return "", fmt.Errorf("signature: %w: no sandbox of this server signed this URL", fault.Unauthenticated)
}

// signedBy returns the id of the sandbox that signed a URL, "" if it is not in the list.
func (s *Server) signedBy(r *http.Request) string {
	s.tokens.mu.Lock()
	tokens := s.tokens.tokens
	s.tokens.mu.Unlock()
	query := r.URL.Query()
	for id, token := range tokens {
		if equal(query.Get("signature"), envd.Signature(r.Method, query, token)) {
			return id
		}
	}
	return ""
}

// gone is the body for a sandbox or port that can't be reached.
type gone struct {
	SandboxID string `json:"sandboxId"`
	Message   string `json:"message"`
	Code      int    `json:"code"`
	Port      int    `json:"port,omitempty"`
}

func writeGone(w http.ResponseWriter, id, message string, port int) {
	httplog.WriteJSON(w, http.StatusBadGateway, gone{SandboxID: id, Message: message, Code: http.StatusBadGateway, Port: port})
}

// serveTraffic answers a request to a port of a sandbox.
func (s *Server) serveTraffic(w http.ResponseWriter, r *http.Request) {
	id, port, err := s.target(r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	if s.forward(w, r, id) {
		return
	}
	// The sandbox's own tokens decide, whatever tenant it belongs to.
	ctx := auth.Without(r.Context())
	box, err := s.find(ctx, id)
	if fault.Of(err) == fault.NotFound {
		writeGone(w, id, "The sandbox was not found", 0)
		return
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	target := envd.Sandbox{ID: box.ID, Env: box.Spec.Policy.Env, Token: s.token(envdPurpose, box.ID), Workdir: box.Workdir}
	isEnvd, isCode := port == envd.Port, port == envd.CodePort
	refused := s.authorizeTraffic(r, box, target, port)
	if isHealth := (isEnvd || isCode) && envd.IsHealth(r); !isHealth {
		err = refused
	}
	// Only those with a token count: others must not use up the tenant's requests.
	if err == nil && (s.hasToken(r, "X-Access-Token", envdPurpose, box.ID) || isCode && refused == nil) {
		err = s.cfg.Guard.Rates.Allow(box.Tenant)
	}
	var end func()
	if err == nil {
		end, err = s.cfg.Guard.Open.Begin(box.Tenant, !isEnvd && !isCode || refused != nil)
	}
	switch {
	case err != nil && isEnvd && envd.IsCall(r):
		s.logFailure(r, newProblem(err).Code, err)
		envd.WriteError(w, r, err)
		return
	case err != nil:
		s.writeError(w, r, err)
		return
	}
	defer end()
	target.Workspace, err = s.awake(ctx, box, refused == nil)
	switch code := fault.Of(err); {
	case code == fault.NotFound:
		writeGone(w, id, "The sandbox was not found", 0)
		return
	case code == fault.WrongState:
		writeGone(w, id, "The sandbox is paused; connect to it to resume it", 0)
		return
	case err != nil && isEnvd:
		s.logFailure(r, newProblem(err).Code, err)
		envd.WriteError(w, r, err)
		return
	case err != nil:
		s.writeError(w, r, err)
		return
	}
	r = r.WithContext(ctx)
	if _, _, own := s.hostTarget(r.Host); !own {
		// What comes out of a sandbox must not run as a page of this server, whose host it comes
		// from, nor take the place of one in a cache before it.
		w.Header().Set("Content-Security-Policy", "sandbox")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
	}
	if !isEnvd && !isCode {
		s.servePort(w, r, box, target.Workspace, port)
		return
	}
	if r.URL.Path != "/files" { // whose body is streamed
		body := s.cfg.Guard.Bodies.Body(box.Tenant, r.Body)
		defer body.Release()
		r.Body, target.Received = body, body.Release
	}
	if isEnvd {
		s.cfg.Envd.ServeEnvd(w, r, target)
	} else {
		s.cfg.Envd.ServeCode(w, r, target)
	}
}

// authorizeTraffic checks the tokens of a request to a port. The code interpreter runs code, so
// it is never public.
func (s *Server) authorizeTraffic(r *http.Request, box sandbox, target envd.Sandbox, port int) error {
	isCode := port == envd.CodePort
	switch {
	case port == envd.Port:
		return target.Authorize(r)
	case !isCode && !box.Private, s.hasToken(r, trafficHeader, trafficPurpose, box.ID), isCode && s.hasToken(r, "X-Access-Token", envdPurpose, box.ID):
		return nil
	}
	code := fault.Unauthenticated
	if !isCode { // a program is behind it, which may itself ask for a login
		code = fault.PermissionDenied
	}
	return fmt.Errorf("port %d of sandbox %s: %w: send its trafficAccessToken in the header E2B-Traffic-Access-Token", port, box.ID, code)
}

func (s *Server) hasToken(r *http.Request, header, purpose, id string) bool {
	return equal(r.Header.Get(header), s.token(purpose, id))
}

// awake returns the workspace of a sandbox. A request that is authorized resumes a paused one
// that resumes on traffic.
func (s *Server) awake(ctx context.Context, box sandbox, authorized bool) (*workspace.Workspace, error) {
	if box.state() == paused && box.AutoResume && authorized {
		if err := s.resumeSandbox(ctx, box, max(box.Timeout, 1), true); err != nil {
			return nil, err
		}
	}
	return s.cfg.Registry.Acquire(ctx, box.ID)
}
