package e2b

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/server/e2b/envd"
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

// isTraffic reports whether a request is for a sandbox.
func (s *Server) isTraffic(r *http.Request) bool {
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

// signer finds the sandbox whose token signed the URL of a file. The SDK's URL names no
// sandbox where all of them have one base URL (E2B_SANDBOX_URL).
func (s *Server) signer(r *http.Request) (string, error) {
	recs, err := s.cfg.Registry.List(auth.Without(r.Context()), registry.Filter{})
	if err != nil {
		return "", err
	}
	query := r.URL.Query()
	operation := "read"
	if r.Method == http.MethodPost {
		operation = "write"
	}
	for _, rec := range recs {
		if _, ok := sandboxOf(rec); !ok {
			continue
		}
		text := strings.Join([]string{query.Get("path"), operation, query.Get("username"), s.token(envdPurpose, rec.ID)}, ":")
		if end := query.Get("signature_expiration"); end != "" {
			text += ":" + end
		}
		sum := sha256.Sum256([]byte(text))
		want := "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
		if equal(query.Get("signature"), want) {
			return rec.ID, nil
		}
	}
	return "", fmt.Errorf("signature: %w: no sandbox of this server signed this URL", fault.Unauthenticated)
}

// gone is the body for a sandbox or port that can't be reached.
type gone struct {
	SandboxID string `json:"sandboxId"`
	Message   string `json:"message"`
	Code      int    `json:"code"`
	Port      int    `json:"port,omitempty"`
}

func writeGone(w http.ResponseWriter, id, message string, port int) {
	writeJSON(w, http.StatusBadGateway, gone{SandboxID: id, Message: message, Code: http.StatusBadGateway, Port: port})
}

// serveTraffic answers a request to a port of a sandbox.
func (s *Server) serveTraffic(w http.ResponseWriter, r *http.Request) {
	id, port, err := s.target(r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	// The sandbox's own tokens decide, whatever tenant it belongs to.
	ctx := auth.Without(r.Context())
	box, err := s.find(ctx, id)
	if fault.Of(err) == fault.NotFound {
		writeGone(w, id, "The sandbox was not found", 0)
		return
	}
	if err == nil {
		err = s.authorizeTraffic(r, box, port)
	}
	// Only those with a token count: others must not use up the tenant's requests.
	if err == nil && (s.hasToken(r, "X-Access-Token", envdPurpose, box.ID) || port == envd.CodePort && r.URL.Path != "/health") {
		err = s.cfg.Guard.Rates.Allow(box.Tenant)
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	ws, err := s.awake(ctx, box)
	switch code := fault.Of(err); {
	case code == fault.NotFound:
		writeGone(w, id, "The sandbox was not found", 0)
		return
	case code == fault.WrongState:
		writeGone(w, id, "The sandbox is paused; connect to it to resume it", 0)
		return
	case err != nil && port == envd.Port:
		s.logFailure(r, newProblem(err).Code, err)
		envd.WriteError(w, r, err)
		return
	case err != nil:
		s.writeError(w, r, err)
		return
	}
	r = r.WithContext(ctx)
	target := envd.Sandbox{ID: box.ID, Workspace: ws, Env: box.Spec.Policy.Env, Token: s.token(envdPurpose, box.ID), Workdir: box.Workdir}
	if port != envd.Port && port != envd.CodePort {
		servePort(w, r, box, ws, port)
		return
	}
	if r.URL.Path != "/files" { // whose body is streamed
		body := s.cfg.Guard.Bodies.Body(box.Tenant, r.Body)
		defer body.Release()
		r.Body, target.Received = body, body.Release
	}
	if _, _, own := s.hostTarget(r.Host); !own {
		// A page among the files must not run as one of this server, whose host it comes from.
		w.Header().Set("Content-Security-Policy", "sandbox")
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	if port == envd.Port {
		s.cfg.Envd.ServeEnvd(w, r, target)
	} else {
		s.cfg.Envd.ServeCode(w, r, target)
	}
}

// authorizeTraffic checks the tokens of a request to a port, except those of envd, which it
// checks itself. The code interpreter runs code, so it is never public.
func (s *Server) authorizeTraffic(r *http.Request, box sandbox, port int) error {
	switch {
	case port == envd.Port, port != envd.CodePort && !box.Private, port == envd.CodePort && r.URL.Path == "/health":
		return nil
	case s.hasToken(r, trafficHeader, trafficPurpose, box.ID), port == envd.CodePort && s.hasToken(r, "X-Access-Token", envdPurpose, box.ID):
		return nil
	}
	return fmt.Errorf("port %d of sandbox %s: %w: send its trafficAccessToken in the header E2B-Traffic-Access-Token", port, box.ID, fault.Unauthenticated)
}

func (s *Server) hasToken(r *http.Request, header, purpose, id string) bool {
	return equal(r.Header.Get(header), s.token(purpose, id))
}

// awake returns the workspace of a sandbox, and resumes a paused one that resumes on
// traffic.
func (s *Server) awake(ctx context.Context, box sandbox) (*workspace.Workspace, error) {
	if box.state() == paused && box.AutoResume {
		if err := s.resumeSandbox(ctx, box, max(box.Timeout, 1), true); err != nil {
			return nil, err
		}
	}
	return s.cfg.Registry.Acquire(ctx, box.ID)
}
