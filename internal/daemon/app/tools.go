package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/admission"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/internal/tool/snapshots"
	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	e2bprovider "github.com/croft-run/croft/provider/e2b"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/all"
	"github.com/croft-run/croft/tool/skill"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Tools returns the tools that need nothing but a workspace.
func Tools() []*tool.Tool { return slices.Concat(all.Coding(), all.Workspace()) }

// ToolEnv returns an Env with every tool, with the secrets and the audit stream of this
// system. Fields that cfg sets stay.
func (s *System) ToolEnv(cfg tool.Config) (*tool.Env, error) {
	cfg.Tools = append(Tools(), skill.Tools(skill.Options{
		Skills: &bootstrap.Skills{Roots: s.settings().Skills}, State: s.staging, Artifacts: s.artifactsOf,
	})...)
	cfg.Effects = all.Effects()
	for _, source := range all.Sources() {
		cfg.Sources = append(cfg.Sources, withNetwork(s.Registry, source))
	}
	cfg.Commands, cfg.Profiled = s.projectCommands, s.API.Profiled
	cfg.EffectTime, cfg.EffectWait = time.Duration(s.settings().Effects.Time), time.Duration(s.settings().Effects.Wait)
	if most := int(s.settings().Tools.MaxText); most > 0 && cfg.MaxText == 0 {
		cfg.MaxText = max(most, minMaxText)
	}
	if r, ok := cfg.Workspaces.(*registryWorkspaces); ok && cfg.Fork == nil {
		cfg.Fork = func(ctx context.Context, c *tool.Call, snapshot, name string) (string, error) {
			forkOf, err := c.ForkOf(ctx)
			if err != nil {
				return "", err
			}
			labels := map[string]string{}
			if forkOf != "" {
				labels[forkOfLabel] = forkOf
			}
			if r.temporary {
				labels[MCPLabel] = "true"
			}
			ws, err := s.Fork(ctx, c.Workspace.ID(), snapshot, name, labels)
			if err != nil {
				return "", err
			}
			return r.addForked(ws.ID(), name), nil
		}
	}
	if cfg.Around == nil {
		cfg.Around = snapshots.Around(s.checkpointLimits)
	}
	cfg.Records = s.records
	cfg.Secrets, cfg.Events, cfg.Log = s.secrets, s.events, s.log
	cfg.Withheld = s.withheldSecrets
	forms, err := s.settings().Secrets.Finder()
	if err != nil {
		return nil, err
	}
	cfg.Finders = append(cfg.Finders, forms)
	return tool.NewEnv(cfg)
}

// artifactsOf returns the artifacts of a workspace.
func (s *System) artifactsOf(workspace string) *stage.Artifacts {
	tenant, _ := s.tenants.Of(context.Background(), workspace) //nolint:forbidigo // a Stage is made once for all calls
	return s.artifacts.In(stage.WorkspacePrefix(tenant, workspace))
}

// minMaxText is the least value of tools.maxText.
const minMaxText = 1000

// withNetwork leaves out the tools of a source that reach beyond the workspace, if the
// policy of the workspace allows no network.
func withNetwork(records *registry.Registry, source tool.Source) tool.Source {
	return func(ws *workspace.Workspace) driver.ToolSource {
		tools := source(ws)
		rec, err := records.Lookup(context.Background(), "", ws.ID()) //nolint:forbidigo // a Source has no context
		if tools == nil || err != nil || !rec.Spec.Policy.Network.None() || ws.Traits().Network == driver.NetworkOpen {
			return tools
		}
		var out toolList
		for _, t := range tools.Tools() {
			if !t.OpenWorld {
				out = append(out, t)
			}
		}
		return out
	}
}

// toolList is a driver.ToolSource.
type toolList []driver.Tool

func (l toolList) Tools() []driver.Tool { return l }

// MCPLabel marks workspaces that end with the croft mcp or croft tool that opened them:
// those in directories, and forks. Discard removes those of a killed process.
const MCPLabel = "croft-mcp"

// forkOfLabel is on workspaces that an MCP client bound to one workspace forked; its value
// is the id of that one. Clients bound to it reach them, also after the server restarts.
const forkOfLabel = "croft-fork-of"

// withheldSecrets names the secrets that no tool may ask for, because they are credentials of
// the configuration or of the workspace's policy, or because Croft itself logs in with them.
func (s *System) withheldSecrets(ctx context.Context, id string) ([]string, error) {
	known := s.settings().Credentials()
	var names []string
	for name := range known {
		names = append(names, admission.SecretName(known, name))
	}
	rec, err := s.Registry.Lookup(ctx, "", id)
	if err != nil {
		return nil, err
	}
	for _, r := range rec.Spec.Policy.Network.Allow {
		if r.Credential != "" {
			names = append(names, admission.SecretName(known, r.Credential))
		}
	}
	return append(names, s.loginSecrets(rec)...), nil
}

// loginSecrets names the secrets with which Croft itself logs in: at a proxy, and at servers of
// E2B's API, also at that of a workspace.
func (s *System) loginSecrets(rec registry.Record) []string {
	names := []string{e2bprovider.DefaultKey}
	if name := s.settings().Network.Proxy.Secret; name != "" {
		names = append(names, name)
	}
	for name, p := range s.settings().Providers {
		if key, ok := p.Options["key"].(string); ok && cmp.Or(p.Kind, name) == e2bprovider.Kind {
			names = append(names, key)
		}
	}
	var own e2bprovider.Options
	if rec.Kind == e2bprovider.Kind && json.Unmarshal(rec.Spec.Config, &own) == nil && own.Key != "" {
		names = append(names, own.Key)
	}
	return names
}

// Create records a workspace, with the spec completed from the configuration; policy
// is the name of a policy, "" for the default one.
func (s *System) Create(ctx context.Context, spec workspace.Spec, policy string) (registry.Record, error) {
	if err := s.Rules.AdmitSpec(ctx, &spec, policy); err != nil {
		return registry.Record{}, err
	}
	return s.Registry.Create(ctx, spec)
}

// Fork opens a workspace with the spec of another one, from a snapshot of it.
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
		defer cancel()
		return nil, errors.Join(err, s.Registry.Destroy(ctx, rec.ID))
	}
	return ws, nil
}

// checkpointLimits returns the limits of checkpoints from the workspace's label, false
// without the label.
func (s *System) checkpointLimits(ctx context.Context, c *tool.Call) (history.Limits, bool) {
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

// newWorkspaceGrace is the age below which Discard keeps a workspace without a lease: the
// program that created it may not have acquired it yet.
const newWorkspaceGrace = time.Minute

// Discard destroys the workspaces that have the label and no lease: a program that was
// killed left them. Killed, unless it is nil, reports that before the lease has run out.
func (s *System) Discard(ctx context.Context, label string, killed func(registry.Record) bool) (ids []string, err error) {
	list, err := s.Registry.List(ctx, registry.Filter{Labels: map[string]string{label: "true"}})
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, rec := range list {
		over := killed != nil && killed(rec)
		if !over && time.Since(rec.CreatedAt) < newWorkspaceGrace || rec.Node != s.node {
			continue
		}
		if d, err := s.Registry.Describe(ctx, rec.ID); err == nil && (over || len(d.Holders) == 0) {
			if err := s.Registry.Destroy(ctx, rec.ID); err != nil && fault.Of(err) != fault.NotFound {
				errs = append(errs, err)
				continue
			}
			ids = append(ids, rec.ID)
		}
	}
	return ids, errors.Join(errs...)
}

// Workspaces returns the workspaces of this system for tools: by name, or by id if they
// have no unique name. With names, it returns only those, and forks end with this process.
func (s *System) Workspaces(names ...string) tool.Workspaces {
	return &registryWorkspaces{temporary: names != nil, registry: s.Registry, changes: &s.events.changes, only: names, admit: s.Rules.CheckKind}
}

// registryWorkspaces implements tool.Workspaces over a registry.
type registryWorkspaces struct {
	registry *registry.Registry
	changes  *atomic.Int64           // counts known changes of workspaces
	admit    func(kind string) error // refuses workspaces of a kind

	temporary bool // forks have MCPLabel

	mu   sync.Mutex
	only []string  // guarded by mu; names or ids; nil is all
	list listCache // guarded by mu; of all tenants

	forks []string // guarded by mu; ids of forks that tools made
}

// A listCache is the last answer of List.
type listCache struct {
	records []registry.Record // that tools may use, by name
	changes int64
	at      time.Time
}

// listCacheTTL is how long the cache is valid without changes in this process: other
// processes may share the registry.
const listCacheTTL = time.Second

// addForked makes a forked workspace visible and returns its name for agents.
func (r *registryWorkspaces) addForked(id, name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forks = append(r.forks, id)
	if r.only != nil {
		r.only = append(slices.Clone(r.only), id)
	}
	r.list = listCache{}
	if name == "" || tool.CheckName(name) != nil {
		return id
	}
	return name
}

// DestroyForks destroys the forks that tools made in workspaces of Workspaces.
func (s *System) DestroyForks(ctx context.Context, workspaces tool.Workspaces) error {
	r, ok := workspaces.(*registryWorkspaces)
	if !ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, id := range r.forks {
		if err := s.Registry.Destroy(ctx, id); err != nil && fault.Of(err) != fault.NotFound {
			errs = append(errs, err)
		}
	}
	r.forks = nil
	return errors.Join(errs...)
}

func (r *registryWorkspaces) List(ctx context.Context) ([]tool.Entry, error) {
	now := listCache{changes: r.changes.Load(), at: time.Now()}
	r.mu.Lock()
	known, only := r.list, r.only
	r.mu.Unlock()
	if known.changes != now.changes || now.at.Sub(known.at) >= listCacheTTL {
		var err error
		if now.records, err = r.registry.List(auth.Without(ctx), registry.Filter{}); err != nil {
			return nil, err
		}
		known = now
		r.mu.Lock()
		r.list = now
		r.mu.Unlock()
	}
	var entries []tool.Entry
	for _, rec := range known.records {
		if e, ok := r.toolEntry(ctx, rec, only); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b tool.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// Find looks one workspace up. A failed one that ctx may see is an error with the reason;
// after an outage it is tried again.
func (r *registryWorkspaces) Find(ctx context.Context, name string) (tool.Entry, error) {
	missing := fmt.Errorf("app: workspace %q: %w", name, fault.NotFound)
	if !driver.ValidID(name) && !driver.ValidWorkspaceName(name) {
		return tool.Entry{}, missing
	}
	rec, err := r.registry.Lookup(ctx, "", name)
	if err != nil {
		return tool.Entry{}, err
	}
	if rec.State == registry.Failed && auth.Sees(ctx, rec.Tenant) {
		if _, err := r.registry.Acquire(ctx, rec.ID); err != nil {
			return tool.Entry{}, err
		}
		if rec, err = r.registry.Lookup(ctx, "", rec.ID); err != nil {
			return tool.Entry{}, err
		}
	}
	r.mu.Lock()
	only := r.only
	r.mu.Unlock()
	if e, ok := r.toolEntry(ctx, rec, only); ok && (e.Name == name || e.ID == name) {
		return e, nil
	}
	return tool.Entry{}, missing
}

// toolEntry returns the entry of a workspace for agents; false if the workspace has ended, is
// another tenant's, is of a kind that is not admitted, or is not among only.
func (r *registryWorkspaces) toolEntry(ctx context.Context, rec registry.Record, only []string) (tool.Entry, bool) {
	e := tool.Entry{Name: toolName(ctx, rec), ID: rec.ID, ForkOf: rec.Labels[forkOfLabel], Capabilities: rec.Capabilities()}
	if !auth.Sees(ctx, rec.Tenant) || rec.State == registry.Failed || rec.State == registry.Destroyed || fault.Of(r.admit(rec.Kind)) == fault.PermissionDenied {
		return e, false
	}
	return e, only == nil || slices.Contains(only, e.Name) || slices.Contains(only, rec.ID)
}

// toolName returns the name of a workspace for agents. A workspace with an owner, or of another
// tenant, is named by its id, because two of them may use the same name.
func toolName(ctx context.Context, rec registry.Record) string {
	if rec.Name == "" || rec.Owner != "" || rec.Tenant != auth.Tenant(ctx) || tool.CheckName(rec.Name) != nil {
		return rec.ID
	}
	return rec.Name
}

func (r *registryWorkspaces) Get(ctx context.Context, name string) (*workspace.Workspace, error) {
	e, err := r.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return r.registry.Acquire(ctx, e.ID)
}

// RunningSessions lists the sessions that run in a workspace, also in one that no process has
// open. It opens and starts nothing; the sessions of a provider that can't do so are not listed.
func (s *System) RunningSessions(ctx context.Context, kind, id string) ([]driver.SessionInfo, error) {
	p, err := s.Mux.Provider(kind)
	if err != nil {
		return nil, err
	}
	if list := p.Features().RunningSessions; list != nil {
		return list(ctx, id)
	}
	return nil, nil
}
