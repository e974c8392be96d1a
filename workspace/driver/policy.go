package driver

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
)

// A Policy is what a caller requests. Its zero value requests the provider's default
// isolation, no network, no limits, and a writable workspace that is not durable and
// lives until it is destroyed.
type Policy struct {
	Isolation Isolation         `json:"isolation,omitempty"` // the minimum level; "" is the provider's default
	Network   Network           `json:"network,omitzero"`
	Limits    Limits            `json:"limits,omitzero"`
	Env       map[string]string `json:"env,omitempty"`       // for every process
	ReadOnly  bool              `json:"readOnly,omitempty"`  // nothing in the workspace can be changed
	Durable   bool              `json:"durable,omitempty"`   // acknowledged writes survive power loss
	Persist   bool              `json:"persist,omitempty"`   // idle expiry closes it instead of destroying it
	Idle      time.Duration     `json:"idle,omitempty"`      // expire after this long without use; 0 is never
	ShareDisk bool              `json:"shareDisk,omitempty"` // snapshots of forks count against the disk limit of the workspace, too
}

// Equal reports whether two policies request the same. A limit of 0 is no limit.
func (p Policy) Equal(q Policy) bool {
	p.Limits, q.Limits = p.Limits.With(nil), q.Limits.With(nil)
	return reflect.DeepEqual(p, q)
}

// Isolation is a level of separation from the host. Levels are ordered by Rank.
type Isolation string

// Levels of isolation, weakest first.
const (
	IsolationNone       Isolation = "none"       // only checks in Croft's own code
	IsolationProcess    Isolation = "process"    // Landlock and seccomp
	IsolationBubblewrap Isolation = "bubblewrap" // namespaces made by bubblewrap
	IsolationNamespaces Isolation = "namespaces" // namespaces made by Croft
	IsolationContainer  Isolation = "container"  // a container engine
	IsolationGVisor     Isolation = "gvisor"     // a user-space kernel
	IsolationVM         Isolation = "vm"         // a kernel of its own, in a virtual machine
)

// Isolations lists the levels, weakest first.
var Isolations = []Isolation{
	IsolationNone, IsolationProcess, IsolationBubblewrap, IsolationNamespaces,
	IsolationContainer, IsolationGVisor, IsolationVM,
}

// Rank orders levels: a policy that names a level is met by any level of the same or
// a higher rank. Bubblewrap, namespaces and containers have the same rank. An unknown
// level has rank -1.
func (i Isolation) Rank() int {
	switch i {
	case "", IsolationNone:
		return 0
	case IsolationProcess:
		return 1
	case IsolationBubblewrap, IsolationNamespaces, IsolationContainer:
		return 2
	case IsolationGVisor:
		return 3
	case IsolationVM:
		return 4
	}
	return -1
}

func isolationNames() string {
	names := make([]string, 0, len(Isolations))
	for _, i := range Isolations {
		names = append(names, string(i))
	}
	return strings.Join(names, ", ")
}

// Network is what the workspace may reach. Its zero value is no network.
type Network struct {
	Open  bool      `json:"open,omitempty"`  // everything, without a proxy
	Allow []NetRule `json:"allow,omitempty"` // through the egress proxy
	Deny  []NetRule `json:"deny,omitempty"`  // wins over Allow
}

// None reports whether the workspace may reach nothing.
func (n Network) None() bool { return !n.Open && len(n.Allow) == 0 }

// A NetRule matches requests by host, port and method.
type NetRule struct {
	Host       string   `json:"host"`                 // a name, "*.name" for its subdomains, an IP address, a CIDR range, or "*" for every public host
	Ports      []int    `json:"ports,omitempty"`      // empty is 80 and 443 in Allow, every port in Deny
	Methods    []string `json:"methods,omitempty"`    // empty is all; a restriction needs a proxy that sees the request
	Private    bool     `json:"private,omitempty"`    // the name may resolve to a private or loopback address
	Credential string   `json:"credential,omitempty"` // name of a secret that the proxy adds
}

// Check reports whether a workspace with the given traits can meet p. Every provider
// calls it in Open before the provider creates anything. A level, limit or network
// that is not available is an error that names it and what is available.
func (p Policy) Check(t Traits) error {
	if p.Isolation.Rank() < 0 {
		return fault.Advise(fmt.Errorf("isolation %q: %w", p.Isolation, fault.InvalidArgument), "the levels are %s", isolationNames())
	}
	if p.Isolation.Rank() > t.Isolation.Rank() {
		err := fmt.Errorf("isolation %q: %w: this provider gives at most %q (the levels, weakest first, are %s)",
			p.Isolation, fault.Unsupported, t.Isolation, isolationNames())
		return fault.Advise(err, "choose a lower level or another provider")
	}
	if err := p.Limits.Check(); err != nil {
		return err
	}
	for _, r := range Resources {
		if l := p.Limits[r.Name]; l.Max > 0 && !l.BestEffort && !t.Limits[r.Name].Enforced() {
			return fault.WithHint(fmt.Errorf("limit %s: %w: %s", r.Name, fault.Unsupported, t.Limits[r.Name].reasonText()), fault.HintBestEffort)
		}
	}
	if p.Idle < 0 {
		return fmt.Errorf("idle %v: %w: must not be negative", p.Idle, fault.InvalidArgument)
	}
	if len(p.Network.Allow) > 0 && t.Network != NetworkPolicy {
		return fmt.Errorf("network rules: %w: this provider's network is %q", fault.Unsupported, t.Network)
	}
	if p.Network.Open && t.Network == NetworkNone {
		return fmt.Errorf("open network: %w: this provider's network is %q", fault.Unsupported, t.Network)
	}
	if p.Durable && t.Durability != DurablePower {
		return fmt.Errorf("durable: %w: what this provider keeps survives %q", fault.Unsupported, t.Durability)
	}
	if p.ReadOnly && !t.ReadOnly.Enforced() {
		return fmt.Errorf("read-only: %w: %s", fault.Unsupported, t.ReadOnly.reasonText())
	}
	return nil
}
