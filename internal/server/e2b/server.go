package e2b

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/keylock"
	"github.com/croft-run/croft/internal/server/advice"
	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/internal/strictjson"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/template"
	"github.com/croft-run/croft/workspace/driver"
)

// Config is what a Server needs. Every field is required unless its comment says otherwise.
type Config struct {
	Registry *registry.Registry
	Envd     *envd.Server

	// Admit checks and completes the spec of a sandbox from the configuration.
	// AdmitPolicy checks the new policy of a workspace, which has the present one.
	Admit       func(ctx context.Context, spec *driver.Spec) error
	AdmitPolicy func(ctx context.Context, id string, present driver.Policy, policy *driver.Policy) error

	// Guard authenticates requests to the control plane, and checks host names.
	Guard httpguard.Guard

	// Forward, if set, answers a request by the replica of the cluster that owns a sandbox,
	// if that is another one. An error means that nothing was answered.
	Forward func(w http.ResponseWriter, r *http.Request, id string) (answered bool, err error)

	// Key is the secret from which the access tokens of sandboxes are derived.
	Key []byte

	Dir       string            // directory of templates, uploads and volumes; created if missing
	Volumes   string            // directory of the volumes of provider sandbox
	Templates *template.Catalog // of this server, by name
	Snapshots *snapshot.Store

	// Domain is the host under which sandboxes are reached as PORT-ID.DOMAIN, which may
	// have a port; "" until SetDomain.
	Domain string

	// Secrets returns the names of the secrets that the principal's sandboxes may send, sorted;
	// may be nil.
	Secrets func(ctx context.Context) ([]string, error)

	Events *event.Ring  // recent events, for logs; may be nil
	Audit  event.Sink   // one event for each call that may change something; nil: no events
	Log    *slog.Logger // nil is silent
}

// A Server answers the routes of this package. It is an http.Handler.
type Server struct {
	cfg       Config
	log       *slog.Logger
	mux       *http.ServeMux
	templates *templateStore
	volumes   *volumeStore
	tokens    tokenList

	background context.Context // of builds; ends with Close
	end        context.CancelFunc
	building   sync.WaitGroup
	uploading  keylock.Locks[string] // by tenant

	mu     sync.Mutex
	domain string // guarded by mu
}

// New returns a server.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Registry == nil || cfg.Envd == nil || cfg.Admit == nil || len(cfg.Key) == 0 || cfg.Dir == "" {
		return nil, fmt.Errorf("e2b: new server: %w: Registry, Envd, Admit, Key and Dir are required", fault.InvalidArgument)
	}
	s := &Server{cfg: cfg, log: cfg.Log, mux: http.NewServeMux(), domain: strings.ToLower(cfg.Domain)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.templates, err = openTemplates(cfg.Dir); err != nil {
		return nil, err
	}
	if s.volumes, err = openVolumes(cfg.Dir, cfg.Volumes); err != nil {
		return nil, err
	}
	s.background, s.end = context.WithCancel(auth.Without(context.WithoutCancel(ctx)))
	s.building.Go(s.removeInterrupted)
	s.routes()
	return s, nil
}

// SetDomain sets the domain of sandboxes, unless the configuration has one.
func (s *Server) SetDomain(domain string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Domain == "" {
		s.domain = strings.ToLower(domain)
	}
}

func (s *Server) sandboxDomain() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.domain
}

// Close ends the builds that run, and waits for them. A build that was cut off has failed.
func (s *Server) Close(ctx context.Context) error {
	s.end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.building.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("e2b: wait for builds: %w", ctx.Err())
	}
}

// prefixes are the first elements of the paths of E2B's API. Everything below them is
// answered here.
var prefixes = map[string]bool{
	"sandboxes": true, "templates": true, "snapshots": true, "volumes": true, "volumecontent": true, "secrets": true,
	"v2": true, "v3": true, "teams": true, "api-keys": true, "access-tokens": true, "nodes": true, "admin": true,
}

// Handles reports whether a request is for E2B: traffic to a sandbox, or a path of the
// control plane.
func (s *Server) Handles(r *http.Request) bool {
	if s.IsTraffic(r) {
		return true
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return prefixes[first]
}

// ServeHTTP answers a request for which Handles is true.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer httplog.Recover(w, r, s.log, s.writeError)
	if s.IsTraffic(r) {
		s.serveTraffic(w, r)
		return
	}
	if err := s.cfg.Guard.CheckHost(r.Host); err != nil {
		s.writeError(w, r, err)
		return
	}
	if err := httpguard.CheckOrigin(r); err != nil {
		s.writeError(w, r, err)
		return
	}
	if s.serveWithToken(w, r) {
		return
	}
	principal, err := s.cfg.Guard.Authenticate(r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	r = r.WithContext(auth.With(r.Context(), principal))
	if s.forward(w, r, pathSandbox(r.URL.Path)) {
		return
	}
	body := s.cfg.Guard.Bodies.Body(principal.Tenant, r.Body)
	defer body.Release()
	r.Body = body
	_, pattern := s.mux.Handler(r)
	httplog.SetRoute(r.Context(), pattern)
	if pattern == "" {
		s.writeError(w, r, s.noRoute(r))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// pathSandbox returns the id of the sandbox in a path of the control plane, "" without one.
func pathSandbox(path string) string {
	_, rest, ok := strings.Cut(path, "/sandboxes/")
	id, _, _ := strings.Cut(rest, "/")
	if !ok || !driver.ValidID(id) {
		return ""
	}
	return id
}

// forward reports whether a request was answered by the replica that owns the sandbox, or with
// the error that it can't be reached.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, id string) bool {
	if s.cfg.Forward == nil || !driver.ValidID(id) {
		return false
	}
	answered, err := s.cfg.Forward(w, r, id)
	if err != nil {
		s.writeError(w, r, err)
	}
	return answered || err != nil
}

// noRoute is the error for a request that no route answers.
func (s *Server) noRoute(r *http.Request) error {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "" && method != r.Method {
			return &statusError{fmt.Errorf("%s %s: %w: this path has no such method", r.Method, r.URL.Path, fault.Unsupported), http.StatusMethodNotAllowed}
		}
	}
	return fmt.Errorf("%s %s: %w: this server does not have this part of E2B's API; docs/e2b.md lists what it has", r.Method, r.URL.Path, fault.Unsupported)
}

// An answer is what a route answers; a zero status is 200.
type answer struct {
	status int
	body   any // nil is no body
	next   string
	target string // id of what the call made, for its audit event
}

type handler func(r *http.Request) (answer, error)

// handle registers a route that needs a scope.
func (s *Server) handle(pattern string, scope auth.Scope, h handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var ignored []string
		r = r.WithContext(context.WithValue(r.Context(), ignoredKey{}, &ignored))
		a, err := answer{}, error(nil)
		if p, ok := auth.From(r.Context()); ok && !p.Has(scope) {
			err = fmt.Errorf("request: %w: the API key has the scope %q, and this call needs %q", fault.PermissionDenied, p.Scope, scope)
		} else {
			a, err = h(r)
		}
		s.audit(r, pattern, a, err)
		s.reportIgnored(w, r, pattern, ignored)
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		if a.next != "" {
			w.Header().Set("X-Next-Token", a.next)
		}
		httplog.WriteJSON(w, max(a.status, http.StatusOK), a.body)
	})
}

// audit emits the event of a call that may change something.
func (s *Server) audit(r *http.Request, pattern string, a answer, err error) {
	if s.cfg.Audit == nil || r.Method == http.MethodGet {
		return
	}
	status := max(a.status, http.StatusOK)
	if err != nil {
		status = newProblem(err).Code
	}
	_, route, _ := strings.Cut(pattern, " ")
	box := r.PathValue("sandbox")
	if created, ok := a.body.(sandboxAnswer); ok {
		box = created.SandboxID
	}
	if !driver.ValidID(box) {
		box = ""
	}
	target := cmp.Or(a.target, r.PathValue("template"), r.PathValue("volume"), r.PathValue("secret"))
	httpguard.Audit(r.Context(), s.cfg.Audit, httpguard.Call{Method: r.Method, Route: cmp.Or(route, pattern), Target: target, Workspace: box, Status: status})
}

// auditToken names the route, and emits the event, of a call whose URL or header has a token for
// one thing, in place of a key: the id of the key is the purpose of the token.
func (s *Server) auditToken(r *http.Request, purpose, tenant, route, target string, err error) {
	httplog.SetRoute(r.Context(), route)
	if s.cfg.Audit == nil || r.Method == http.MethodGet {
		return
	}
	status := http.StatusOK
	if err != nil {
		status = newProblem(err).Code
	}
	ctx := auth.With(r.Context(), auth.Principal{Key: purpose, Tenant: tenant, Addr: r.RemoteAddr})
	httpguard.Audit(ctx, s.cfg.Audit, httpguard.Call{Method: r.Method, Route: route, Target: target, Status: status})
}

// problem is the body of an error.
type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// A statusError is an error with a status other than that of its code.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }

// newProblem converts an error for the client.
func newProblem(err error) problem {
	p := problem{Code: fault.Of(err).Status(), Message: advice.Encode(err).Message}
	if special := new(statusError); errors.As(err, &special) {
		p.Code = special.status
	}
	if p.Code == http.StatusTooManyRequests && fault.CauseOf(err) == fault.CauseDiskFull {
		p.Code = http.StatusInsufficientStorage // the SDK takes 429 for a rate limit
	}
	switch p.Code {
	case http.StatusPreconditionFailed, http.StatusGone:
		p.Code = http.StatusConflict
	case http.StatusUnprocessableEntity:
		p.Code = http.StatusServiceUnavailable
	}
	return p
}

func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	p := newProblem(err)
	s.logFailure(r, p.Code, err)
	if p.Code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if auth.IsRate(err) { // the SDK repeats the request, which is of no use where a quota is full
		w.Header().Set("Retry-After", "1")
	}
	httplog.WriteJSON(w, p.Code, p)
}

// logFailure logs an error that is the server's.
func (s *Server) logFailure(r *http.Request, status int, err error) {
	if status >= http.StatusInternalServerError && status != http.StatusNotImplemented {
		s.log.Error("e2b: request failed", "request", httplog.ID(r.Context()), "method", r.Method, "path", r.URL.Path, "error", err)
	}
}

// maxBody bounds the JSON body of a request.
const maxBody = 4 << 20

// ignoredKey is the context key of the fields of a request's body that were ignored.
type ignoredKey struct{}

// ignoredHeader names the fields of a request's body that this server does not know.
const ignoredHeader = "Croft-Ignored-Fields"

// ignoredCounter counts the requests with fields that were ignored.
var ignoredCounter = sync.OnceValue(func() metric.Int64Counter {
	// The name is valid, so the only failure is a nil instrument.
	c, _ := otel.Meter("github.com/croft-run/croft/internal/server/e2b").Int64Counter("croft.e2b.ignored",
		metric.WithDescription("Requests of E2B's API with fields that this server does not know, and ignored."))
	return c
})

// reportIgnored says in the answer, in the log and in a metric which fields were ignored.
func (s *Server) reportIgnored(w http.ResponseWriter, r *http.Request, pattern string, fields []string) {
	if len(fields) == 0 {
		return
	}
	w.Header().Set(ignoredHeader, strings.Join(fields, ", "))
	s.log.Warn("e2b: fields of a request were ignored; its client may be newer than this server", "route", pattern, "fields", fields)
	if c := ignoredCounter(); c != nil {
		c.Add(r.Context(), 1, metric.WithAttributes(attribute.String("route", pattern)))
	}
}

// ignores reports whether an unknown field is ignored, and records it. E2B's SDKs get new
// fields each week, which most programs do not depend on. One of the network is refused: it may
// forbid something.
func ignores(ctx context.Context, path string) bool {
	ignored, ok := ctx.Value(ignoredKey{}).(*[]string)
	if !ok || path == "network" || strings.HasPrefix(path, "network.") || len(*ignored) >= 20 {
		return false
	}
	*ignored = append(*ignored, fmt.Sprintf("%+.60q", path))
	return true
}

// decode reads the JSON body of a request. An empty body is an empty object.
func decode(r *http.Request, into any) error {
	return decodeKnown(r, into, func(path string) bool { return ignores(r.Context(), path) })
}

// decodeKnown is decode that ignores the unknown fields for which skip returns true.
func decodeKnown(r *http.Request, into any, skip func(path string) bool) error {
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return fmt.Errorf("request: read the body: %w", fault.Default(err, fault.InvalidArgument))
	}
	if len(data) > maxBody {
		return &statusError{fmt.Errorf("request: %w: the body has more than %d bytes", fault.InvalidArgument, maxBody), http.StatusRequestEntityTooLarge}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := strictjson.DecodeKnown("", data, into, skip); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	return nil
}

// unsupported is the error for a part of E2B's API that Croft does not have.
func unsupported(what, why string) error {
	return fmt.Errorf("%s: %w: %s", what, fault.Unsupported, why)
}

// cleanup returns a context for work that must be done although the request has ended.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}
