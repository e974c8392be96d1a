package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
)

// A Tenant is an entry of the section tenants. 0 is no quota.
type Tenant struct {
	MaxWorkspaces     Count     `json:"maxWorkspaces,omitempty" jsonschema:"workspaces that exist at the same time, in any state; 0 is no quota"`
	CPUs              CPUs      `json:"cpus,omitempty" jsonschema:"sum of the limits cpu of all workspaces; each then needs the limit; 0 is no quota"`
	Memory            Bytes     `json:"memory,omitempty" jsonschema:"sum of the limits memory of all workspaces; each then needs the limit; 0 is no quota"`
	Disk              Bytes     `json:"disk,omitempty" jsonschema:"sum of the limits disk of all workspaces; each then needs the limit; 0 is no quota"`
	RequestsPerSecond Count     `json:"requestsPerSecond,omitempty" jsonschema:"requests that begin in a second; 0 is no quota"`
	MaxConnections    Count     `json:"maxConnections,omitempty" jsonschema:"requests, streams and connections that are open at the same time; those to ports of programs count on their own; 0 is no quota"`
	Policies          []string  `json:"policies,omitempty" jsonschema:"policies that its requests may name; the first one is for requests that name none. Without a list they may name all of them"`
	Secrets           SecretSet `json:"secrets,omitzero" jsonschema:"secrets of the tenant's workspaces, which have none of the section secrets"`
}

// Tenant returns the quotas and secrets of a tenant, with the defaults.
func (c *Config) Tenant(name string) Tenant {
	t, d := c.Tenants[name], c.TenantDefaults
	policies := t.Policies
	if policies == nil {
		policies = d.Policies
	}
	return Tenant{
		MaxWorkspaces: cmp.Or(t.MaxWorkspaces, d.MaxWorkspaces), RequestsPerSecond: cmp.Or(t.RequestsPerSecond, d.RequestsPerSecond),
		MaxConnections: cmp.Or(t.MaxConnections, d.MaxConnections),
		CPUs:           cmp.Or(t.CPUs, d.CPUs), Memory: cmp.Or(t.Memory, d.Memory), Disk: cmp.Or(t.Disk, d.Disk), Secrets: t.Secrets,
		Policies: policies,
	}
}

// TenantPolicy returns the name of the policy for a request of a tenant, which names a policy or "". It
// refuses one that the tenant may not name. "" is no tenant: the server's own keys may name all.
func (c *Config) TenantPolicy(tenant, name string) (string, error) {
	if tenant == "" {
		return name, nil
	}
	list := c.Tenant(tenant).Policies
	switch {
	case len(list) == 0:
		return name, nil
	case name == "":
		return list[0], nil
	case !slices.Contains(list, name):
		return "", fmt.Errorf("config: policy %.80q: %w: the tenant %s may name %s (tenants.%s.policies of croft.yaml)", name, fault.PermissionDenied, tenant, strings.Join(list, ", "), tenant)
	}
	return name, nil
}

func (c *Config) checkPolicyNames(at string, names []string) error {
	for _, name := range names {
		if _, ok := c.Policies[name]; !ok {
			return c.keyError(at, "there is no policy %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(c.Policies)), ", "))
		}
	}
	if len(names) > 0 && !c.HasCeilings() {
		return c.keyError(at, "the file has no section policies, so nothing is a ceiling")
	}
	return nil
}

func (c *Config) checkTenants() error {
	if c.TenantDefaults.Secrets != (SecretSet{}) {
		return c.keyError("tenantDefaults.secrets", "secrets are those of one tenant: set tenants.NAME.secrets")
	}
	if err := c.checkPolicyNames("tenantDefaults.policies", c.TenantDefaults.Policies); err != nil {
		return err
	}
	prefixes := map[string]string{c.Secrets.Env: "secrets.env"}
	for name, set := range c.Secrets.Workspaces {
		prefixes[set.Env] = "secrets.workspaces." + name + ".env"
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		at, env := "tenants."+name, c.Tenants[name].Secrets.Env
		if err := auth.CheckTenant(name); err != nil {
			return c.keyError(at, "a tenant is [a-z0-9][a-z0-9-]{0,62}")
		}
		if err := c.checkPolicyNames(at+".policies", c.Tenants[name].Policies); err != nil {
			return err
		}
		if env == "" {
			continue
		}
		if !validVariable.MatchString(env) {
			return c.keyError(at+".secrets.env", "a prefix is the beginning of a variable: letters, digits and _")
		}
		for other, key := range prefixes {
			if other != "" && (strings.HasPrefix(env, other) || strings.HasPrefix(other, env)) {
				return c.keyError(at+".secrets.env", "%s and the prefix %s of %s overlap", env, other, key)
			}
		}
		prefixes[env] = at + ".secrets.env"
	}
	return nil
}
