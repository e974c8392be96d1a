package admission

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
)

// Where E2B's clients expect the home, and its user.
const (
	e2bUser = "user"
	e2bHome = "/home/user"
)

// fitLimits lowers the limits that a template asks for to those of the server's policy: E2B's API has no
// field for another policy, and its SDKs ask for sizes of E2B's machines. The sandbox's information, and
// the log of a build, have what it got.
func (r *Rules) fitLimits(ctx context.Context, p *driver.Policy) error {
	name, err := r.Settings().TenantPolicy(auth.Tenant(ctx), "")
	if err != nil {
		return err
	}
	ceiling, err := r.Settings().Policy(name)
	if err != nil {
		return err
	}
	for r, asked := range p.Limits {
		if most := ceiling.Limits[r]; most.Max > 0 && asked.BestEffort {
			p.Limits[r] = driver.Limit{Max: min(asked.Max, most.Max), BestEffort: most.BestEffort}
		}
	}
	return nil
}

// AdmitSandbox completes the spec of a sandbox of E2B's API. On the sandbox provider the
// workspace is the home of E2B's user.
func (r *Rules) AdmitSandbox(ctx context.Context, spec *driver.Spec) error {
	// These options are the server's own: a client of E2B's API names none.
	own := spec.Config
	spec.Config = nil
	if err := r.fitLimits(ctx, &spec.Policy); err != nil {
		return err
	}
	if err := r.AdmitSpec(ctx, spec, ""); err != nil {
		return err
	}
	if spec.Kind != sandbox.Kind {
		if len(own) > 0 {
			return fmt.Errorf("app: volumes and images: %w: the provider %s has none", fault.Unsupported, spec.Kind)
		}
		return nil
	}
	home, err := json.Marshal(sandbox.Options{At: e2bHome, User: e2bUser})
	if err == nil {
		own, err = mergeObjects(home, own, false)
	}
	if err == nil {
		spec.Config, err = mergeObjects(spec.Config, own, false)
	}
	return err
}
