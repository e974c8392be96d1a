package rest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

type networkInput struct {
	Target
	Body client.NetworkChange
}

// changeNetwork changes the allow rules of the present policy, by the rules of changeWorkspace.
func (s workspaceRoutes) changeNetwork(ctx context.Context, r registry.Record, in *networkInput) (*body[Workspace], error) {
	if len(in.Body.Allow) == 0 && len(in.Body.Remove) == 0 {
		return nil, fmt.Errorf("network of workspace %s: %w: give allow, remove or both", in.ID, fault.InvalidArgument)
	}
	unlock, err := s.networks.Lock(ctx, r.ID) // two changes at a time must not lose one
	if err != nil {
		return nil, err
	}
	defer unlock()
	if r, err = s.lookupRecord(ctx, in.Target); err != nil {
		return nil, err
	}
	policy := r.Spec.Policy
	policy.Network.Allow = slices.Clone(policy.Network.Allow)
	drop := func(host string) bool {
		before := len(policy.Network.Allow)
		policy.Network.Allow = slices.DeleteFunc(policy.Network.Allow, func(rule driver.NetRule) bool { return strings.EqualFold(rule.Host, host) })
		return len(policy.Network.Allow) < before
	}
	for _, host := range in.Body.Remove {
		if !drop(host) {
			return nil, fmt.Errorf("network of workspace %s: %w: no allow rule has the host %.80q", in.ID, fault.NotFound, host)
		}
	}
	for _, rule := range in.Body.Allow {
		drop(rule.Host)
		policy.Network.Allow = append(policy.Network.Allow, rule)
	}
	return s.changeWorkspace(ctx, r, &changeInput{Target: in.Target, Body: Change{Policy: &policy}})
}
