package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A target is the host and port of a request.
type target struct {
	name string     // in lower case, without a trailing dot; "" for an address
	addr netip.Addr // if name is ""
	port int
}

func (t target) host() string {
	if t.name != "" {
		return t.name
	}
	return t.addr.String()
}

// isLoopback reports whether a target is this host by its loopback interface.
func (t target) isLoopback() bool { return t.addr.IsLoopback() || t.name == localhost }

func (t target) String() string { return net.JoinHostPort(t.host(), strconv.Itoa(t.port)) }

// parseTarget parses a host and a port. It refuses a name whose last label is a number: some
// resolvers treat "0x7f.1" as an address.
func parseTarget(host string, port int) (target, error) {
	if port < 1 || port > 65535 {
		return target{}, fmt.Errorf("egress: parse port %d: %w: must be 1 to 65535", port, fault.InvalidArgument)
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return target{}, fmt.Errorf("egress: parse host %.80q: %w: an address must not have a zone", host, fault.InvalidArgument)
		}
		return target{addr: a.Unmap(), port: port}, nil
	}
	name, err := parseName(host)
	return target{name: name, port: port}, err
}

// splitTarget parses "host:port". The port may be missing if the default port is not 0.
func splitTarget(s string, port int) (target, error) {
	host := s
	if h, p, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || strings.HasPrefix(p, "+") {
			return target{}, fmt.Errorf("egress: parse port %.20q: %w: must be a number", p, fault.InvalidArgument)
		}
		host, port = h, int(n)
	} else if strings.Count(s, ":") == 1 || port == 0 {
		return target{}, fmt.Errorf("egress: parse %.80q: %w: must be host:port", s, fault.InvalidArgument)
	}
	return parseTarget(host, port)
}

func parseName(host string) (string, error) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "" || len(name) > 253 {
		return "", fmt.Errorf("egress: parse host %.80q: %w: must be a name or an address", host, fault.InvalidArgument)
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("egress: parse host %.80q: %w: a label has 1 to 63 of a-z, 0-9, - and _; write other letters in punycode",
				host, fault.InvalidArgument)
		}
	}
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		return "", fmt.Errorf("egress: parse host %.80q: %w: a name must not end in a number", host, fault.InvalidArgument)
	}
	return name, nil
}

// A rule is a parsed driver.NetRule.
type rule struct {
	spec   driver.NetRule
	any    bool         // "*"
	name   string       // an exact name
	suffix string       // ".name" of "*.name"
	prefix netip.Prefix // an address or a range
	ports  []int        // nil is every port
}

// rules is a parsed policy. It is immutable.
type rules struct {
	open        bool
	allow, deny []rule
}

// Check refuses a policy with a rule that can't be read: a host that is no name or address, a port or a method
// that does not exist. A proxy would refuse it when it is started.
func Check(n driver.Network) error {
	_, err := compileRules(n)
	return err
}

// compileRules parses a policy. Its errors name the rule and what is allowed.
func compileRules(n driver.Network) (*rules, error) {
	rs := &rules{open: n.Open}
	for _, spec := range n.Allow {
		r, err := compileRule(spec)
		if err != nil {
			return nil, err
		}
		if r.ports == nil {
			r.ports = []int{80, 443}
		}
		rs.allow = append(rs.allow, r)
	}
	for _, spec := range n.Deny {
		r, err := compileRule(spec)
		if err != nil {
			return nil, err
		}
		if spec.Credential != "" || spec.Private {
			return nil, fmt.Errorf("egress: read rule %q: %w: a deny rule has no credential and is not private", spec.Host, fault.InvalidArgument)
		}
		rs.deny = append(rs.deny, r)
	}
	return rs, nil
}

func compileRule(spec driver.NetRule) (rule, error) {
	r := rule{spec: spec, ports: slices.Clone(spec.Ports)}
	r.spec.Methods = nil
	for _, m := range spec.Methods {
		if m == "" || strings.Trim(strings.ToUpper(m), "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			return rule{}, fmt.Errorf("egress: read rule %q: %w: %q is not a method", spec.Host, fault.InvalidArgument, m)
		}
		r.spec.Methods = append(r.spec.Methods, strings.ToUpper(m))
	}
	for _, p := range spec.Ports {
		if p < 1 || p > 65535 {
			return rule{}, fmt.Errorf("egress: read rule %q: %w: port %d must be 1 to 65535", spec.Host, fault.InvalidArgument, p)
		}
	}
	if err := r.parseHost(spec.Host); err != nil {
		return rule{}, err
	}
	if spec.Private && r.name == "" {
		return rule{}, fmt.Errorf("egress: read rule %q: %w: only a whole name can be private; an address says so by itself",
			spec.Host, fault.InvalidArgument)
	}
	if spec.Credential != "" && (r.any || r.prefix.IsValid() && !r.prefix.IsSingleIP()) {
		return rule{}, fmt.Errorf("egress: read rule %q: %w: a credential needs a name, *.name or an address", spec.Host, fault.InvalidArgument)
	}
	return r, nil
}

func (r *rule) parseHost(host string) error {
	if host == "*" {
		r.any = true
		return nil
	}
	if p, err := netip.ParsePrefix(host); err == nil {
		if p.Addr().Is4In6() {
			return fmt.Errorf("egress: read rule %q: %w: write the range of IPv4 as such", host, fault.InvalidArgument)
		}
		r.prefix = p.Masked()
		return nil
	}
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil && a.Zone() == "" {
		a = a.Unmap()
		r.prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	base, wild := strings.CutPrefix(host, "*.")
	name, err := parseName(base)
	if err != nil {
		return fmt.Errorf("egress: host %.80q: %w: a host is a name such as pypi.org, *.name for its subdomains, an address or a range; without https://, a port or a path", host, fault.InvalidArgument)
	}
	if wild {
		r.suffix = "." + name
	} else {
		r.name = name
	}
	return nil
}

// matchesTarget reports whether a rule applies to a host and a port.
func (r *rule) matchesTarget(t target) bool {
	if r.ports != nil && !slices.Contains(r.ports, t.port) {
		return false
	}
	if t.name == "" {
		return r.any || r.prefix.IsValid() && r.prefix.Contains(t.addr)
	}
	return r.any || r.name != "" && r.name == t.name ||
		r.suffix != "" && strings.HasSuffix(t.name, r.suffix) && len(t.name) > len(r.suffix)
}

// methodTunnel is the method of tunnels, whose content is not inspected. A rule may name it.
const methodTunnel = "CONNECT"

func (r *rule) allowsMethod(method string) bool {
	return len(r.spec.Methods) == 0 || slices.Contains(r.spec.Methods, method)
}

// A verdict is the decision of the policy on a request.
type verdict struct {
	allowed    bool
	reason     string // why not
	rule       string // the host of the rule that decided
	credential string // the credential to add
}

// checkRequest decides on a host, a port and a method. A deny rule wins; else one allow rule
// is enough. The credential is that of the first such rule that has one. In a tunnel methods
// can't be seen, so a deny rule for some methods denies it, and an allow rule for some
// methods does not allow it.
func (rs *rules) checkRequest(t target, method string) verdict {
	for i := range rs.deny {
		if r := &rs.deny[i]; r.matchesTarget(t) && (r.allowsMethod(method) || method == methodTunnel) {
			return verdict{reason: "a rule denies it", rule: r.spec.Host}
		}
	}
	var v verdict
	other := ""
	for i := range rs.allow {
		r := &rs.allow[i]
		if !r.matchesTarget(t) {
			continue
		}
		if !r.allowsMethod(method) {
			other = r.spec.Host
			continue
		}
		if !v.allowed {
			v = verdict{allowed: true, rule: r.spec.Host}
		}
		if v.credential == "" && r.spec.Credential != "" {
			v.rule, v.credential = r.spec.Host, r.spec.Credential
		}
	}
	switch {
	case v.allowed:
		return v
	case rs.open:
		return verdict{allowed: true}
	case other != "" && method == methodTunnel:
		return verdict{reason: "its rule allows some methods only, and in a tunnel they can't be seen", rule: other}
	case other != "":
		return verdict{reason: "its rule does not allow the method " + method, rule: other}
	}
	return verdict{reason: "no rule allows it; " + rs.allowedHint(t)}
}

// checkHost decides whether any method is allowed on a host and a port.
func (rs *rules) checkHost(t target) verdict {
	for i := range rs.deny {
		if r := &rs.deny[i]; r.matchesTarget(t) && len(r.spec.Methods) == 0 {
			return verdict{reason: "a rule denies it", rule: r.spec.Host}
		}
	}
	for i := range rs.allow {
		if r := &rs.allow[i]; r.matchesTarget(t) {
			return verdict{allowed: true, rule: r.spec.Host}
		}
	}
	if rs.open {
		return verdict{allowed: true}
	}
	return verdict{reason: "no rule allows it; " + rs.allowedHint(t)}
}

// hasCredential reports whether some requests to a host get a credential, so that its TLS must
// be intercepted.
func (rs *rules) hasCredential(t target) bool {
	return slices.ContainsFunc(rs.allow, func(r rule) bool { return r.spec.Credential != "" && r.matchesTarget(t) })
}

// allowedHint says what the policy allows instead.
func (rs *rules) allowedHint(t target) string {
	if len(rs.allow) == 0 {
		return "this workspace has no network"
	}
	var ports []string
	var hosts []string
	for _, r := range rs.allow {
		for _, p := range r.ports {
			if (target{t.name, t.addr, p}) != t && r.matchesTarget(target{t.name, t.addr, p}) {
				ports = append(ports, strconv.Itoa(p))
			}
		}
		if !slices.Contains(hosts, r.spec.Host) {
			hosts = append(hosts, r.spec.Host)
		}
	}
	if len(ports) > 0 {
		return "on this host it allows the ports " + strings.Join(ports, ", ")
	}
	if more := len(hosts) - 12; more > 0 {
		hosts = append(hosts[:12], fmt.Sprintf("%d more", more))
	}
	return "allowed are " + strings.Join(hosts, ", ")
}

// refuseAddr returns why an address of an allowed target must not be connected to, "" if it
// may. A rule must name a non-public address or its range, which "*" does not, or the rule of
// the name must be private. A rule must name the exact address of a metadata service.
func (rs *rules) refuseAddr(t target, a netip.Addr, ours func(netip.Addr) bool) string {
	a = a.Unmap()
	at := target{addr: a, port: t.port}
	for i := range rs.deny {
		// For a target without a name, checkRequest has checked the methods.
		if r := &rs.deny[i]; r.matchesTarget(at) && (len(r.spec.Methods) == 0 || t.name != "") {
			return "a rule denies its address"
		}
	}
	c := classify(a)
	if c == public && ours(a) {
		c = hostAddr
	}
	if c == public {
		return ""
	}
	for i := range rs.allow {
		r := &rs.allow[i]
		switch {
		case !r.any && r.matchesTarget(at) && (c != metadata || r.prefix.IsSingleIP()) && (len(r.spec.Methods) == 0 || t.name == ""):
			return ""
		case r.spec.Private && c != metadata && r.matchesTarget(t):
			return ""
		}
	}
	return "its address is " + string(c)
}
