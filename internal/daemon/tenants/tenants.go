// Package tenants knows the tenants of a server: to which one a workspace belongs, and the quotas and
// secrets that the configuration gives to each.
package tenants

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// Tenants are the tenants of a server. Records is nil until the store is open.
type Tenants struct {
	Settings func() *config.Config
	Records  registry.Store

	// A workspace never changes its tenant, and its events may come after its record is gone.
	mu   sync.Mutex
	byID map[string]string // guarded by mu; tenants of workspaces
}

// maxKnown bounds the workspaces whose tenants are kept.
const maxKnown = 100_000

// Remember keeps the tenant of a workspace.
func (t *Tenants) Remember(workspace, tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil || len(t.byID) >= maxKnown {
		t.byID = map[string]string{}
	}
	t.byID[workspace] = tenant
}

// Of returns the tenant of a workspace, by its id; false if there is no such workspace.
func (t *Tenants) Of(ctx context.Context, workspace string) (string, bool) {
	t.mu.Lock()
	tenant, ok := t.byID[workspace]
	t.mu.Unlock()
	if ok {
		return tenant, true
	}
	if t.Records == nil || !driver.ValidID(workspace) {
		return "", false
	}
	rec, err := t.Records.Get(ctx, workspace)
	if err != nil {
		return "", false
	}
	t.Remember(workspace, rec.Tenant)
	return rec.Tenant, true
}

// OfEvent returns Of for the event stream, which has no context.
func (t *Tenants) OfEvent(ctx context.Context) func(workspace string) string {
	ctx = auth.Without(context.WithoutCancel(ctx))
	return func(workspace string) string {
		tenant, _ := t.Of(ctx, workspace)
		return tenant
	}
}

// Names lists the tenants of the configuration.
func (t *Tenants) Names() []string { return slices.Collect(maps.Keys(t.Settings().Tenants)) }

// Quota returns the quota of a tenant for the registry.
func (t *Tenants) Quota(tenant string) registry.Quota {
	c := t.Settings().Tenant(tenant)
	q := registry.Quota{Workspaces: int(c.MaxWorkspaces), Limits: map[driver.Resource]int64{
		driver.ResourceCPU: int64(c.CPUs), driver.ResourceMemory: int64(c.Memory), driver.ResourceDisk: int64(c.Disk),
	}}
	maps.DeleteFunc(q.Limits, func(_ driver.Resource, most int64) bool { return most == 0 })
	return q
}

// Quotas returns a tenant with its quotas, for the API.
func (t *Tenants) Quotas(tenant string) client.Tenant {
	c, most := t.Settings().Tenant(tenant), func(n float64) client.Quota { return client.Quota{Max: n} }
	return client.Tenant{
		Tenant: tenant, Workspaces: most(float64(c.MaxWorkspaces)), CPU: most(float64(c.CPUs) / 1000), Memory: most(float64(c.Memory)),
		Disk: most(float64(c.Disk)), Connections: most(float64(c.MaxConnections)), RequestsPerSecond: most(float64(c.RequestsPerSecond)),
	}
}

// RequestRate returns the requests per second of a tenant; 0 is no limit.
func (t *Tenants) RequestRate(tenant string) float64 {
	return float64(t.limits(tenant).RequestsPerSecond)
}

// MaxConnections returns how many requests a tenant may have open; 0 is no limit.
func (t *Tenants) MaxConnections(tenant string) int { return int(t.limits(tenant).MaxConnections) }

// limits returns the settings of a tenant; those of the operator, "", limit nothing.
func (t *Tenants) limits(tenant string) config.Tenant {
	if tenant == "" {
		return config.Tenant{}
	}
	return t.Settings().Tenant(tenant)
}

const scope = "tenant/"

// Scope is the name under which the secret store has the secrets of a tenant, for a workspace that
// does not exist yet.
func Scope(tenant string) string { return scope + tenant }

// SecretsOf returns the secrets of a workspace of a tenant, by its id or by [Scope]; false if it has no
// tenant. None of the shared secrets is among them.
func (t *Tenants) SecretsOf(ctx context.Context, workspace string) (secret.Set, bool) {
	tenant, ok := strings.CutPrefix(workspace, scope)
	if !ok {
		if tenant, _ = t.Of(ctx, workspace); tenant == "" {
			return secret.Set{}, false
		}
	}
	set := t.Settings().Tenant(tenant).Secrets
	return secret.Set{Prefix: set.Env, Dir: set.Dir, Alone: true}, true
}
