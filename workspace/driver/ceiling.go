package driver

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// Within refuses a policy that asks for more than the ceiling: a larger limit, a host
// that the ceiling does not allow, a weaker level of isolation, another value of a
// variable that the ceiling sets. The error is PermissionDenied, and names the field,
// what was asked for, and the ceiling.
//
// Idle and Persist have no ceiling: a client that keeps using a workspace keeps it
// anyway. Neither has Durable, which gives a client nothing but safer writes.
func (p Policy) Within(ceiling Policy) error {
	if ceiling.Isolation != IsolationNone && p.Isolation.floor() < ceiling.Isolation.floor() {
		return aboveCeiling("isolation", string(p.Isolation), "at least "+levelText(ceiling.Isolation))
	}
	for _, r := range Resources {
		asked, most := p.Limits[r.Name], ceiling.Limits[r.Name]
		if most.Max > 0 && (asked.Max == 0 || asked.Max > most.Max || asked.BestEffort && !most.BestEffort) {
			return aboveCeiling("limit "+string(r.Name), asked.text(r.Unit), most.text(r.Unit))
		}
	}
	if err := p.Network.within(ceiling.Network); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(ceiling.Env)) {
		if p.Env[name] != ceiling.Env[name] {
			return aboveCeiling("env "+name, fmt.Sprintf("%.80q", p.Env[name]), fmt.Sprintf("%.80q", ceiling.Env[name]))
		}
	}
	if ceiling.ReadOnly && !p.ReadOnly {
		return aboveCeiling("read-only", "false", "true")
	}
	if ceiling.ShareDisk && !p.ShareDisk {
		return aboveCeiling("shareDisk", "false", "true")
	}
	return nil
}

func aboveCeiling(field, asked, ceiling string) error {
	return fmt.Errorf("%s: %w: %s is asked for, and the ceiling is %s", field, fault.PermissionDenied, asked, ceiling)
}

// floor is the rank of the weakest level that a policy with this level accepts. Providers
// that isolate take namespaces or an equal where no level, or none, is named.
func (i Isolation) floor() int {
	if i == "" || i == IsolationNone {
		return IsolationNamespaces.Rank()
	}
	return i.Rank()
}

func levelText(i Isolation) string {
	if i == "" {
		return "the provider's default, " + string(IsolationNamespaces)
	}
	return string(i)
}

// text is a limit in its unit.
func (l Limit) text(unit Unit) string {
	text := unit.Text(l.Max)
	if l.Max == 0 {
		text = "no limit"
	}
	if l.BestEffort {
		text += " (best-effort)"
	}
	return text
}

// within refuses a network that reaches more than the ceiling.
func (n Network) within(ceiling Network) error {
	if n.None() || ceiling.Open {
		return nil
	}
	if n.Open {
		return aboveCeiling("network", "an open network", ceiling.text())
	}
	for _, r := range n.Allow {
		for _, port := range r.portsOr80And443() {
			if !slices.ContainsFunc(ceiling.Allow, func(c NetRule) bool { return c.covers(r, port) }) {
				return aboveCeiling("network", NetRule{Host: r.Host, Ports: []int{port}, Methods: r.Methods, Private: r.Private, Credential: r.Credential}.text(), ceiling.text())
			}
		}
	}
	for _, d := range ceiling.Deny {
		if !slices.ContainsFunc(n.Deny, func(r NetRule) bool { return reflect.DeepEqual(r, d) }) {
			return aboveCeiling("network", "a network without the denial of "+d.text(), "one with it")
		}
	}
	return nil
}

// covers reports whether each request that r allows on a port is allowed by c.
func (c NetRule) covers(r NetRule, port int) bool {
	for _, m := range r.Methods {
		if len(c.Methods) > 0 && !containsFold(c.Methods, m) {
			return false
		}
	}
	return coversHost(c.Host, r.Host) && slices.Contains(c.portsOr80And443(), port) &&
		(len(r.Methods) > 0 || len(c.Methods) == 0) &&
		(c.Private || !r.Private) && (r.Credential == "" || strings.EqualFold(c.Credential, r.Credential))
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, s) })
}

func (c NetRule) portsOr80And443() []int {
	if len(c.Ports) == 0 {
		return []int{80, 443}
	}
	return c.Ports
}

// coversHost reports whether each host of a pattern is one of the ceiling's. Both are
// hosts of rules: a name, "*.name", an address, a range of addresses, or "*".
func coversHost(ceiling, host string) bool {
	if ours, ok := hostPrefix(host); ok {
		most, ok := hostPrefix(ceiling)
		return ok && most.Bits() <= ours.Bits() && most.Contains(ours.Addr())
	}
	ceiling, host = hostName(ceiling), hostName(host)
	suffix, wild := strings.CutPrefix(ceiling, "*")
	return host == ceiling || wild && strings.HasSuffix(host, suffix) && host != suffix
}

func hostName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// hostPrefix is an address or a range as a prefix.
func hostPrefix(host string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(host); err == nil {
		return p.Masked(), true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return netip.Prefix{}, false
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), true
}

// text lists what a network reaches.
func (n Network) text() string {
	if n.None() {
		return "no network"
	}
	if n.Open {
		return "an open network"
	}
	var hosts []string
	for _, r := range n.Allow {
		hosts = append(hosts, r.text())
	}
	return strings.Join(hosts, ", ")
}

func (c NetRule) text() string {
	text := fmt.Sprintf("%.100q", c.Host)
	if len(c.Ports) > 0 {
		text += fmt.Sprintf(" on ports %v", c.Ports)
	}
	if len(c.Methods) > 0 {
		text += fmt.Sprintf(" by %v", c.Methods)
	}
	if c.Private {
		text += " at private addresses"
	}
	if c.Credential != "" {
		text += fmt.Sprintf(" with the secret %.80q", c.Credential)
	}
	return text
}
