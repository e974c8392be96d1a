package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Apply returns a policy by its name, "" for the default one, with the settings of wish.
// They override the policy as those of a policy that extends it: limits and env key by
// key, network.allow as a whole, and network.deny is added. A false flag of wish sets
// nothing.
func (c *Config) Apply(name string, wish driver.Policy) (driver.Policy, error) {
	p, err := c.Policy(name)
	if err != nil {
		return p, err
	}
	var mirrors map[string]string
	if wish.Network, mirrors, err = c.ExpandNetwork(wish.Network); err != nil {
		return p, err
	}
	if len(mirrors) > 0 {
		wish.Env = overlayMap(mirrors, wish.Env)
	}
	if wish.Isolation != "" {
		p.Isolation = wish.Isolation
	}
	if wish.Network.Open || len(wish.Network.Allow) > 0 {
		p.Network.Open, p.Network.Allow = wish.Network.Open, wish.Network.Allow
	}
	p.Network.Deny = append(p.Network.Deny, wish.Network.Deny...)
	if p.Network.Open && len(p.Network.Deny) > 0 {
		return p, fmt.Errorf("config: policy %.80q: open network: %w: the policy denies hosts, which an open network would let through", name, fault.InvalidArgument)
	}
	p.Limits = p.Limits.With(wish.Limits)
	if p.Env == nil {
		p.Env = wish.Env
	} else {
		maps.Copy(p.Env, wish.Env)
	}
	p.ReadOnly, p.Durable, p.Persist = p.ReadOnly || wish.ReadOnly, p.Durable || wish.Durable, p.Persist || wish.Persist
	p.ShareDisk = p.ShareDisk || wish.ShareDisk
	if wish.Idle != 0 {
		p.Idle = wish.Idle
	}
	return p, c.CheckEnv(p.Env)
}

// ApplyWithin is Apply for a client of a server: the policy of the name is a ceiling,
// which the wish may lower and not raise. Without the section policies there is none.
func (c *Config) ApplyWithin(name string, wish driver.Policy) (driver.Policy, error) {
	p, err := c.Apply(name, wish)
	if err != nil || !c.HasCeilings() {
		return p, err
	}
	ceiling, err := c.ceiling(name)
	if err != nil {
		return p, err
	}
	return p, p.Within(ceiling)
}

// CheckWithin refuses the new policy of a workspace if a client of a server could not
// have opened it so: it is above the ceiling of each policy that the tenant may name. The error is
// that of the default one.
func (c *Config) CheckWithin(tenant string, p driver.Policy) error {
	if !c.HasCeilings() {
		return nil
	}
	for name := range c.Policies {
		if _, err := c.TenantPolicy(tenant, name); err != nil {
			continue
		}
		if ceiling, err := c.ceiling(name); err == nil && p.Within(ceiling) == nil {
			return nil
		}
	}
	name, err := c.TenantPolicy(tenant, "")
	if err != nil {
		return err
	}
	ceiling, err := c.ceiling(name)
	if err != nil {
		return err
	}
	return p.Within(ceiling)
}

// HasCeilings reports whether the file has policies, each of which is a ceiling.
func (c *Config) HasCeilings() bool {
	_, ok := c.at["policies"]
	return ok
}

// ceiling is Policy without the built-in policy default, where the file has policies and
// another one of them is the default: it would allow what each of them limits.
func (c *Config) ceiling(name string) (driver.Policy, error) {
	if _, ok := c.at["policies."+DefaultPolicy]; !ok && name == DefaultPolicy && c.Defaults.Policy != DefaultPolicy {
		return driver.Policy{}, fmt.Errorf("config: policy %q: %w: the section policies does not have it", name, fault.NotFound)
	}
	return c.Policy(name)
}

// CheckEnv refuses variables that the section env does not allow.
func (c *Config) CheckEnv(env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if matchesAny(c.Env.Deny, name) || len(c.Env.Allow) > 0 && !matchesAny(c.Env.Allow, name) {
			return fmt.Errorf("config: variable %.80q: %w: the section env does not let it pass (allow %v, deny %v)",
				name, fault.PermissionDenied, c.Env.Allow, c.Env.Deny)
		}
	}
	return nil
}

// matchesAny reports whether a pattern matches the name of a variable. It ignores case,
// because some programs read variables of either case, such as http_proxy.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(strings.ToUpper(pattern), strings.ToUpper(name))
		return ok
	})
}

// FixedEnv returns the variables that policies set, with their values: a command of a
// client of a server may not have others.
func (c *Config) FixedEnv() map[string][]string {
	all := map[string][]string{}
	for name := range c.Policies {
		ceiling, err := c.ceiling(name)
		if err != nil {
			continue // Check refuses the configuration
		}
		for key, value := range ceiling.Env {
			all[key] = append(all[key], value)
		}
	}
	return all
}
