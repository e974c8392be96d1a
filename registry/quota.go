package registry

import (
	"context"
	"fmt"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Quota bounds the existing workspaces of a tenant, in any state. Zero is no bound.
type Quota struct {
	Workspaces int
	Limits     map[driver.Resource]int64 // sums of the limits of all workspaces
}

// lockQuota checks the quota of a tenant for a workspace with a policy, which is new or exists
// under the id. Until unlock no other workspace of the tenant is created, by any replica.
func (r *Registry) lockQuota(ctx context.Context, tenant, id string, policy workspace.Policy) (unlock func(), err error) {
	if r.opts.Quota == nil || tenant == "" {
		return func() {}, nil
	}
	quota := r.opts.Quota(tenant)
	if quota.Workspaces == 0 && len(quota.Limits) == 0 {
		return func() {}, nil
	}
	// This process first, so that it takes one lock of the store for each tenant.
	done, err := r.quotas.Lock(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("registry: wait for another workspace of tenant %s: %w", tenant, err)
	}
	unlockStore, err := r.store.LockTenant(ctx, tenant)
	if err != nil {
		done()
		return nil, err
	}
	unlock = func() { unlockStore(); done() }
	if err := r.checkQuota(ctx, quota, tenant, id, policy); err != nil {
		unlock()
		return nil, fmt.Errorf("registry: %w", err)
	}
	return unlock, nil
}

func (r *Registry) checkQuota(ctx context.Context, quota Quota, tenant, id string, policy workspace.Policy) error {
	recs, err := r.store.List(ctx, Filter{Tenant: tenant})
	if err != nil {
		return err
	}
	count := len(recs)
	recs = slices.DeleteFunc(recs, func(rec Record) bool { return rec.ID == id })
	if most := quota.Workspaces; most > 0 && count == len(recs) && count >= most {
		err := fmt.Errorf("tenant %s: %w: it has %d workspaces, and its quota maxWorkspaces is %d", tenant, fault.ResourceExhausted, count, most)
		return fault.WithHint(fault.Advise(err, "destroy a workspace, or ask the operator for a higher quota"), fault.HintSetting, "quota")
	}
	for _, resource := range driver.Resources {
		most, wanted := quota.Limits[resource.Name], policy.Limits[resource.Name].Max
		switch {
		case most == 0:
			continue
		case wanted == 0:
			err := fmt.Errorf("tenant %s: %w: it has a quota of %s, so a workspace needs the limit %s", tenant, fault.InvalidArgument, resource.Name, resource.Name)
			return fault.WithHint(fault.Advise(err, "give one, or ask the operator to set it in a policy"), fault.HintSetting, "default limits")
		}
		used := int64(0)
		for _, rec := range recs {
			used += rec.Spec.Policy.Limits[resource.Name].Max
		}
		if used+wanted > most {
			err := fmt.Errorf("tenant %s: %w: its workspaces have %s of its quota of %s, %s, and %s more are asked for",
				tenant, fault.ResourceExhausted, resource.Unit.Text(used), resource.Name, resource.Unit.Text(most), resource.Unit.Text(wanted))
			err = fault.Advise(err, "lower the limit, destroy a workspace, or ask the operator for a higher quota")
			return fault.WithHint(err, fault.HintSetting, "quota")
		}
	}
	return nil
}
