package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/suggest"
	"github.com/croft-run/croft/workspace/driver"
)

// NetworkSettings is the section network.
type NetworkSettings struct {
	Rules   map[string][]NetRule `json:"rules,omitempty" jsonschema:"hosts of named rules, by name; @NAME in --allow-net or in a policy stands for them; those of cargo, go, npm and pypi are added to the built-in ones"`
	Mirrors map[string]string    `json:"mirrors,omitempty" jsonschema:"URL of a registry to use instead of the public one, by the name of the rule: cargo, go, npm or pypi; the rule then stands for its host instead of the built-in ones, and the variables of the tools name it"`
	Proxy   UpstreamProxy        `json:"proxy,omitzero" jsonschema:"proxy of this network through which workspaces reach hosts, by HTTP CONNECT; policies are applied before"`
}

// UpstreamProxy is the section network.proxy.
type UpstreamProxy struct {
	URL     string   `json:"url,omitempty" jsonschema:"http://HOST:PORT or https://HOST:PORT, without a login; empty is no proxy"`
	NoProxy []string `json:"noProxy,omitempty" jsonschema:"what is reached directly: names with what is below them, addresses, and ranges (CIDR)"`
	User    string   `json:"user,omitempty" jsonschema:"user of the login; empty is none"`
	Secret  string   `json:"secret,omitempty" jsonschema:"name of the secret with the password of the login"`
}

// Egress returns the proxy for the egress proxy; nil without one.
func (p UpstreamProxy) Egress() *egress.UpstreamProxy {
	if p.URL == "" {
		return nil
	}
	return &egress.UpstreamProxy{URL: p.URL, NoProxy: p.NoProxy, User: p.User, Secret: p.Secret}
}

// registryHosts are the built-in named rules: the hosts of public registries, and those
// that packages are downloaded from. storage.googleapis.com, to which proxy.golang.org
// redirects for some large modules, is not among them: anyone can have a bucket there.
var registryHosts = map[string][]string{
	"cargo": {"index.crates.io", "static.crates.io", "crates.io"},
	"go":    {"proxy.golang.org", "sum.golang.org"},
	"npm":   {"registry.npmjs.org", "registry.yarnpkg.com"},
	"pypi":  {"pypi.org", "files.pythonhosted.org"},
}

// mirrorVars are the variables of tools that name a registry. Cargo has none.
var mirrorVars = map[string][]string{
	"go": {"GOPROXY"}, "npm": {"npm_config_registry"}, "pypi": {"PIP_INDEX_URL", "UV_DEFAULT_INDEX"},
}

// RegistryRule returns the built-in named rule that a host belongs to, as @NAME; "" for none.
func RegistryRule(host string) string {
	for name, hosts := range registryHosts {
		if slices.Contains(hosts, host) {
			return "@" + name
		}
	}
	return ""
}

// IsRegistryRule reports whether a name is that of a built-in named rule.
func IsRegistryRule(name string) bool { return registryHosts[name] != nil }

// RuleNames lists the names of the named rules.
func (c *Config) RuleNames() []string {
	names := slices.Collect(maps.Keys(registryHosts))
	for name := range c.Network.Rules {
		if _, builtIn := registryHosts[name]; !builtIn {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// namedRules returns the rules that a named rule stands for.
func (c *Config) namedRules(name string) ([]driver.NetRule, error) {
	hosts, builtIn := registryHosts[name]
	own, configured := c.Network.Rules[name]
	if !builtIn && !configured {
		var known []string
		for _, n := range c.RuleNames() {
			known = append(known, "@"+n)
		}
		return nil, fmt.Errorf("config: network rule %.80q: %w: the named rules are %s%s; network.rules in croft.yaml adds others",
			"@"+name, fault.InvalidArgument, strings.Join(known, ", "), suggest.Hint("@"+name, known))
	}
	var rules []driver.NetRule
	if mirror := c.Network.Mirrors[name]; mirror != "" {
		rules = append(rules, mirrorRule(mirror))
	} else {
		for _, host := range hosts {
			rules = append(rules, driver.NetRule{Host: host})
		}
	}
	return append(rules, driverRules(own)...), nil
}

// mirrorRule returns the rule of a mirror, which the operator chose: it may be in a private
// network.
func mirrorRule(text string) driver.NetRule {
	u, err := url.Parse(text)
	if err != nil {
		return driver.NetRule{} // checkNetworkSettings refuses it
	}
	r := driver.NetRule{Host: u.Hostname()}
	if n, err := strconv.Atoi(u.Port()); err == nil {
		r.Ports = []int{n}
	}
	_, err = netip.ParseAddr(r.Host)
	r.Private = err != nil // an address says so by itself
	return r
}

// ExpandNetwork replaces named rules by the rules that they stand for. env are the
// variables that name the mirrors of these rules.
func (c *Config) ExpandNetwork(n driver.Network) (_ driver.Network, env map[string]string, err error) {
	env = map[string]string{}
	if n.Allow, err = c.expandRules(n.Allow, env); err != nil {
		return n, nil, err
	}
	n.Deny, err = c.expandRules(n.Deny, nil)
	return n, env, err
}

func (c *Config) expandRules(rules []driver.NetRule, env map[string]string) ([]driver.NetRule, error) {
	if !slices.ContainsFunc(rules, func(r driver.NetRule) bool { return strings.HasPrefix(r.Host, "@") }) {
		return rules, nil
	}
	var list []driver.NetRule
	for _, r := range rules {
		name, named := strings.CutPrefix(r.Host, "@")
		if !named {
			list = append(list, r)
			continue
		}
		hosts, err := c.namedRules(name)
		if err != nil {
			return nil, err
		}
		if r.Credential != "" || r.Private || len(r.Ports) > 0 {
			return nil, fmt.Errorf("config: network rule %q: %w: a named rule has its own ports and credentials; define one in network.rules of croft.yaml", r.Host, fault.InvalidArgument)
		}
		for _, h := range hosts {
			if len(r.Methods) > 0 {
				h.Methods = r.Methods
			}
			if env == nil { // a rule that denies
				h.Private, h.Credential = false, ""
			}
			list = append(list, h)
		}
		if mirror := c.Network.Mirrors[name]; mirror != "" && env != nil {
			for _, v := range mirrorVars[name] {
				env[v] = mirror
			}
		}
	}
	return list, nil
}

// ExpandHosts replaces named rules in a list of hosts, written HOST or HOST:PORT.
func (c *Config) ExpandHosts(hosts []string) ([]string, error) {
	var list []string
	for _, host := range hosts {
		name, named := strings.CutPrefix(host, "@")
		if !named {
			list = append(list, host)
			continue
		}
		rules, err := c.namedRules(name)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			if len(r.Ports) == 0 {
				list = append(list, r.Host)
			}
			for _, port := range r.Ports {
				list = append(list, net.JoinHostPort(r.Host, strconv.Itoa(port)))
			}
		}
	}
	return list, nil
}

// shorthand reads a rule that is written as HOST, HOST:PORT or @NAME.
func (r *NetRule) shorthand(text string) error {
	rule, err := ParseNetRule(text)
	if err != nil {
		return err
	}
	*r = NetRule{Host: rule.Host}
	for _, p := range rule.Ports {
		r.Ports = append(r.Ports, Port(p))
	}
	return nil
}

// ParseNetRule reads HOST, HOST:PORT or @NAME. An IPv6 address with a port is [ADDR]:PORT.
func ParseNetRule(s string) (driver.NetRule, error) {
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		return driver.NetRule{}, fault.Advise(fmt.Errorf("%q: %w: it is not HOST or HOST:PORT", s, fault.InvalidArgument),
			"leave out %s:// and what comes after the host", scheme)
	}
	if name, named := strings.CutPrefix(s, "@"); named {
		if !validName.MatchString(name) {
			return driver.NetRule{}, fmt.Errorf("%q: %w: a named rule is @NAME, such as @npm", s, fault.InvalidArgument)
		}
		return driver.NetRule{Host: s}, nil
	}
	host, port := s, ""
	bare := strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "[")
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") && !bare {
		host, port = s[:i], s[i+1:]
	}
	_, err := netip.ParsePrefix(host)
	rule := driver.NetRule{Host: strings.Trim(host, "[]")}
	if rule.Host == "" || strings.ContainsAny(rule.Host, "@ ") || strings.Contains(rule.Host, "/") && err != nil {
		return rule, fmt.Errorf("%q: %w: it is not HOST or HOST:PORT", s, fault.InvalidArgument)
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return rule, fmt.Errorf("%q: %w: the port is a number from 1 to 65535", s, fault.InvalidArgument)
		}
		rule.Ports = []int{int(n)}
	}
	return rule, egress.Check(driver.Network{Allow: []driver.NetRule{rule}})
}

func (c *Config) checkNetworkSettings() error {
	for _, name := range slices.Sorted(maps.Keys(c.Network.Rules)) {
		at := "network.rules." + name
		if !validName.MatchString(name) {
			return c.keyError(at, "%s", nameForm)
		}
		for i, r := range c.Network.Rules[name] {
			if strings.HasPrefix(r.Host, "@") {
				return c.keyError(itemPath(at, i)+".host", "a named rule can't contain another")
			}
			if err := c.checkNetRule(itemPath(at, i), r); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Network.Mirrors)) {
		at := "network.mirrors." + name
		u, err := url.Parse(c.Network.Mirrors[name])
		switch _, builtIn := registryHosts[name]; {
		case !builtIn:
			return c.keyError(at, "there are mirrors of %s; other hosts are those of network.rules", strings.Join(slices.Sorted(maps.Keys(registryHosts)), ", "))
		case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || !validTarget(u.Hostname()):
			return c.keyError(at, "it must be https://HOST/PATH") // the text may have a password
		case u.User != nil:
			return c.keyError(at, "it has a login; add the host to network.rules.%s with a credential", name)
		}
	}
	p := c.Network.Proxy
	if p.URL == "" {
		if p.User != "" || p.Secret != "" || len(p.NoProxy) > 0 {
			return c.keyError("network.proxy", "it has no url")
		}
		return nil
	}
	if err := p.Egress().Check(); err != nil {
		_, why, _ := strings.Cut(err.Error(), fault.InvalidArgument.Error()+": ")
		return c.keyError("network.proxy", "%s", why)
	}
	if p.Secret != "" && !validSecret.MatchString(p.Secret) {
		return c.keyError("network.proxy.secret", "it must be the name of a secret, with 1 to 64 of A-Z, a-z, 0-9, _ and -; the secret itself is never in this file")
	}
	return nil
}
