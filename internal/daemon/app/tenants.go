package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/server/rest"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// tenantCache has the tenants of workspaces by id. A workspace never changes its tenant, and its
// events may come after its record is gone.
type tenantCache struct {
	mu   sync.Mutex
	byID map[string]string // guarded by mu
}

// maxTenantCache bounds the entries of a tenantCache.
const maxTenantCache = 100_000

func (c *tenantCache) get(workspace string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tenant, ok := c.byID[workspace]
	return tenant, ok
}

func (c *tenantCache) put(workspace, tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil || len(c.byID) >= maxTenantCache {
		c.byID = map[string]string{}
	}
	c.byID[workspace] = tenant
}

// tenantOf returns the tenant of a workspace; false if there is no such workspace.
func (s *System) tenantOf(ctx context.Context, workspace string) (string, bool) {
	if tenant, ok := s.events.tenants.get(workspace); ok {
		return tenant, true
	}
	if s.store == nil || !driver.ValidID(workspace) {
		return "", false
	}
	rec, err := s.store.Get(ctx, workspace)
	if err != nil {
		return "", false
	}
	s.events.tenants.put(workspace, rec.Tenant)
	return rec.Tenant, true
}

// eventTenant is tenantOf for the event stream.
func (s *System) eventTenant(ctx context.Context) func(workspace string) string {
	ctx = auth.Without(context.WithoutCancel(ctx))
	return func(workspace string) string {
		tenant, _ := s.tenantOf(ctx, workspace)
		return tenant
	}
}

// quota returns the quota of a tenant for the registry.
func (s *System) quota(tenant string) registry.Quota {
	t := s.settings().Tenant(tenant)
	q := registry.Quota{Workspaces: int(t.MaxWorkspaces), Limits: map[driver.Resource]int64{
		driver.ResourceCPU: int64(t.CPUs), driver.ResourceMemory: int64(t.Memory), driver.ResourceDisk: int64(t.Disk),
	}}
	maps.DeleteFunc(q.Limits, func(_ driver.Resource, most int64) bool { return most == 0 })
	return q
}

// tenantNames lists the tenants of the configuration.
func (s *System) tenantNames() []string { return slices.Collect(maps.Keys(s.settings().Tenants)) }

// tenantQuota returns the quotas of a tenant for the API.
func (s *System) tenantQuota(tenant string) rest.TenantQuota {
	t := s.settings().Tenant(tenant)
	return rest.TenantQuota{
		Workspaces: int(t.MaxWorkspaces), CPU: int64(t.CPUs), Memory: int64(t.Memory), Disk: int64(t.Disk),
		Connections: int(t.MaxConnections), RequestsPerSecond: float64(t.RequestsPerSecond),
	}
}

// requestRate returns the requests per second of a tenant; 0 is no limit.
func (s *System) requestRate(tenant string) float64 {
	if tenant == "" {
		return 0
	}
	return float64(s.settings().Tenant(tenant).RequestsPerSecond)
}

// maxConnections returns how many requests a tenant may have open; 0 is no limit.
func (s *System) maxConnections(tenant string) int {
	if tenant == "" {
		return 0
	}
	return int(s.settings().Tenant(tenant).MaxConnections)
}

// tenantScope begins the name under which the secret store has the secrets of a tenant, for a
// workspace that does not exist yet.
const tenantScope = "tenant/"

// tenantSecrets returns the secrets of a tenant's workspaces. None of the shared ones is among
// them.
func (s *System) tenantSecrets(tenant string) secret.Set {
	set := s.settings().Tenant(tenant).Secrets
	return secret.Set{Prefix: set.Env, Dir: set.Dir, Alone: true}
}

// tenantOptions are the options of providers that a client other than the operator may set:
// none of them names a file of the host.
var tenantOptions = []string{"at", "deterministic", "git", "image", "namespace", "throwaway"}

// checkHostAccess refuses what reaches the host's files, unless the operator asks for it.
func checkHostAccess(ctx context.Context, spec *driver.Spec) error {
	what := ""
	switch {
	case spec.Dir != "":
		what = "a directory of the host"
	case filepath.IsAbs(spec.From.Template) || spec.From.Live:
		what = "a directory of the host as template"
	}
	var options map[string]json.RawMessage
	if len(spec.Config) > 0 && json.Unmarshal(spec.Config, &options) == nil {
		for _, name := range slices.Sorted(maps.Keys(options)) {
			if !slices.Contains(tenantOptions, name) {
				what = fmt.Sprintf("the provider's option %.80q", name)
			}
		}
	}
	if what == "" {
		return nil
	}
	return auth.RequireOperator(ctx, "app: "+what)
}

// checkNetwork refuses a network beyond the public internet, such as the loopback of this host,
// unless the operator asks for it, or has policies that say what a workspace may reach.
func (s *System) checkNetwork(ctx context.Context, n driver.Network) error {
	if err := egress.Check(n); err != nil {
		return err
	}
	if p, ok := auth.From(ctx); !ok || p.Operator() || s.settings().HasCeilings() {
		return nil
	}
	what := ""
	if n.Open {
		what = "an open network"
	}
	for _, r := range n.Allow {
		if r.Private || !egress.IsPublic(r.Host) {
			what = fmt.Sprintf("the host %.80q", r.Host)
		}
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("app: network: %w: %s is not of the public internet alone; the operator can allow it in a policy (section policies of croft.yaml)", fault.PermissionDenied, what)
}

// checkSource refuses a snapshot that the context's principal does not see, or that only another
// node of the cluster can read.
func (s *System) checkSource(ctx context.Context, from driver.Source) error {
	p, ok := auth.From(ctx)
	isOperator := !ok || p.Operator()
	if !isOperator && (filepath.IsAbs(from.Template) || from.Live) {
		return auth.RequireOperator(ctx, "app: a directory of the host as template")
	}
	if from.Snapshot == "" || isOperator && s.node == "" {
		return nil
	}
	_, _, err := s.snapshots.Tree(ctx, from.Snapshot)
	return err
}

// Reload replaces the configuration, and drops cached API keys. Policies, quotas, defaults and
// sources of secrets take effect at once; the names of the returned sections are those that
// differ and need a restart.
func (s *System) Reload(ctx context.Context, settings *config.Config) (restart []string, err error) {
	forms, err := newSystemScrubber(settings)
	if err != nil {
		return nil, fmt.Errorf("app: reload: %w", err)
	}
	old := s.current.Swap(settings)
	s.scrub.replace(forms)
	s.guard.Keys.Flush()
	for _, part := range []struct {
		name     string
		old, now any
	}{
		{"data", old.Data, settings.Data}, {"server", old.Server, settings.Server}, {"store", old.Store, settings.Store}, {"cluster", old.Cluster, settings.Cluster},
		{"providers", old.Providers, settings.Providers}, {"hostRoots", old.HostRoots, settings.HostRoots}, {"skills", old.Skills, settings.Skills},
		{"env", old.Env, settings.Env}, {"commands", old.Commands, settings.Commands}, {"caps", old.Caps, settings.Caps},
		{"events", old.Events, settings.Events}, {"effects", old.Effects, settings.Effects}, {"secrets", old.Secrets, settings.Secrets},
		{"network.proxy", old.Network.Proxy, settings.Network.Proxy},
		{"credentials of policies", old.Credentials(), settings.Credentials()},
	} {
		if !reflect.DeepEqual(part.old, part.now) {
			restart = append(restart, part.name)
		}
	}
	s.log.InfoContext(ctx, "the configuration was read again", "restart", strings.Join(restart, ", "))
	return restart, nil
}

// auditSink receives the audit events of calls. A command on its own data directory is no
// client, and has none.
func (s *System) auditSink() event.Sink {
	if s.operator {
		return event.Discard
	}
	return s.events
}

// secretsOf returns the secrets of one workspace, by its id, or by its name if it has no owner
// and no tenant and is no fork of a bound MCP client: these choose names freely, and must not get
// the secrets of another workspace by a name.
func (s *System) secretsOf(ctx context.Context, workspace string) (secret.Set, bool) {
	if tenant, ok := strings.CutPrefix(workspace, tenantScope); ok {
		return s.tenantSecrets(tenant), true
	}
	if tenant, ok := s.tenantOf(ctx, workspace); ok && tenant != "" {
		return s.tenantSecrets(tenant), true
	}
	if len(s.settings().Secrets.Workspaces) == 0 {
		return secret.Set{}, false
	}
	set, ok := s.settings().SecretsOf(workspace)
	if !ok && s.Registry != nil {
		rec, err := s.Registry.Lookup(ctx, "", workspace)
		if fault.Of(err) == "" && rec.Owner == "" && rec.Name != "" && rec.Labels[forkOfLabel] == "" {
			set, ok = s.settings().SecretsOf(rec.Name)
		}
	}
	return secret.Set{Prefix: set.Env, Dir: set.Dir}, ok
}
