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
	if wish.Idle != 0 {
		p.Idle = wish.Idle
	}
	return p, c.CheckEnv(p.Env)
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
