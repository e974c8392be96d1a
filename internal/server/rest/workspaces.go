package rest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/server/advice"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Target addresses a workspace; the inputs of its routes embed it.
type Target struct {
	ID    string `path:"id" doc:"id or name of the workspace"`
	Owner string `query:"owner" doc:"whose name it is, where a name is given"`
}

func (t Target) target() Target { return t }

// A targeted is the input of a route of one workspace.
type targeted[I any] interface {
	*I
	target() Target
}

type body[T any] struct{ Body T }

func reply[T any](v T, err error) (*body[T], error) { return &body[T]{v}, err }

// replyTo is reply for a pointer.
func replyTo[T any](v *T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{*v}, nil
}

type none struct{}

// The routes by what they are about. Each type has what the others have, too, of the server.
type (
	// workspaceRoutes answer for workspaces: their life, networks, metrics, tenants.
	workspaceRoutes struct{ *Server }
	// stagingRoutes answer for staging metadata and artifacts.
	stagingRoutes struct{ *Server }
	// snapshotRoutes answer for states: snapshots, forks, merges, the store and templates.
	snapshotRoutes struct{ *Server }
	// reviewRoutes answer for reviews of changes, and apply changes to this host.
	reviewRoutes struct{ *Server }
	// fileRoutes answer for files.
	fileRoutes struct{ *Server }
	// processRoutes answer for commands, sessions and code.
	processRoutes struct{ *Server }
	// eventRoutes answer with events.
	eventRoutes struct{ *Server }
)

// routes is a server, or one of the types above.
type routes interface{ server() *Server }

func (s *Server) server() *Server { return s }

func (s *Server) registerRoutes() {
	workspaceRoutes{s}.control()
	fileRoutes{s}.content()
	fileRoutes{s}.tree()
	fileRoutes{s}.search()
	processRoutes{s}.shell()
	processRoutes{s}.sessions()
	processRoutes{s}.code()
	stagingRoutes{s}.register()
	snapshotRoutes{s}.register()
	snapshotRoutes{s}.templates()
	snapshotRoutes{s}.store()
	eventRoutes{s}.register()
	handle(s, s.op(http.MethodGet, "/v1/doctor", "doctor", "What this host supports, tested by trying: levels of isolation, limits, network, copy-on-write"), s.diagnose)
	keyRoutes(s)
	shareRoutes(s)
	workspaceRoutes{s}.metrics()
	reviewRoutes{s}.register()
	evalRoutes(s)
	replicaRoutes(s)
	health := s.op(http.MethodGet, healthPath, "health", "Whether the server is up; needs no token")
	health.Security = []map[string][]string{}
	ready := s.op(http.MethodGet, readyPath, "ready", "Whether the server can do its work: 200, or 503")
	ready.Security = []map[string][]string{}
	handle(s, ready, s.showReady)
	handle(s, health, func(context.Context, *none) (*body[Health], error) { return &body[Health]{Health{OK: true}}, nil })
}

// Ready is the answer of /readyz. It needs no key, so the checks have no details: those are
// in the server's log.
type Ready struct {
	Ready  bool         `json:"ready"`
	Checks []ReadyCheck `json:"checks"`
}

// A ReadyCheck is one condition under which the server can do its work.
type ReadyCheck struct {
	Name     string `json:"name" doc:"database, provider, disk, replica, background, stuck-workspaces, or draining"`
	OK       bool   `json:"ok"`
	Advisory bool   `json:"advisory,omitempty" doc:"the server is ready without it"`
}

type readyAnswer struct {
	Status int
	Body   Ready
}

// showReady answers 503 while the server should get no requests.
func (s *Server) showReady(ctx context.Context, _ *none) (*readyAnswer, error) {
	s.mu.Lock()
	draining := s.draining || s.unready
	s.mu.Unlock()
	out := &readyAnswer{Status: http.StatusOK, Body: Ready{Ready: true, Checks: []ReadyCheck{{Name: "draining", OK: !draining}}}}
	if s.cfg.Ready != nil {
		out.Body.Checks = append(out.Body.Checks, s.cfg.Ready(ctx)...)
	}
	for _, check := range out.Body.Checks {
		if !check.OK && !check.Advisory {
			out.Status, out.Body.Ready = http.StatusServiceUnavailable, false
		}
	}
	return out, nil
}

// showMetrics answers with the metrics of all tenants together.
func (s *Server) showMetrics(w http.ResponseWriter, r *http.Request) {
	if p, _ := auth.From(r.Context()); p.Tenant != "" {
		s.writeError(w, r, fault.Advise(fmt.Errorf("metrics: %w: they show the whole server", fault.PermissionDenied),
			"use the server's token, or a key without a tenant"))
		return
	}
	s.cfg.Metrics.ServeHTTP(w, r)
}

// Health is the answer of /healthz.
type Health struct {
	OK bool `json:"ok"`
}

func (s workspaceRoutes) control() {
	const all, one = "/v1/workspaces", "/v1/workspaces/{id}"
	handle(s, shown(s.op(http.MethodGet, "/v1/version", "version", "What answers")), s.showVersion)
	handle(s, s.op(http.MethodGet, "/v1/providers", "list-providers", "Providers, and what this host supports"), s.listProviders)
	handle(s, shown(s.op(http.MethodGet, all, "list-workspaces", "Workspaces, by label, state, kind, owner")), s.listWorkspaces)
	handle(s, s.op(http.MethodPost, all, "open-workspace", "Open a workspace; with an id, idempotent on it"), s.openWorkspace)
	onRecord(s, shown(s.op(http.MethodGet, one, "show-workspace", "One workspace")), s.showWorkspace)
	onRecord(s, s.op(http.MethodPatch, one, "change-workspace", "Change labels or policy"), s.changeWorkspace)
	onRecord(s, s.op(http.MethodDelete, one, "destroy-workspace", "Destroy a workspace and all its files"), s.destroyWorkspace)
	// Reading a file opens its workspace, too.
	onRecord(s, withScope(s.op(http.MethodPost, one+"/acquire", "acquire-workspace", "Open a workspace if needed, and return its traits"), auth.Read), s.acquireRoute)
	onRecord(s, s.op(http.MethodGet, one+"/describe", "describe-workspace", "All details of a workspace, for operators"), s.describeWorkspace)
	onRecord(s, s.op(http.MethodPost, onePath+"/network", "change-network", "Add hosts to those that a workspace may reach, or remove some; the rest of its policy stays"), s.changeNetwork)
	onRecord(s, s.op(http.MethodPost, one+"/reset", "reset-workspace", "Let a failed workspace be opened again"), s.resetWorkspace)
	onRecord(s, s.op(http.MethodPost, one+"/pause", "pause-workspace", "Freeze the processes of a workspace; they use no CPU and keep their memory"), s.moveState(s.cfg.Registry.Pause))
	onRecord(s, s.op(http.MethodPost, one+"/resume", "resume-workspace", "Resume a paused workspace"), s.moveState(s.cfg.Registry.Resume))
	onWorkspace(s, shown(s.op(http.MethodGet, one+"/profile", "profile-workspace", "The projects in it, and their commands")), s.showProfile)
}

// A handler is the function of a route.
type handler[I, O any] func(context.Context, *I) (*O, error)

// handle registers a route whose errors become problems.
func handle[I, O any](r routes, op huma.Operation, f handler[I, O]) {
	s := r.server()
	info := requestInfo{op.Method, op.Path}
	pattern := op.Method + " " + op.Path
	s.scopes[pattern], s.streamed[pattern] = requiredScope(op), op.MaxBodyBytes == 0
	s.shown[pattern] = op.Metadata[shownKey] == true
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if err != nil {
			return nil, s.newProblem(ctx, info, err)
		}
		return out, nil
	})
}

// onRecord is handle for a route that takes the record of a workspace.
func onRecord[I any, P targeted[I], O any](s routes, op huma.Operation, f func(context.Context, registry.Record, *I) (*O, error)) {
	handle(s, op, forTarget[registry.Record, I, P](s.server().lookupRecord, f))
}

// with returns a function that gets what f needs of the server, or says that the server has none.
func with[T, I, O any](get func(context.Context) (T, error), f func(context.Context, T, *I) (*O, error)) handler[I, O] {
	return func(ctx context.Context, in *I) (*O, error) {
		v, err := get(ctx)
		if err != nil {
			return nil, err
		}
		return f(ctx, v, in)
	}
}

// forTarget returns a function that gets what f needs of the workspace that the input is for.
func forTarget[T, I any, P targeted[I], O any](
	get func(context.Context, Target) (T, error), f func(context.Context, T, *I) (*O, error),
) handler[I, O] {
	return func(ctx context.Context, in *I) (*O, error) {
		return with(func(ctx context.Context) (T, error) { return get(ctx, P(in).target()) }, f)(ctx, in)
	}
}

// onWorkspace is handle for a route that takes the live handle of a workspace.
func onWorkspace[I any, P targeted[I], O any](s routes, op huma.Operation, f func(context.Context, *workspace.Workspace, *I) (*O, error)) {
	handle(s, op, forTarget[*workspace.Workspace, I, P](s.server().liveWorkspace, f))
}

func (s *Server) showVersion(context.Context, *none) (*body[Version], error) {
	return &body[Version]{Version{Version: s.cfg.Version, API: "v1"}}, nil
}

func (s *Server) listProviders(ctx context.Context, _ *none) (*body[Providers], error) {
	out := Providers{Providers: []Provider{}}
	for _, kind := range s.cfg.Mux.Kinds() {
		if s.cfg.AdmitKind != nil && fault.Of(s.cfg.AdmitKind(kind)) == fault.PermissionDenied {
			continue
		}
		p, err := s.cfg.Mux.Provider(kind)
		if err != nil {
			return nil, err
		}
		row := Provider{Kind: kind}
		if traits, err := p.Probe(ctx); err != nil {
			wire := advice.Encode(err)
			row.Error = &wire
		} else {
			row.Traits = &traits
		}
		out.Providers = append(out.Providers, row)
	}
	return &body[Providers]{out}, nil
}

// Providers is the answer of /v1/providers.
type Providers struct {
	Providers []Provider `json:"providers"`
}

// Workspaces is the answer of GET /v1/workspaces.
type Workspaces struct {
	Workspaces []Workspace `json:"workspaces"`
}

type listInput struct {
	Labels []string `query:"label,explode" doc:"K=V; all of them must be there"`
	State  string   `query:"state"`
	Kind   string   `query:"kind"`
	Owner  string   `query:"owner" doc:"empty is any"`

	Metrics bool `query:"metrics" doc:"with what each uses now, where it is open and its provider measures it"`
}

func (s workspaceRoutes) listWorkspaces(ctx context.Context, in *listInput) (*body[Workspaces], error) {
	labels, err := parseLabels(in.Labels)
	if err != nil {
		return nil, err
	}
	filter := registry.Filter{Owner: in.Owner, Kind: in.Kind, Labels: labels}
	if in.State != "" {
		if !slices.Contains(registry.States(), registry.State(in.State)) {
			return nil, fault.Advise(badParameter("state", "%q is no state", in.State), "the states are %v", registry.States())
		}
		filter.States = []registry.State{registry.State(in.State)}
	}
	records, err := s.cfg.Registry.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	// Records may have a kind that this server no longer knows.
	if kinds := s.cfg.Mux.Kinds(); len(records) == 0 && in.Kind != "" && !slices.Contains(kinds, in.Kind) {
		return nil, fault.Advise(badParameter("kind", "%q is no kind of provider", in.Kind), "the kinds are %v", kinds)
	}
	out := Workspaces{Workspaces: make([]Workspace, 0, len(records))}
	for _, r := range records {
		row := s.cfg.shownView(ctx, r)
		row.Template = s.templateName(ctx, r)
		if in.Metrics {
			// One that is just closed, or that can't be measured, has none.
			if m, ok, err := s.measure(ctx, r); ok && err == nil {
				row.Metrics = &m
			}
		}
		out.Workspaces = append(out.Workspaces, row)
	}
	return &body[Workspaces]{out}, nil
}

func parseLabels(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	labels := map[string]string{}
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return nil, badParameter("label", "%q is not K=V", pair)
		}
		labels[k] = v
	}
	return labels, nil
}

type openInput struct {
	Policy string `query:"policy" doc:"name of a policy of the server's configuration; what the body says of the policy changes it; empty is the default one"`
	Body   driver.Spec
}

// openWorkspace creates and opens a workspace. If opening fails, its record is removed.
// With an id it is idempotent: an existing workspace gets the given policy.
func (s workspaceRoutes) openWorkspace(ctx context.Context, in *openInput) (*body[Workspace], error) {
	if err := s.admitSpec(ctx, in); err != nil {
		return nil, err
	}
	r, err := s.cfg.Registry.Create(ctx, in.Body)
	if fault.Of(err) == fault.AlreadyExists && in.Body.ID != "" {
		if r, lookErr := s.cfg.Registry.Lookup(ctx, in.Body.Session.User, in.Body.ID); lookErr == nil {
			return s.reopenWorkspace(ctx, r, in.Body)
		}
	}
	if err != nil {
		return nil, err
	}
	setTarget(ctx, r.ID)
	out, err := s.acquireAndShow(ctx, r.ID)
	if err != nil {
		s.removeUnopened(ctx, r.ID)
		return nil, err
	}
	return out, nil
}

func (s workspaceRoutes) admitSpec(ctx context.Context, in *openInput) error {
	if s.cfg.Admit != nil {
		return s.cfg.Admit(ctx, &in.Body, in.Policy)
	}
	if in.Policy != "" {
		return badParameter("policy", "this server has no policies by name")
	}
	return nil
}

// removeUnopened removes the record of a workspace whose first open failed: the client
// has no id to remove it by.
func (s workspaceRoutes) removeUnopened(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.cfg.Registry.Destroy(ctx, id); err != nil {
		s.log.Warn("remove a workspace that did not open", "workspace", id, "error", err)
	}
}

func (s workspaceRoutes) reopenWorkspace(ctx context.Context, r registry.Record, spec driver.Spec) (*body[Workspace], error) {
	if r.Kind != spec.Kind {
		return nil, fmt.Errorf("workspace %s: %w: it exists with kind %q", r.ID, fault.AlreadyExists, r.Kind)
	}
	out, err := s.acquireAndShow(ctx, r.ID)
	if err != nil || r.Spec.Policy.Equal(spec.Policy) {
		return out, err
	}
	if _, err := s.cfg.Registry.Update(ctx, r.ID, spec.Policy); err != nil {
		return nil, err
	}
	return s.acquireAndShow(ctx, r.ID)
}

func (s workspaceRoutes) showWorkspace(ctx context.Context, r registry.Record, _ *Target) (*body[Workspace], error) {
	out := s.cfg.shownView(ctx, r)
	out.Template = s.templateName(ctx, r)
	return &body[Workspace]{out}, nil
}

type changeInput struct {
	Target
	Body Change
}

func (s workspaceRoutes) changeWorkspace(ctx context.Context, r registry.Record, in *changeInput) (*body[Workspace], error) {
	if in.Body.Labels == nil && in.Body.Policy == nil {
		return nil, fault.Advise(fmt.Errorf("change workspace %s: %w", in.ID, fault.InvalidArgument), "give labels, policy or both")
	}
	if in.Body.Policy != nil && s.cfg.AdmitPolicy != nil {
		if err := s.cfg.AdmitPolicy(ctx, r.ID, r.Spec.Policy, in.Body.Policy); err != nil {
			return nil, err
		}
	}
	var err error
	if in.Body.Policy != nil {
		if r, err = s.cfg.Registry.Update(ctx, r.ID, *in.Body.Policy); err != nil {
			return nil, err
		}
	}
	if in.Body.Labels != nil {
		if r, err = s.cfg.Registry.SetLabels(ctx, r.ID, *in.Body.Labels); err != nil {
			return nil, err
		}
	}
	return &body[Workspace]{s.cfg.workspaceView(r)}, nil
}

func (s workspaceRoutes) destroyWorkspace(ctx context.Context, r registry.Record, _ *Target) (*none, error) {
	s.forgetProfile(r.ID)
	return nil, s.cfg.Registry.Destroy(ctx, r.ID)
}

func (s workspaceRoutes) acquireRoute(ctx context.Context, r registry.Record, _ *Target) (*body[Workspace], error) {
	return s.acquireAndShow(ctx, r.ID)
}

// acquireAndShow opens a workspace if needed and answers with its traits.
func (s workspaceRoutes) acquireAndShow(ctx context.Context, id string) (*body[Workspace], error) {
	ws, err := s.acquireWorkspace(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := s.cfg.Registry.Lookup(ctx, "", id)
	if err != nil {
		return nil, err
	}
	out := s.cfg.shownView(ctx, r)
	traits := ws.Traits()
	out.Traits, out.Capabilities, out.Functions, out.Revision = &traits, ws.Capabilities(), ws.Functions(), ws.Ref().Revision
	out.Languages, out.ScriptLanguages = ws.Languages(), ws.ScriptLanguages()
	return &body[Workspace]{out}, nil
}

func (s workspaceRoutes) resetWorkspace(ctx context.Context, r registry.Record, _ *Target) (*body[Workspace], error) {
	r, err := s.cfg.Registry.Reset(ctx, r.ID)
	return &body[Workspace]{s.cfg.workspaceView(r)}, err
}

// moveState returns the handler of a route that moves a workspace to another state.
func (s workspaceRoutes) moveState(move func(context.Context, string) error) func(context.Context, registry.Record, *Target) (*body[Workspace], error) {
	return func(ctx context.Context, r registry.Record, _ *Target) (*body[Workspace], error) {
		if err := move(ctx, r.ID); err != nil {
			return nil, err
		}
		r, err := s.lookupRecord(ctx, Target{ID: r.ID})
		return &body[Workspace]{s.cfg.workspaceView(r)}, err
	}
}

func (s workspaceRoutes) describeWorkspace(ctx context.Context, r registry.Record, _ *Target) (*body[Description], error) {
	d, err := s.cfg.Registry.Describe(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	out := Description{Workspace: s.cfg.workspaceView(d.Record), Live: d.Live, Moves: []string{}, Pending: d.Pending}
	for _, m := range d.Moves {
		out.Moves = append(out.Moves, string(m))
	}
	out.Traits = d.Traits
	for _, h := range d.Holders {
		out.Holders = append(out.Holders, Holder{Host: h.Host, PID: h.PID, Died: h.Died(), Expires: h.Expires})
	}
	return &body[Description]{out}, nil
}

func (s workspaceRoutes) showProfile(_ context.Context, ws *workspace.Workspace, _ *Target) (*body[profile.Profile], error) {
	return reply(s.detectProfile(ws, ""))
}

// lookupRecord finds the record of a workspace.
func (s *Server) lookupRecord(ctx context.Context, t Target) (registry.Record, error) {
	r, err := s.cfg.Registry.Lookup(ctx, t.Owner, t.ID)
	return r, markGone(err)
}

// liveWorkspace returns the live handle of a workspace. An id is not looked up first.
func (s *Server) liveWorkspace(ctx context.Context, t Target) (*workspace.Workspace, error) {
	if driver.ValidID(t.ID) && t.Owner == "" {
		ws, err := s.acquireWorkspace(ctx, t.ID)
		return ws, markGone(err)
	}
	r, err := s.lookupRecord(ctx, t)
	if err != nil {
		return nil, err
	}
	ws, err := s.acquireWorkspace(ctx, r.ID)
	return ws, markGone(err)
}

// acquireWorkspace returns a live handle. If the directory of a workspace in place was
// moved, the error names its old path and what to do; the provider's error does not.
func (s *Server) acquireWorkspace(ctx context.Context, id string) (*workspace.Workspace, error) {
	ws, err := s.cfg.Registry.Acquire(ctx, id)
	if fault.Of(err) != fault.Failed || fault.CauseOf(err) != fault.CauseGone {
		return ws, err
	}
	r, lookupErr := s.cfg.Registry.Lookup(ctx, "", id)
	if lookupErr != nil || r.Spec.Dir == "" {
		return nil, err
	}
	name := r.Name
	if name == "" {
		name = id
	}
	return nil, fault.WithHint(fmt.Errorf("%w: the directory %s was moved or replaced", err, r.Spec.Dir), fault.HintReset, name)
}

// markGone marks the error for a missing workspace, so that a client can distinguish it
// from a missing file.
func markGone(err error) error {
	if fault.Of(err) == fault.NotFound {
		return fault.WithCause(err, fault.CauseGone)
	}
	return err
}
