// Package admission checks and completes what is asked for: the spec and the policy of a workspace, by
// the providers, policies and tenants of the configuration.
package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/tenants"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/template"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Rules are what a server admits, or a command on its own data directory.
type Rules struct {
	Options
	confined func(kind string) error // refuses kinds that do not isolate
}

// Options are what Rules need.
type Options struct {
	Settings     func() *config.Config
	Operator     bool   // the user of the data directory asks, who may go beyond policies and use every provider
	Node         string // in a cluster
	Mux          *workspace.Mux
	Templates    *template.Catalog
	Snapshots    *snapshot.Store
	Secrets      *secret.Store
	CheckDataDir func() error // refuses a data directory that was removed
}

// New returns rules. It refuses a list of offered providers that names an unknown one.
func New(ctx context.Context, o Options) (*Rules, error) {
	r := &Rules{Options: o, confined: confinedCheck(ctx, o.Mux)}
	return r, r.checkOffered()
}

// PolicyWarnings says which policies of the configuration have limits that this host can't
// enforce: no workspace is opened with one, or the limit is ignored if it is best effort.
func (r *Rules) PolicyWarnings(ctx context.Context) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.Settings().Policies)) {
		p, err := r.Settings().Policy(name)
		if err != nil || p.Limits.IsZero() {
			continue
		}
		traits, err := r.defaultTraits(ctx, p)
		if err != nil {
			out = append(out, fmt.Sprintf("policy %s: no workspace can be opened with it here: %v", name, err))
			continue
		}
		for _, res := range driver.Resources {
			if l := p.Limits[res.Name]; l.Max > 0 && !traits.Limits[res.Name].Enforced() {
				out = append(out, fmt.Sprintf("policy %s: limit %s is ignored here: %s", name, res.Name, traits.Limits[res.Name].Reason))
			}
		}
	}
	return out
}

// defaultTraits returns the traits of the provider that workspaces with a policy are opened
// with if none is named.
func (r *Rules) defaultTraits(ctx context.Context, p driver.Policy) (driver.Traits, error) {
	spec := driver.Spec{Policy: p}
	if err := r.resolveAuto(ctx, &spec); err != nil {
		return driver.Traits{}, err
	}
	kind, _, err := r.Settings().Provider(cmp.Or(spec.Kind, r.Settings().Defaults.Provider))
	if err != nil {
		return driver.Traits{}, err
	}
	if err := r.checkProvider(ctx, kind, spec); err != nil {
		return driver.Traits{}, fmt.Errorf("%s: %w", kind, err)
	}
	provider, err := r.Mux.Provider(kind)
	if err != nil {
		return driver.Traits{}, err
	}
	return provider.Probe(ctx)
}

// checkOffered refuses a server whose list of offered providers names an
// unknown one.
func (r *Rules) checkOffered() error {
	if r.Operator {
		return nil
	}
	for _, name := range r.Settings().Server.Providers {
		kind, _, err := r.Settings().Provider(name)
		if err == nil {
			_, err = r.Mux.Provider(kind)
		}
		if err != nil {
			return fmt.Errorf("app: server.providers: %w", err)
		}
	}
	return nil
}

// CheckKind refuses workspaces of a kind that the clients of this server may not use,
// whichever process opened them.
func (r *Rules) CheckKind(kind string) error {
	if r.Operator {
		return nil
	}
	return r.Settings().CheckKindOffered(kind, r.confined)
}

// AdmitSpec completes a spec from the configuration: the named policy, the provider
// with its options, and the template. For a client of a server the configuration is a
// ceiling.
func (r *Rules) AdmitSpec(ctx context.Context, spec *driver.Spec, policy string) error {
	if err := r.CheckDataDir(); err != nil {
		return err
	}
	if err := checkHostAccess(ctx, spec); err != nil {
		return err
	}
	apply := r.Settings().ApplyWithin
	if r.Operator {
		apply = r.Settings().Apply
	}
	policy, err := r.Settings().TenantPolicy(auth.Tenant(ctx), policy)
	if err != nil {
		return err
	}
	if spec.Policy, err = apply(policy, spec.Policy); err != nil {
		return err
	}
	if err := r.checkNetwork(ctx, spec.Policy.Network); err != nil {
		return err
	}
	if err := r.resolveAuto(ctx, spec); err != nil {
		return err
	}
	if !r.Operator {
		if err := r.Settings().CheckOffered(spec.Kind, r.confined); err != nil {
			return err
		}
	}
	kind, options, err := r.Settings().Provider(spec.Kind)
	if err != nil {
		return err
	}
	if spec.Config, err = mergeObjects(options, spec.Config, r.Operator); err != nil {
		return fmt.Errorf("app: options of provider %s: %w", spec.Kind, err)
	}
	spec.Kind = kind
	if err := r.resolveTemplate(ctx, spec); err != nil {
		return err
	}
	name := ""
	if tenant := auth.Tenant(ctx); tenant != "" {
		name = tenants.Scope(tenant)
	} else if spec.Session.User == "" {
		name = spec.Name
	}
	return r.checkCredentials(ctx, name, spec.Policy)
}

// AdmitPolicy checks the new policy of a workspace, and replaces its named rules. A client
// of a server may lower the present one, and ask for what it could have opened.
func (r *Rules) AdmitPolicy(ctx context.Context, id string, present driver.Policy, policy *driver.Policy) (err error) {
	if policy.Network, _, err = r.Settings().ExpandNetwork(policy.Network); err != nil {
		return err
	}
	if !r.Operator && policy.Within(present) != nil {
		if err := r.Settings().CheckWithin(auth.Tenant(ctx), *policy); err != nil {
			return err
		}
		if err := r.checkNetwork(ctx, policy.Network); err != nil {
			return err
		}
	}
	if err := r.Settings().CheckEnv(policy.Env); err != nil {
		return err
	}
	return r.checkCredentials(ctx, id, *policy)
}

// checkCredentials refuses a policy with a missing or too short secret, so that opening
// the workspace fails and not a later request.
func (r *Rules) checkCredentials(ctx context.Context, workspace string, policy driver.Policy) error {
	known := r.Settings().Credentials()
	for _, rule := range policy.Network.Allow {
		if rule.Credential == "" {
			continue
		}
		name := SecretName(known, rule.Credential)
		if err := r.Settings().CheckHost(name, rule.Host); err != nil {
			return err
		}
		v, err := r.Secrets.Get(ctx, workspace, name)
		switch {
		case fault.Of(err) == fault.NotFound || fault.Of(err) == fault.Unsupported:
			return fault.Advise(fmt.Errorf("app: secret %.80q for %s: %w: there is no secret of this name", name, rule.Host, fault.InvalidArgument),
				"set the variable %s%s, or write it to the file %s in the directory secrets.dir of croft.yaml", r.Settings().Secrets.Env, strings.ToUpper(name), name)
		case err != nil:
			return fmt.Errorf("app: secret %.80q for %s: %w", name, rule.Host, err)
		case v.Len() < secret.MinLength:
			return fault.Advise(fmt.Errorf("app: secret %.80q for %s: %w: it is too short to be redacted from answers", name, rule.Host, fault.InvalidArgument), "use at least %d bytes", secret.MinLength)
		}
	}
	return nil
}

// SecretName returns the name of a credential's secret, by default its own name.
func SecretName(known map[string]egress.Credential, credential string) string {
	if name := known[credential].Secret; name != "" {
		return name
	}
	return credential
}

// mergeObjects merges two JSON objects. The second overrides the first if it may; else a
// key with different values is an error.
func mergeObjects(base, over json.RawMessage, mayOverride bool) (json.RawMessage, error) {
	if len(base) == 0 || len(over) == 0 {
		return append(base, over...), nil
	}
	var sum, more map[string]json.RawMessage
	if err := json.Unmarshal(base, &sum); err != nil {
		return nil, fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	if err := json.Unmarshal(over, &more); err != nil {
		return nil, fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	for _, k := range slices.Sorted(maps.Keys(more)) {
		if v, ok := sum[k]; ok && !mayOverride && !jsonEqual(v, more[k]) {
			return nil, fmt.Errorf("%q: %w: %.80s is asked for, and the configuration says %.80s", k, fault.PermissionDenied, more[k], v)
		}
		sum[k] = more[k]
	}
	return json.Marshal(sum)
}

// jsonEqual reports whether two texts are the same JSON value.
func jsonEqual(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// tenantOptions are the options of providers that a client other than the operator may set:
// none of them names a file of the host.
var tenantOptions = []string{"at", "deterministic", "git", "image", "namespace", "throwaway"}

// checkHostAccess refuses what reaches the host's files, unless the operator asks for it.
func checkHostAccess(ctx context.Context, spec *driver.Spec) error {
	what := ""
	switch {
	case spec.Dir != "":
		what = "a directory of the host"
	case filepath.IsAbs(spec.From.Template) || spec.From.Live:
		what = "a directory of the host as template"
	}
	var options map[string]json.RawMessage
	if len(spec.Config) > 0 && json.Unmarshal(spec.Config, &options) == nil {
		for _, name := range slices.Sorted(maps.Keys(options)) {
			if !slices.Contains(tenantOptions, name) {
				what = fmt.Sprintf("the provider's option %.80q", name)
			}
		}
	}
	if what == "" {
		return nil
	}
	return auth.RequireOperator(ctx, "app: "+what)
}

// checkNetwork refuses a network beyond the public internet, such as the loopback of this host,
// unless the operator asks for it, or has policies that say what a workspace may reach.
func (r *Rules) checkNetwork(ctx context.Context, n driver.Network) error {
	if err := egress.Check(n); err != nil {
		return err
	}
	if p, ok := auth.From(ctx); !ok || p.Operator() || r.Settings().HasCeilings() {
		return nil
	}
	what := ""
	if n.Open {
		what = "an open network"
	}
	for _, rule := range n.Allow {
		if rule.Private || !egress.IsPublic(rule.Host) {
			what = fmt.Sprintf("the host %.80q", rule.Host)
		}
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("app: network: %w: %s is not of the public internet alone; the operator can allow it in a policy (section policies of croft.yaml)", fault.PermissionDenied, what)
}

// CheckSource refuses a snapshot that the context's principal does not see, or that only another
// node of the cluster can read.
func (r *Rules) CheckSource(ctx context.Context, from driver.Source) error {
	p, ok := auth.From(ctx)
	isOperator := !ok || p.Operator()
	if !isOperator && (filepath.IsAbs(from.Template) || from.Live) {
		return auth.RequireOperator(ctx, "app: a directory of the host as template")
	}
	if from.Snapshot == "" || isOperator && r.Node == "" {
		return nil
	}
	_, _, err := r.Snapshots.Tree(ctx, from.Snapshot)
	return err
}

// CheckDefaultProvider checks the provider of workspaces that are opened without naming one.
func (r *Rules) CheckDefaultProvider(ctx context.Context) error {
	name := r.Settings().Defaults.Provider
	if name == config.Auto {
		_, err := r.chooseProvider(ctx, driver.Spec{})
		return err
	}
	kind, _, err := r.Settings().Provider(name)
	if err != nil {
		return err
	}
	return r.checkProvider(ctx, kind, driver.Spec{})
}

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
