package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const teamPolicies = `
version: 1
server: {providers: [memory]}
defaults: {provider: memory, policy: small}
policies:
  small: {limits: {memory: {max: 512M, bestEffort: true}, cpu: {max: 1, bestEffort: true}}}
  firm: {limits: {memory: 256M}}
  bare: {}
tenantDefaults: {policies: [small]}
tenants:
  trusted: {policies: [small, bare]}
  firm: {policies: [firm]}
`

func openTeams(t *testing.T) *Rules {
	t.Helper()
	settings, err := config.Parse([]byte(teamPolicies))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := New(t.Context(), Options{
		Settings: func() *config.Config { return settings }, Mux: workspace.NewMux(new(memory.Provider)), CheckDataDir: func() error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestPoliciesOfATenant: a tenant names its own policies alone, and has the first of them without a
// name. It does not reach another one by a change of a workspace's policy, either.
func TestPoliciesOfATenant(t *testing.T) {
	rules := openTeams(t)
	for _, tt := range []struct {
		tenant, policy string
		refused        bool
		memory         int64
	}{
		{"other", "", false, 512 << 20},
		{"other", "small", false, 512 << 20},
		{"other", "bare", true, 0},
		{"other", "firm", true, 0},
		{"trusted", "", false, 512 << 20},
		{"trusted", "bare", false, 0},
		{"trusted", "firm", true, 0},
		{"firm", "small", true, 0},
		{"", "bare", false, 0},
	} {
		ctx := auth.With(t.Context(), auth.Principal{Tenant: tt.tenant, Scope: auth.Run})
		spec := driver.Spec{Policy: driver.Policy{Network: driver.Network{}}}
		err := rules.AdmitSpec(ctx, &spec, tt.policy)
		if refused := fault.Of(err) == fault.PermissionDenied; refused != tt.refused || err != nil && !refused {
			t.Errorf("%s names %q: %v, want refused %v", tt.tenant, tt.policy, err, tt.refused)
		} else if got := spec.Policy.Limits[driver.ResourceMemory].Max; !refused && got != tt.memory {
			t.Errorf("%s names %q: %d bytes of memory, want %d", tt.tenant, tt.policy, got, tt.memory)
		}
	}
	small := driver.Policy{Limits: driver.Limits{driver.ResourceMemory: {Max: 1 << 20}}}
	change := func(tenant string) error {
		ctx := auth.With(t.Context(), auth.Principal{Tenant: tenant, Scope: auth.Run})
		return rules.AdmitPolicy(ctx, "", small, &driver.Policy{})
	}
	if err := change("trusted"); err != nil {
		t.Errorf("a change to a policy of the tenant: %v", err)
	}
	if err := change("other"); fault.Of(err) != fault.PermissionDenied {
		t.Errorf("a change to a policy of others: %v, want PermissionDenied", err)
	}
}

// TestLimitsOfATemplate: a template of E2B's API that asks for a size gets at most that of the policy, as
// the policy enforces it.
func TestLimitsOfATemplate(t *testing.T) {
	rules := openTeams(t)
	for _, tt := range []struct {
		tenant      string
		asked, want driver.Limits
	}{
		{"small", driver.Limits{driver.ResourceMemory: {Max: 256 << 20, BestEffort: true}}, driver.Limits{driver.ResourceMemory: {Max: 256 << 20, BestEffort: true}}},
		{"small", driver.Limits{driver.ResourceMemory: {Max: 8 << 30, BestEffort: true}, driver.ResourceCPU: {Max: 8000, BestEffort: true}}, driver.Limits{driver.ResourceMemory: {Max: 512 << 20, BestEffort: true}, driver.ResourceCPU: {Max: 1000, BestEffort: true}}},
		{"firm", driver.Limits{driver.ResourceMemory: {Max: 256 << 20, BestEffort: true}}, driver.Limits{driver.ResourceMemory: {Max: 256 << 20}}},
		{"firm", driver.Limits{driver.ResourceMemory: {Max: 8 << 30, BestEffort: true}}, driver.Limits{driver.ResourceMemory: {Max: 256 << 20}}},
		{"firm", driver.Limits{driver.ResourceCPU: {Max: 8000, BestEffort: true}}, driver.Limits{driver.ResourceCPU: {Max: 8000, BestEffort: true}}},
	} {
		ctx := auth.With(t.Context(), auth.Principal{Tenant: tt.tenant, Scope: auth.Run})
		p := driver.Policy{Limits: tt.asked}
		if err := rules.fitLimits(ctx, &p); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, p.Limits); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tt.tenant, diff)
		}
	}
}
