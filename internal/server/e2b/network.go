package e2b

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

// networkConfig is the network of a sandbox as E2B describes it.
type networkConfig struct {
	AllowOut           []string        `json:"allowOut,omitempty"`
	DenyOut            []string        `json:"denyOut,omitempty"`
	AllowPublicTraffic *bool           `json:"allowPublicTraffic,omitempty"`
	MaskRequestHost    string          `json:"maskRequestHost,omitempty"`
	EgressProxy        json.RawMessage `json:"egressProxy,omitempty"`
	HTTPSPorts         []int           `json:"httpsPorts,omitempty"`

	Rules map[string][]networkRule `json:"rules,omitempty"`
}

type networkRule struct {
	Transform *networkTransform `json:"transform,omitempty"`
}

type networkTransform struct {
	Headers map[string]string `json:"headers,omitempty"`
}

// allTraffic are the ranges of all addresses.
var allTraffic = []string{"0.0.0.0/0", "::/0", "*"}

// policy returns the network of a policy. The zero value leaves the network to the
// configuration of the server; internet false is no network at all, which the caller sets.
func (c *networkConfig) policy(internet *bool) (driver.Network, error) {
	if c == nil {
		c = new(networkConfig)
	}
	if err := c.check(); err != nil {
		return driver.Network{}, err
	}
	var n driver.Network
	if internet != nil && !*internet {
		return n, nil
	}
	for _, host := range c.AllowOut {
		if slices.Contains(allTraffic, host) {
			host = "*"
		}
		n.Allow = append(n.Allow, driver.NetRule{Host: host})
	}
	blocked := slices.ContainsFunc(c.DenyOut, func(host string) bool { return slices.Contains(allTraffic, host) })
	for _, host := range c.DenyOut {
		if slices.Contains(allTraffic, host) {
			continue // what is not allowed is denied
		}
		if _, err := parseRange(host); err != nil {
			return n, fmt.Errorf("network.denyOut %.80q: %w: only addresses and ranges of them can be denied; a name can only be allowed", host, fault.InvalidArgument)
		}
		n.Deny = append(n.Deny, driver.NetRule{Host: host})
	}
	// E2B reaches everything that is not denied, unless it is all denied.
	open := internet != nil && *internet || len(n.Deny) > 0
	if len(n.Allow) == 0 && open && !blocked {
		n.Allow = []driver.NetRule{{Host: "*"}}
	}
	return n, c.addCredentials(&n)
}

func parseRange(host string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(host); err == nil {
		return p, nil
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}

// check refuses what Croft's network has not.
func (c *networkConfig) check() error {
	if err := c.addCredentials(new(driver.Network)); err != nil {
		return err
	}
	switch {
	case given(c.EgressProxy):
		err := unsupported("network.egressProxy", "sandboxes reach the network through this server's own proxy; the operator can set another one behind it")
		return fault.WithHint(err, fault.HintSetting, "proxy")
	case len(c.HTTPSPorts) > 0:
		return unsupported("network.httpsPorts", "this server connects to programs in a sandbox without TLS; let the program listen for plain HTTP")
	case strings.ContainsAny(c.MaskRequestHost, "\r\n\x00 "):
		return fmt.Errorf("network.maskRequestHost: %w: it is a host, such as localhost:${PORT}", fault.InvalidArgument)
	}
	return nil
}

// updateNetwork replaces what a sandbox may reach.
func (s *Server) updateNetwork(r *http.Request) (answer, error) {
	var in struct {
		AllowOut      []string                 `json:"allowOut"`
		DenyOut       []string                 `json:"denyOut"`
		EgressProxy   json.RawMessage          `json:"egressProxy"`
		Rules         map[string][]networkRule `json:"rules"`
		AllowInternet *bool                    `json:"allow_internet_access"`
	}
	if err := decodeKnown(r, &in, nil); err != nil { // an unknown field may forbid something
		return answer{}, err
	}
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	config := &networkConfig{AllowOut: in.AllowOut, DenyOut: in.DenyOut, EgressProxy: in.EgressProxy, Rules: in.Rules}
	network, err := config.policy(in.AllowInternet)
	if err != nil {
		return answer{}, err
	}
	policy := box.Spec.Policy
	policy.Network = network
	if err := s.cfg.AdmitPolicy(r.Context(), box.ID, box.Spec.Policy, &policy); err != nil {
		return answer{}, err
	}
	if _, err := s.cfg.Registry.Update(r.Context(), box.ID, policy); err != nil {
		return answer{}, err
	}
	d := box.details
	if box.Network != nil {
		config.AllowPublicTraffic, config.MaskRequestHost = box.Network.AllowPublicTraffic, box.Network.MaskRequestHost
	}
	d.Network, d.Internet = config, in.AllowInternet
	notes, err := d.annotations()
	if err != nil {
		return answer{}, err
	}
	_, err = s.cfg.Registry.SetAttributes(r.Context(), box.ID, func(a *registry.Attributes) error {
		a.Annotations = notes
		return nil
	})
	return answer{status: http.StatusNoContent}, err
}
