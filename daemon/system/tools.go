package system

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/config"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/history"
	"github.com/croft-run/croft/mcpserver"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/tool/snapshots"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// ToolEnv returns an Env with every tool, with the secrets and the audit stream of
// this system. What cfg sets stays.
func (s *System) ToolEnv(cfg tool.Config) (*tool.Env, error) {
	cfg.Tools = slices.Concat(all.Coding(), all.Workspace(), s.skillTools())
	cfg.Effects, cfg.Sources = all.Effects(), all.Sources()
	if r, ok := cfg.Workspaces.(*recorded); ok && cfg.Fork == nil {
		cfg.Fork = func(ctx context.Context, c *tool.Call, snapshot, name string) (string, error) {
			ws, err := s.Fork(ctx, c.Workspace.ID(), snapshot, name, nil)
			if err != nil {
				return "", err
			}
			return r.adopt(ws.ID(), name), nil
		}
	}
	if _, ok := cfg.Workspaces.(*recorded); ok && cfg.Around == nil {
		cfg.Around = snapshots.Around(s.checkpoints)
	}
	cfg.Secrets, cfg.Events, cfg.Log = s.secrets, s.events, s.log
	cfg.Withheld = s.withheld
	forms, err := secretForms(s.settings)
	if err != nil {
		return nil, err
	}
	cfg.Finders = append(cfg.Finders, forms)
	return tool.NewEnv(cfg)
}

// withheld names the secrets that are credentials: of the configuration, and of
// what the workspace's own policy adds to requests.
func (s *System) withheld(ctx context.Context, id string) ([]string, error) {
	known := credentials(s.settings)
	var names []string
	for name := range known {
		names = append(names, secretOf(known, name))
	}
	rec, err := s.Registry.Lookup(ctx, "", id)
	if err != nil {
		return nil, err
	}
	for _, r := range rec.Spec.Policy.Network.Allow {
		if r.Credential != "" {
			names = append(names, secretOf(known, r.Credential))
		}
	}
	return names, nil
}

// secretForms finds secrets by what they look like: those of well-known services,
// and what the configuration says.
func secretForms(settings *config.Config) (*secret.Patterns, error) {
	list := secret.Providers()
	for _, name := range slices.Sorted(maps.Keys(settings.Secrets.Patterns)) {
		list = append(list, secret.Pattern{Name: name, Form: settings.Secrets.Patterns[name]})
	}
	return secret.NewPatterns(list)
}

// Create records the wish for a workspace, completed as the configuration says;
// policy is the name of one.
func (s *System) Create(ctx context.Context, spec workspace.Spec, policy string) (registry.Record, error) {
	if err := s.admit(ctx, &spec, policy); err != nil {
		return registry.Record{}, err
	}
	return s.Registry.Create(ctx, spec)
}

// Fork opens a workspace like another, which begins as a snapshot of it.
func (s *System) Fork(ctx context.Context, id, snapshot, name string, labels map[string]string) (*workspace.Workspace, error) {
	of, err := s.Registry.Lookup(ctx, "", id)
	if err != nil {
		return nil, err
	}
	rec, err := s.Registry.Fork(ctx, of, driver.Source{Snapshot: snapshot}, name, labels)
	if err != nil {
		return nil, err
	}
	ws, err := s.Registry.Acquire(ctx, rec.ID)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registryBound)
		defer cancel()
		return nil, errors.Join(err, s.Registry.Destroy(ctx, rec.ID))
	}
	return ws, nil
}

// checkpoints says whether calls in a workspace leave checkpoints: its label does.
func (s *System) checkpoints(ctx context.Context, c *tool.Call) (history.Limits, bool) {
	rec, err := s.Registry.Lookup(ctx, "", c.Workspace.ID())
	if err != nil || rec.Labels[history.LimitsLabel] == "" {
		return history.Limits{}, false
	}
	limits, err := history.ParseLimits(rec.Labels[history.LimitsLabel])
	if err != nil {
		s.log.Warn("checkpoints", "workspace", rec.ID, "error", err)
	}
	return limits, err == nil
}

// freshFor is how long a workspace that nobody holds may be between being
// recorded and being held.
const freshFor = time.Minute

// Discard destroys the workspaces with a label that nobody holds: what programs
// left that were killed.
func (s *System) Discard(ctx context.Context, label string) error {
	list, err := s.Registry.List(ctx, registry.Filter{Labels: map[string]string{label: "true"}})
	if err != nil {
		return err
	}
	var errs []error
	for _, rec := range list {
		if time.Since(rec.CreatedAt) < freshFor {
			continue
		}
		if d, err := s.Registry.Describe(ctx, rec.ID); err == nil && len(d.Holders) == 0 {
			if err := s.Registry.Destroy(ctx, rec.ID); err != nil && fault.Of(err) != fault.NotFound {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Workspaces returns the workspaces of this system for tools: by their names, or
// by their ids where they have none that is unique. With names, those alone.
func (s *System) Workspaces(names ...string) tool.Workspaces {
	return &recorded{registry: s.Registry, changes: &s.events.changes, only: names}
}

// recorded is the workspaces of a registry.
type recorded struct {
	registry *registry.Registry
	changes  *atomic.Int64 // counts what happens to workspaces in this process

	mu   sync.Mutex
	only []string // +checklocks:mu names or ids; nil is all
	list listing  // +checklocks:mu
}

// A listing is what List last answered.
type listing struct {
	entries []tool.Entry
	changes int64
	at      time.Time
}

// listedFor is how long a listing holds where nothing happened in this process:
// others may share the registry.
const listedFor = time.Second

// adopt makes a workspace visible and returns how agents call it.
func (r *recorded) adopt(id, name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.only != nil {
		r.only = append(slices.Clone(r.only), id)
	}
	r.list = listing{}
	if name == "" || tool.CheckName(name) != nil {
		return id
	}
	return name
}

func (r *recorded) List(ctx context.Context) ([]tool.Entry, error) {
	now := listing{changes: r.changes.Load(), at: time.Now()}
	r.mu.Lock()
	known, only := r.list, r.only
	r.mu.Unlock()
	if known.changes == now.changes && now.at.Sub(known.at) < listedFor {
		return slices.Clone(known.entries), nil
	}
	list, err := r.registry.List(ctx, registry.Filter{})
	if err != nil {
		return nil, err
	}
	for _, rec := range list {
		if e, ok := entryOf(rec, only); ok {
			now.entries = append(now.entries, e)
		}
	}
	slices.SortFunc(now.entries, func(a, b tool.Entry) int { return strings.Compare(a.Name, b.Name) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = now
	return slices.Clone(now.entries), nil
}

// Find looks one workspace up.
func (r *recorded) Find(ctx context.Context, name string) (tool.Entry, error) {
	missing := fmt.Errorf("system: workspace %q: %w", name, fault.NotFound)
	if !driver.ValidID(name) && !driver.ValidWorkspaceName(name) {
		return tool.Entry{}, missing
	}
	rec, err := r.registry.Lookup(ctx, "", name)
	if err != nil {
		return tool.Entry{}, err
	}
	r.mu.Lock()
	only := r.only
	r.mu.Unlock()
	if e, ok := entryOf(rec, only); ok && e.Name == name {
		return e, nil
	}
	return tool.Entry{}, missing
}

// entryOf is a record as agents see it, if they may.
func entryOf(rec registry.Record, only []string) (tool.Entry, bool) {
	e := tool.Entry{Name: nameOf(rec)}
	if rec.State == registry.Failed || rec.State == registry.Destroyed {
		return e, false
	}
	if rec.Ref != nil {
		e.Capabilities = rec.Ref.Capabilities
	}
	return e, only == nil || slices.Contains(only, e.Name) || slices.Contains(only, rec.ID)
}

// nameOf is how agents call a workspace. The names of owners may be equal.
func nameOf(rec registry.Record) string {
	if rec.Name == "" || rec.Owner != "" || tool.CheckName(rec.Name) != nil {
		return rec.ID
	}
	return rec.Name
}

func (r *recorded) Get(ctx context.Context, name string) (*workspace.Workspace, error) {
	rec, err := r.registry.Lookup(ctx, "", name)
	if err != nil {
		return nil, err
	}
	return r.registry.Acquire(ctx, rec.ID)
}

// agents is the MCP server over all workspaces. It is made when somebody first
// asks for it, because most programs never do.
type agents struct {
	system *System
	once   sync.Once
	err    error

	env    *tool.Env
	server *mcpserver.Server
	http   http.Handler
	sse    http.Handler
	events *event.Subscription
	wg     sync.WaitGroup
}

func (a *agents) make(ctx context.Context) error {
	a.once.Do(func() {
		if a.env, a.err = a.system.ToolEnv(tool.Config{
			Workspaces: a.system.Workspaces(), Readers: tool.ReadSession, SecretsOf: func(_, id string) string { return id },
		}); a.err != nil {
			return
		}
		a.server = mcpserver.New(ctx, mcpserver.Options{Env: a.env, Version: a.system.version, Log: a.system.log})
		a.http, a.sse = a.server.Handler(), a.server.SSEHandler()
		a.events = a.system.events.Subscribe(event.Filter{Kinds: []event.Kind{event.WorkspaceState}}, nil)
		ctx := context.WithoutCancel(ctx)
		a.wg.Go(func() { a.follow(ctx) })
	})
	return a.err
}

// follow tells clients of workspaces that come and go.
func (a *agents) follow(ctx context.Context) {
	for e := range a.events.C() {
		if e.Fields[event.FieldTo] == string(registry.Destroyed) {
			if err := a.env.Forget(ctx, e.Workspace); err != nil {
				a.system.log.Warn("forget what tools kept of a workspace", "workspace", e.Workspace, "error", err)
			}
		}
		if err := a.server.Refresh(ctx); err != nil {
			a.system.log.Warn("tell agents of workspaces", "error", err)
		}
	}
}

// handler serves one of the transports.
func (a *agents) handler(which func(*agents) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.make(r.Context()); err != nil {
			a.system.log.Error("serve agents", "error", err)
			http.Error(w, "the tools can't be had; the server's log says why", http.StatusInternalServerError)
			return
		}
		which(a).ServeHTTP(w, r)
	})
}

// mounts are the routes of agents.
func (a *agents) mounts() map[string]http.Handler {
	return map[string]http.Handler{
		mcpserver.Path:    a.handler(func(a *agents) http.Handler { return a.http }),
		mcpserver.SSEPath: a.handler(func(a *agents) http.Handler { return a.sse }),
	}
}

// drain ends connections and calls; no client is served afterwards.
func (a *agents) drain() {
	a.once.Do(func() { a.err = fault.Unavailable })
	if a.server != nil {
		a.server.Drain()
		a.server.Close()
	}
}

// close ends what tools keep.
func (a *agents) close(ctx context.Context) error {
	a.drain()
	if a.env == nil {
		return nil
	}
	if a.events != nil {
		a.events.Close()
	}
	a.wg.Wait()
	return a.env.Close(ctx)
}
