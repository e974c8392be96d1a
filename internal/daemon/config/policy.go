package config

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/workspace/driver"
)

// A Policy is an entry of the section policies. It inherits what it does not set from the
// policy that it extends: limits and env key by key, network.allow as a whole. A policy
// can't allow what the policy that it extends denies on the network.
type Policy struct {
	Extends   string            `json:"extends,omitempty" jsonschema:"name of the policy that this one changes"`
	Isolation driver.Isolation  `json:"isolation,omitempty" jsonschema:"the least level; empty is the provider's default"`
	Network   *Network          `json:"network,omitempty" jsonschema:"what may be reached; nothing unless it is listed"`
	Limits    Limits            `json:"limits,omitempty" jsonschema:"each is a value, or {max: VALUE, bestEffort: true} to go on where it can't be enforced; 0 is no limit"`
	Env       map[string]string `json:"env,omitempty" jsonschema:"variables of every process; not for secrets"`
	ReadOnly  *bool             `json:"readOnly,omitempty" jsonschema:"nothing in the workspace can be changed"`
	Durable   *bool             `json:"durable,omitempty" jsonschema:"what was acknowledged survives power loss"`
	Persist   *bool             `json:"persist,omitempty" jsonschema:"idle expiry closes the workspace instead of destroying it"`
	ShareDisk *bool             `json:"shareDisk,omitempty" jsonschema:"snapshots of forks count against the disk limit of the workspace, too"`
	Idle      *Duration         `json:"idle,omitempty" jsonschema:"expire after this long without use; 0s is never"`
}

// Network is the section network of a policy.
type Network struct {
	Open  *bool     `json:"open,omitempty" jsonschema:"everything, without a proxy; allow and deny are then not allowed"`
	Allow []NetRule `json:"allow,omitempty" jsonschema:"what may be reached, through the proxy"`
	Deny  []NetRule `json:"deny,omitempty" jsonschema:"what may not be reached, whatever allow says"`
}

// A NetRule matches requests by host, port and method. Its short form is HOST, HOST:PORT or
// @NAME, a named rule.
type NetRule struct {
	Host       string      `json:"host" jsonschema:"a name, *.name for its subdomains, an address, a range of them (CIDR), * for the public internet, or @NAME for a named rule, such as @npm"`
	Ports      []Port      `json:"ports,omitempty" jsonschema:"empty is 80 and 443 in allow, every port in deny"`
	Methods    []string    `json:"methods,omitempty" jsonschema:"HTTP methods; empty is all"`
	Private    bool        `json:"private,omitempty" jsonschema:"a name may stand for a private or loopback address"`
	Credential *Credential `json:"credential,omitempty" jsonschema:"what the proxy adds to requests; the name of a secret, or how to send it"`
}

// Port is a port of TCP.
type Port int

// A Credential says which secret the proxy sends, and how. Its short form is a string:
// the name of a credential that another rule defines, or of a secret to send as a bearer
// token.
type Credential struct {
	Name        string `json:"name,omitempty" jsonschema:"of this credential; empty is the name of the secret"`
	Secret      string `json:"secret" jsonschema:"name of the secret"`
	Header      string `json:"header,omitempty" jsonschema:"header that it is sent in; empty is Authorization"`
	Format      string `json:"format,omitempty" jsonschema:"value of the header, with {secret} in it; empty is Bearer {secret}"`
	User        string `json:"user,omitempty" jsonschema:"send it as the password of this user (Basic authentication)"`
	Placeholder bool   `json:"placeholder,omitempty" jsonschema:"only replace croft-secret:NAME where a request has it; add no header"`
	Plain       bool   `json:"plain,omitempty" jsonschema:"also send it over HTTP without TLS, where everyone on the way can read it"`

	short bool // it was written in the short form
}

// ruleName returns the name by which a rule refers to the credential.
func (c Credential) ruleName() string {
	if c.Name != "" {
		return strings.ToLower(c.Name)
	}
	return strings.ToLower(c.Secret)
}

// Limits bound what a workspace may use. A limit that is absent is inherited from the
// extended policy.
type Limits map[driver.Resource]Limit

// A Limit is enforced, or the workspace is refused. With BestEffort, a provider that
// can't enforce the limit ignores it. A limit is written as its maximum, or as a mapping
// with both keys.
type Limit struct {
	Max        Amount `json:"max"`
	BestEffort bool   `json:"bestEffort,omitempty"`
}

// maxExtends bounds the length of a chain of policies that extend each other.
const maxExtends = 16

// flattenPolicy returns a policy merged with the one that it extends. path has the names
// of the policies that extend this one, to detect cycles.
func (c *Config) flattenPolicy(name string, path []string) (Policy, error) {
	p := c.Policies[name]
	if p.Extends == "" {
		return p, nil
	}
	at := "policies." + name + ".extends"
	path = append(path, name)
	if slices.Contains(path, p.Extends) {
		return Policy{}, c.keyError(at, "policy %q extends itself: %s", p.Extends, strings.Join(append(path, p.Extends), " -> "))
	}
	if len(path) > maxExtends {
		return Policy{}, c.keyError(at, "policies extend each other more than %d deep", maxExtends)
	}
	if _, ok := c.Policies[p.Extends]; !ok {
		return Policy{}, c.keyError(at, "there is no policy %q; the policies are %s", p.Extends, strings.Join(slices.Sorted(maps.Keys(c.Policies)), ", "))
	}
	base, err := c.flattenPolicy(p.Extends, path)
	if err != nil {
		return Policy{}, err
	}
	return base.mergeWith(p), nil
}

// mergeWith returns p with the settings of q, which override those of p.
func (p Policy) mergeWith(q Policy) Policy {
	p.Extends = ""
	if q.Isolation != "" {
		p.Isolation = q.Isolation
	}
	p.Network = p.Network.mergeWith(q.Network)
	p.Limits, p.Env = overlayMap(p.Limits, q.Limits), overlayMap(p.Env, q.Env)
	p.ReadOnly, p.Durable, p.Persist = firstSet(q.ReadOnly, p.ReadOnly), firstSet(q.Durable, p.Durable), firstSet(q.Persist, p.Persist)
	p.Idle, p.ShareDisk = firstSet(q.Idle, p.Idle), firstSet(q.ShareDisk, p.ShareDisk)
	return p
}

func (n *Network) mergeWith(m *Network) *Network {
	if n == nil || m == nil {
		return firstSet(m, n)
	}
	sum := *n
	sum.Open = firstSet(m.Open, n.Open)
	if m.Allow != nil {
		sum.Allow = m.Allow
	}
	switch { // open and allow exclude each other: the one that m sets overrides the other of n
	case m.Allow != nil && m.Open == nil:
		sum.Open = nil
	case m.Allow == nil && deref(m.Open):
		sum.Allow = nil
	}
	sum.Deny = slices.Concat(n.Deny, m.Deny)
	return &sum
}

// driverPolicy converts a flattened policy to a driver.Policy.
func (p Policy) driverPolicy() driver.Policy {
	d := driver.Policy{
		Isolation: p.Isolation, Env: maps.Clone(p.Env),
		ReadOnly: deref(p.ReadOnly), Durable: deref(p.Durable), Persist: deref(p.Persist),
		Idle: time.Duration(deref(p.Idle)), ShareDisk: deref(p.ShareDisk),
	}
	if n := p.Network; n != nil {
		d.Network = driver.Network{Open: deref(n.Open), Allow: driverRules(n.Allow), Deny: driverRules(n.Deny)}
	}
	for name, l := range p.Limits {
		d.Limits = d.Limits.With(driver.Limits{name: {Max: l.Max.N, BestEffort: l.BestEffort}})
	}
	return d
}

func driverRules(rules []NetRule) []driver.NetRule {
	var list []driver.NetRule
	for _, r := range rules {
		d := driver.NetRule{Host: r.Host, Methods: slices.Clone(r.Methods), Private: r.Private}
		for _, p := range r.Ports {
			d.Ports = append(d.Ports, int(p))
		}
		if r.Credential != nil {
			d.Credential = r.Credential.ruleName()
		}
		list = append(list, d)
	}
	return list
}

// Credentials returns the credentials that the rules of all policies, and named rules, refer to,
// by their name in driver.NetRule.Credential. Secret is always set.
func (c *Config) Credentials() map[string]egress.Credential {
	all := map[string]egress.Credential{}
	for _, r := range c.credentialRules() {
		cred := r.Credential
		if _, there := all[cred.ruleName()]; !there || !cred.short {
			all[cred.ruleName()] = egress.Credential{
				Secret: cred.Secret, Header: cred.Header, Format: cred.Format, User: cred.User, Placeholder: cred.Placeholder, Plain: cred.Plain,
			}
		}
	}
	return all
}

// credentialRules iterates over the rules with a credential, of policies and of named rules,
// by the path of the credential in the file.
func (c *Config) credentialRules() iter.Seq2[string, NetRule] {
	return func(yield func(string, NetRule) bool) {
		lists := map[string][]NetRule{}
		for name, p := range c.Policies {
			if p.Network != nil {
				lists["policies."+name+".network.allow"] = p.Network.Allow
			}
		}
		for name, rules := range c.Network.Rules {
			lists["network.rules."+name] = rules
		}
		for _, at := range slices.Sorted(maps.Keys(lists)) {
			for i, r := range lists[at] {
				if r.Credential != nil && !yield(itemPath(at, i)+".credential", r) {
					return
				}
			}
		}
	}
}

// overlayMap returns a copy of below with the entries of top.
func overlayMap[M ~map[K]V, K comparable, V any](below, top M) M {
	if below == nil {
		return maps.Clone(top)
	}
	sum := maps.Clone(below)
	maps.Copy(sum, top)
	return sum
}

func firstSet[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// shorthand reads a limit that is written as its maximum.
func (l *Limit) shorthand(text string) error { return l.Max.parse(text) }

// shorthand reads a credential that is written as a name.
func (c *Credential) shorthand(text string) error {
	*c = Credential{Secret: text, short: true}
	return nil
}
