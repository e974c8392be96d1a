package rest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/tool/profile"
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

type none struct{}

func (s *Server) routes() {
	s.controlRoutes()
	s.contentRoutes()
	s.treeRoutes()
	s.searchRoutes()
	s.shellRoutes()
	s.sessionRoutes()
	s.codeRoutes()
	s.memoryRoutes()
	s.snapshotRoutes()
	s.templateRoutes()
	s.storeRoutes()
	s.eventRoutes()
	s.doctorRoutes()
	health := s.op(http.MethodGet, healthPath, "health", "Whether the server is up; needs no token")
	health.Security = []map[string][]string{}
	handle(s, health, func(context.Context, *none) (*body[Health], error) { return &body[Health]{Health{OK: true}}, nil })
}

// Health is the answer of /healthz.
type Health struct {
	OK bool `json:"ok"`
}

func (s *Server) controlRoutes() {
	const all, one = "/v1/workspaces", "/v1/workspaces/{id}"
	handle(s, s.op(http.MethodGet, "/v1/version", "version", "What answers"), s.version)
	handle(s, s.op(http.MethodGet, "/v1/providers", "list-providers", "Providers, and what this host gives them"), s.providers)
	handle(s, s.op(http.MethodGet, all, "list-workspaces", "Workspaces, by label, state, kind, owner"), s.list)
	handle(s, s.op(http.MethodPost, all, "open-workspace", "Open a workspace; with an id, idempotent on it"), s.open)
	onRecord(s, s.op(http.MethodGet, one, "show-workspace", "One workspace"), s.show)
	onRecord(s, s.op(http.MethodPatch, one, "change-workspace", "Change labels or policy"), s.change)
	onRecord(s, s.op(http.MethodDelete, one, "destroy-workspace", "End a workspace and remove all that belongs to it"), s.destroy)
	onRecord(s, s.op(http.MethodPost, one+"/acquire", "acquire-workspace", "Open it if need be, and say what it gives"), s.acquireRoute)
	onRecord(s, s.op(http.MethodGet, one+"/describe", "describe-workspace", "What an operator wants to know"), s.describe)
	onRecord(s, s.op(http.MethodPost, one+"/reset", "reset-workspace", "Let a failed workspace be tried again"), s.reset)
	onRecord(s, s.op(http.MethodPost, one+"/pause", "pause-workspace", "Stop its processes and free what they hold"), s.moved(s.cfg.Registry.Pause))
	onRecord(s, s.op(http.MethodPost, one+"/resume", "resume-workspace", "Go on where it was paused"), s.moved(s.cfg.Registry.Resume))
	onWorkspace(s, s.op(http.MethodGet, one+"/profile", "profile-workspace", "The projects in it, and their commands"), s.profile)
}

// handle registers a route whose errors become problems.
func handle[I, O any](s *Server, op huma.Operation, f func(context.Context, *I) (*O, error)) {
	info := requestInfo{op.Method, op.Path}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if err != nil {
			return nil, s.problem(info, err)
		}
		return out, nil
	})
}

// onRecord is handle for a route that takes the record of a workspace.
func onRecord[I any, P targeted[I], O any](s *Server, op huma.Operation, f func(context.Context, registry.Record, *I) (*O, error)) {
	handle(s, op, func(ctx context.Context, in *I) (*O, error) {
		r, err := s.lookup(ctx, P(in).target())
		if err != nil {
			return nil, err
		}
		return f(ctx, r, in)
	})
}

// onWorkspace is handle for a route that takes the live handle of a workspace.
func onWorkspace[I any, P targeted[I], O any](s *Server, op huma.Operation, f func(context.Context, *workspace.Workspace, *I) (*O, error)) {
	handle(s, op, func(ctx context.Context, in *I) (*O, error) {
		ws, err := s.workspace(ctx, P(in).target())
		if err != nil {
			return nil, err
		}
		return f(ctx, ws, in)
	})
}

func (s *Server) version(context.Context, *none) (*body[Version], error) {
	return &body[Version]{Version{Version: s.cfg.Version, API: "v1"}}, nil
}

func (s *Server) providers(ctx context.Context, _ *none) (*body[Providers], error) {
	out := Providers{Providers: []Provider{}}
	for _, kind := range s.cfg.Mux.Kinds() {
		p, err := s.cfg.Mux.Provider(kind)
		if err != nil {
			return nil, err
		}
		row := Provider{Kind: kind}
		if traits, err := p.Probe(ctx); err != nil {
			wire := fault.Encode(err)
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
}

func (s *Server) list(ctx context.Context, in *listInput) (*body[Workspaces], error) {
	labels, err := parseLabels(in.Labels)
	if err != nil {
		return nil, err
	}
	filter := registry.Filter{Owner: in.Owner, Kind: in.Kind, Labels: labels}
	if in.State != "" {
		if !slices.Contains(registry.States(), registry.State(in.State)) {
			return nil, refused("state", "%q is none of %v", in.State, registry.States())
		}
		filter.States = []registry.State{registry.State(in.State)}
	}
	records, err := s.cfg.Registry.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	// Records may have a kind that this server no longer knows.
	if kinds := s.cfg.Mux.Kinds(); len(records) == 0 && in.Kind != "" && !slices.Contains(kinds, in.Kind) {
		return nil, refused("kind", "%q is none of %v", in.Kind, kinds)
	}
	out := Workspaces{Workspaces: make([]Workspace, 0, len(records))}
	for _, r := range records {
		out.Workspaces = append(out.Workspaces, view(r))
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
			return nil, refused("label", "%q is not K=V", pair)
		}
		labels[k] = v
	}
	return labels, nil
}

type openInput struct {
	Policy string `query:"policy" doc:"name of a policy of the server's configuration; what the body says of the policy changes it; empty is the default one"`
	Body   driver.Spec
}

// open makes a workspace and opens it, so that what can't be had is refused now
// and leaves nothing. With an id it is idempotent: the workspace that exists is
// brought to the policy given.
func (s *Server) open(ctx context.Context, in *openInput) (*body[Workspace], error) {
	if err := s.admit(ctx, in); err != nil {
		return nil, err
	}
	r, err := s.cfg.Registry.Create(ctx, in.Body)
	if fault.Of(err) == fault.AlreadyExists && in.Body.ID != "" {
		if r, lookErr := s.cfg.Registry.Lookup(ctx, in.Body.Session.User, in.Body.ID); lookErr == nil {
			return s.reopen(ctx, r, in.Body)
		}
	}
	if err != nil {
		return nil, err
	}
	out, err := s.acquired(ctx, r.ID)
	if err != nil {
		s.giveUp(ctx, r.ID)
		return nil, err
	}
	return out, nil
}

func (s *Server) admit(ctx context.Context, in *openInput) error {
	if s.cfg.Admit != nil {
		return s.cfg.Admit(ctx, &in.Body, in.Policy)
	}
	if in.Policy != "" {
		return refused("policy", "this server has no policies by name")
	}
	return nil
}

// giveUp removes the record of a workspace whose first open failed: whoever
// asked was told so, and has no id to remove it by.
func (s *Server) giveUp(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.cfg.Registry.Destroy(ctx, id); err != nil {
		s.log.Warn("remove a workspace that did not open", "workspace", id, "error", err)
	}
}

func (s *Server) reopen(ctx context.Context, r registry.Record, spec driver.Spec) (*body[Workspace], error) {
	if r.Kind != spec.Kind {
		return nil, fmt.Errorf("workspace %s: %w: it exists with kind %q", r.ID, fault.AlreadyExists, r.Kind)
	}
	out, err := s.acquired(ctx, r.ID)
	if err != nil || r.Spec.Policy.Equal(spec.Policy) {
		return out, err
	}
	if _, err := s.cfg.Registry.Update(ctx, r.ID, spec.Policy); err != nil {
		return nil, err
	}
	return s.acquired(ctx, r.ID)
}

func (s *Server) show(_ context.Context, r registry.Record, _ *Target) (*body[Workspace], error) {
	return &body[Workspace]{view(r)}, nil
}

type changeInput struct {
	Target
	Body Change
}

func (s *Server) change(ctx context.Context, r registry.Record, in *changeInput) (*body[Workspace], error) {
	if in.Body.Labels == nil && in.Body.Policy == nil {
		return nil, fmt.Errorf("change workspace %s: %w: give labels, policy or both", in.ID, fault.InvalidArgument)
	}
	if in.Body.Policy != nil && s.cfg.AdmitPolicy != nil {
		if err := s.cfg.AdmitPolicy(ctx, r.ID, *in.Body.Policy); err != nil {
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
	return &body[Workspace]{view(r)}, nil
}

func (s *Server) destroy(ctx context.Context, r registry.Record, _ *Target) (*none, error) {
	s.forget(r.ID)
	return nil, s.cfg.Registry.Destroy(ctx, r.ID)
}

func (s *Server) acquireRoute(ctx context.Context, r registry.Record, _ *Target) (*body[Workspace], error) {
	return s.acquired(ctx, r.ID)
}

// acquired opens a workspace if need be and answers with all that is known of it.
func (s *Server) acquired(ctx context.Context, id string) (*body[Workspace], error) {
	ws, err := s.acquire(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := s.cfg.Registry.Lookup(ctx, "", id)
	if err != nil {
		return nil, err
	}
	out := view(r)
	traits := ws.Traits()
	out.Traits, out.Capabilities, out.Functions, out.Revision = &traits, ws.Capabilities(), ws.Functions(), ws.Ref().Revision
	out.Languages, out.ScriptLanguages = ws.Languages(), ws.ScriptLanguages()
	return &body[Workspace]{out}, nil
}

func (s *Server) reset(ctx context.Context, r registry.Record, _ *Target) (*body[Workspace], error) {
	r, err := s.cfg.Registry.Reset(ctx, r.ID)
	return &body[Workspace]{view(r)}, err
}

// moved is the route that moves a workspace to another state.
func (s *Server) moved(move func(context.Context, string) error) func(context.Context, registry.Record, *Target) (*body[Workspace], error) {
	return func(ctx context.Context, r registry.Record, _ *Target) (*body[Workspace], error) {
		if err := move(ctx, r.ID); err != nil {
			return nil, err
		}
		r, err := s.lookup(ctx, Target{ID: r.ID})
		return &body[Workspace]{view(r)}, err
	}
}

func (s *Server) describe(ctx context.Context, r registry.Record, _ *Target) (*body[Description], error) {
	d, err := s.cfg.Registry.Describe(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	out := Description{Workspace: view(d.Record), Live: d.Live, Moves: []string{}, Pending: d.Pending}
	for _, m := range d.Moves {
		out.Moves = append(out.Moves, string(m))
	}
	out.Traits = d.Traits
	for _, h := range d.Holders {
		out.Holders = append(out.Holders, Holder{Host: h.Host, PID: h.PID, Died: h.Died(), Expires: h.Expires})
	}
	return &body[Description]{out}, nil
}

func (s *Server) profile(_ context.Context, ws *workspace.Workspace, _ *Target) (*body[profile.Profile], error) {
	return reply(s.detect(ws, ""))
}

// lookup finds the record of a workspace.
func (s *Server) lookup(ctx context.Context, t Target) (registry.Record, error) {
	r, err := s.cfg.Registry.Lookup(ctx, t.Owner, t.ID)
	return r, gone(err)
}

// workspace returns the live handle of a workspace. An id needs no looking up.
func (s *Server) workspace(ctx context.Context, t Target) (*workspace.Workspace, error) {
	if driver.ValidID(t.ID) && t.Owner == "" {
		ws, err := s.acquire(ctx, t.ID)
		return ws, gone(err)
	}
	r, err := s.lookup(ctx, t)
	if err != nil {
		return nil, err
	}
	ws, err := s.acquire(ctx, r.ID)
	return ws, gone(err)
}

// acquire returns a live handle. The error for a workspace in place whose directory
// was moved says where that was, and what helps: its provider knows no more than
// the ref, which it does not echo.
func (s *Server) acquire(ctx context.Context, id string) (*workspace.Workspace, error) {
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
	return nil, fmt.Errorf("%w: the directory %s is not where it was, or is another one: put it back, and then use croft ws reset %s", err, r.Spec.Dir, name)
}

// gone marks the error for a workspace that is not there, so that a client can
// tell it from a missing file.
func gone(err error) error {
	if fault.Of(err) == fault.NotFound {
		return fault.WithCause(err, fault.CauseGone)
	}
	return err
}
