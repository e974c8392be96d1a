package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/keylock"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/template"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Config is what a Server needs. Registry, Mux and the token of Guard are required.
type Config struct {
	Registry *registry.Registry
	Mux      *workspace.Mux

	Guard   httpguard.Guard // authenticates every request
	Version string          // of the program
	MaxBody int64           // bytes of a JSON body; 0 is 16 MiB
	Log     *slog.Logger    // nil is silent

	// Events is the stream that /events serves and to which the server emits. Recent
	// is a sink of it, for clients that reconnect. Nil makes private ones.
	Events *event.Stream
	Recent *event.Ring

	// Audit receives one event for each call that may change something; nil discards.
	Audit event.Sink

	// Admit checks and completes a spec before it is recorded: it knows the providers
	// and policies of the configuration. AdmitPolicy checks the new policy of a
	// workspace, which has the present one, and AdmitKind whether workspaces of a kind
	// may be used. Nil accepts everything, and knows no policy by name.
	Admit       func(ctx context.Context, spec *driver.Spec, policy string) error
	AdmitPolicy func(ctx context.Context, id string, present driver.Policy, policy *driver.Policy) error
	AdmitKind   func(kind string) error

	// Snapshots is the store of the workspaces' snapshots. Export copies a snapshot to
	// the bucket with a URL. Import copies a snapshot back from the bucket; without an id
	// it lists the snapshots there. All three are nil on a server without snapshots.
	Snapshots *snapshot.Store
	Export    func(ctx context.Context, id, to string, credentials bool) (*snapshot.Manifest, error)
	Import    func(ctx context.Context, id, from string) ([]*snapshot.Manifest, error)

	// Staging has the staging metadata of workspaces, and Artifacts their artifacts.
	// Both are nil on a server without staging.
	Staging   stage.State
	Artifacts *stage.Artifacts

	// Mounts are further handlers by path, with the same authentication.
	Mounts map[string]http.Handler

	// Forward, if set, answers a request by the replica of the cluster that owns its
	// workspace, if that is another one. The route is the pattern that matched. An error
	// means that nothing was answered.
	Forward func(w http.ResponseWriter, r *http.Request, route string) (answered bool, err error)

	// Metrics answers GET /metrics, for the operator alone; nil is no such route.
	Metrics http.Handler

	// Ready returns the checks of /readyz; nil is none.
	Ready func(ctx context.Context) []ReadyCheck

	// Levels tries every level of isolation; nil on a host without any.
	Levels func(ctx context.Context) []Level

	// Commands returns the commands that replace the detected ones in the project of a
	// workspace, by its id; nil replaces none.
	Commands func(id string) profile.Commands

	// Tenants lists the tenants of the configuration, and QuotaOf returns one with its quotas. Nil
	// is none.
	Tenants func() []string
	QuotaOf func(tenant string) client.Tenant

	// Host says to which directories of this host changes may be applied.
	Host HostApply

	// SandboxAnnotation is the annotation of workspaces that Workspace.Sandbox is true for.
	SandboxAnnotation string

	// Evals are the runs of evaluations; nil is none.
	Evals Evals

	// Templates are what workspaces start from, by name; may be nil.
	Templates *template.Catalog
}

const defaultMaxBody = 16 << 20

// A Server answers the routes of this package. It is an http.Handler.
type Server struct {
	cfg      Config
	log      *slog.Logger
	register func()            // registerRoutes, once: a command of croft calls most functions of routes without HTTP
	mux      *http.ServeMux    // of routes
	scopes   map[string]string // of each route, by its pattern
	shown    map[string]bool   // routes that share links may use, by pattern
	streamed map[string]bool   // routes whose bodies are streamed, by pattern
	api      huma.API
	profiles *profile.Cache

	drain sync.Once
	done  chan struct{} // closed by Drain

	mu          sync.Mutex
	bodyTimeout time.Duration // how long the body of a request may pause

	upgraded sync.WaitGroup // hijacked connections
	draining bool           // guarded by mu; further connections are not upgraded
	unready  bool           // guarded by mu; /readyz answers 503

	announced map[string]event.Profile // guarded by mu; last announced project by workspace id
	origins   map[string]string        // guarded by mu; names of templates by snapshot id, "" of other snapshots
	pins      pins
	cpu       cpuRates
	networks  keylock.Locks[string] // by workspace id, while its network rules are changed
}

// New returns a server. It refuses a configuration without a token.
func New(cfg Config) (*Server, error) {
	if cfg.Guard.Token == "" {
		return nil, fmt.Errorf("rest: new server: %w: a token is required", fault.InvalidArgument)
	}
	cfg.Guard.Shares = true // checkShare says what they show
	if cfg.MaxBody == 0 {
		cfg.MaxBody = defaultMaxBody
	}
	if cfg.Audit == nil {
		cfg.Audit = event.Discard
	}
	if cfg.Recent == nil {
		cfg.Recent = event.NewRing(1)
	}
	if cfg.Events == nil {
		cfg.Events = event.NewStream(cfg.Recent)
	}
	s := &Server{announced: map[string]event.Profile{}, pins: pins{all: map[string][]*pin{}}, bodyTimeout: defaultBodyTimeout, cfg: cfg, log: cfg.Log, mux: http.NewServeMux(), scopes: map[string]string{}, shown: map[string]bool{}, streamed: map[string]bool{}, profiles: profile.NewCache(), done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.register = sync.OnceFunc(func() {
		s.api = humago.New(s.mux, s.humaConfig())
		s.api.UseMiddleware(wrapContext, s.refuseRepeated, s.refuseCondition)
		s.registerRoutes()
		s.completeDocument()
		for path, h := range cfg.Mounts {
			s.mux.Handle(path, h)
		}
		if cfg.Metrics != nil {
			s.mux.HandleFunc("GET /metrics", s.showMetrics)
		}
	})
	return s, nil
}

// completeDocument adds to the OpenAPI document what huma does not see.
func (s *Server) completeDocument() {
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma's error schema, which no route uses
	documentBytes(schemas)
	documentDurations(schemas)
	documentLimits(schemas)
	schemas["Spec"].Required = nil // the server gives an id and chooses a kind
}

// Unready makes /readyz answer 503, so that load balancers choose another server. All else is
// as before.
func (s *Server) Unready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unready = true
}

// Drain ends requests without a natural end: watches, waits, and connections with a
// command or a terminal. A command that is not detached ends with its connection. Other
// requests continue. Call it before the listener shuts down; further calls do nothing.
func (s *Server) Drain() {
	s.drain.Do(func() {
		s.mu.Lock()
		s.draining = true
		s.mu.Unlock()
		close(s.done)
	})
}

// Wait waits, after Drain, for hijacked connections.
func (s *Server) Wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.upgraded.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rest: wait for connections: %w", ctx.Err())
	}
}

// untilDrain returns a context that ends with ctx, or when the server drains.
func (s *Server) untilDrain(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-s.done:
			cancel(fmt.Errorf("the server shuts down: %w", fault.Unavailable))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-gone }
}

// OpenAPI returns the OpenAPI document as JSON.
func (s *Server) OpenAPI() ([]byte, error) {
	s.register()
	return s.api.OpenAPI().MarshalJSON()
}

func (s *Server) humaConfig() huma.Config {
	cfg := huma.DefaultConfig("Croft", s.cfg.Version)
	cfg.Info.Description = "Workspaces for agents: their life, their files, and their processes."
	cfg.OpenAPIPath = "/v1/openapi"
	cfg.DocsPath, cfg.SchemasPath = "", ""
	cfg.CreateHooks = nil // no $schema keys in answers
	cfg.RejectUnknownQueryParameters = true
	strict := huma.Format{Marshal: encode, Unmarshal: decode}
	cfg.Formats = map[string]huma.Format{"application/json": strict, "json": strict}
	cfg.Transformers = []huma.Transformer{s.transformError}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "an API key, or the token of the server"},
		"key":   {Type: "apiKey", In: "header", Name: httpguard.KeyHeader, Description: "the same, as the E2B SDKs send it"},
	}
	cfg.Security = securityOf(string(auth.Read))
	return cfg
}

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// decode decodes JSON. Bodies of requests, which are structs, are decoded strictly.
func decode(data []byte, v any) error {
	if t := reflect.TypeOf(v); t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		return driver.DecodeStrict(data, v)
	}
	return json.Unmarshal(data, v)
}

// ServeHTTP authenticates and routes one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer httplog.Recover(w, r, s.log, s.writeError)
	s.register()
	r, err := s.checkRequest(r)
	if err != nil {
		closeAfterAnswer(w)
		s.writeError(w, r, err)
		return
	}
	p, _ := auth.From(r.Context())
	end, err := s.cfg.Guard.Open.Begin(p.Tenant, false)
	if err != nil && r.Method == http.MethodDelete {
		end, err = func() {}, nil // it ends something
	}
	if err != nil {
		closeAfterAnswer(w)
		s.writeError(w, r, err)
		return
	}
	defer end()
	r, stop := s.cfg.Guard.Keep(r)
	defer stop()
	r, answered := watchBody(w, r, s.bodyTimeout)
	defer answered()
	h, pattern := s.mux.Handler(r)
	httplog.SetRoute(r.Context(), pattern)
	if pattern == "" || !isCleanPath(r.URL.EscapedPath()) { // http.ServeMux would redirect
		s.answerUnmatched(w, r, h)
		return
	}
	size := s.bufferedSize(r, pattern)
	if err := s.cfg.Guard.Bodies.Hold(p.Tenant, size); err != nil {
		closeAfterAnswer(w)
		s.writeError(w, r, err)
		return
	}
	defer s.cfg.Guard.Bodies.Release(p.Tenant, size)
	if s.cfg.Forward != nil {
		answered, err := s.cfg.Forward(w, r, pattern)
		if err != nil {
			s.refuseForward(w, r, pattern, err)
		}
		if answered || err != nil {
			return
		}
	}
	s.serveRoute(w, r, pattern)
}

// refuseForward answers a request that could not be forwarded. The replica that owns the
// workspace emits the audit event of those that could.
func (s *Server) refuseForward(w http.ResponseWriter, r *http.Request, pattern string, err error) {
	if scope := s.scopes[pattern]; scope != "" && scope != string(auth.Read) {
		s.auditCall(r, pattern, "", fault.Of(err).Status())
	}
	closeAfterAnswer(w)
	s.writeError(w, r, err)
}

// bufferedSize returns how many bytes of the body of a request will be in memory: all of them,
// whatever its header says that they are, unless the route streams them. A body without a length
// has the maximum.
func (s *Server) bufferedSize(r *http.Request, pattern string) int64 {
	if s.streamed[pattern] || r.ContentLength == 0 {
		return 0
	}
	if r.ContentLength < 0 {
		return s.cfg.MaxBody
	}
	return min(r.ContentLength, s.cfg.MaxBody)
}

// op describes a route. Every route documents the same error schema.
func (s *Server) op(method, path, id, summary string) huma.Operation {
	schemas := s.api.OpenAPI().Components.Schemas
	problem := schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	scope := auth.Run
	if method == http.MethodGet {
		scope = auth.Read
	}
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Security: securityOf(string(scope)),
		MaxBodyBytes:     s.cfg.MaxBody,
		BodyReadTimeout:  -1,   // a deadline would stay on the connection, and end a request that takes longer
		SkipValidateBody: true, // decode is stricter, and its errors say what is allowed
		Responses: map[string]*huma.Response{"default": {
			Description: "An error; the status follows from its code",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: problem}},
		}},
	}
}
