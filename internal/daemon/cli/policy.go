package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// policyFlags are the flags for the policy of a workspace. The provider refuses what
// it can't enforce.
type policyFlags struct {
	name       string
	isolation  string
	template   string
	allowNet   []string
	secrets    []string
	limits     workspace.Limits // of the flags, without bestEffort
	bestEffort bool
	env        []string
}

func (p *policyFlags) registerFlags(f *pflag.FlagSet) {
	p.registerAllButEnv(f)
	registerEnv(f, &p.env)
}

// given reports whether a flag was given.
func (p *policyFlags) given() bool {
	return p.name != "" || p.isolation != "" || p.template != "" || len(p.allowNet) > 0 || len(p.secrets) > 0 ||
		!p.limits.IsZero() || p.bestEffort || len(p.env) > 0
}

func (p *policyFlags) registerAllButEnv(f *pflag.FlagSet) {
	f.StringVar(&p.name, "policy", "", "name of a policy in the configuration; the flags below change it (default defaults.policy)")
	f.StringVar(&p.isolation, "isolation", "", "minimum level of isolation: none, process, bubblewrap, namespaces, container, gvisor, vm (default the provider's)")
	f.StringVar(&p.template, "template", "", "start with the files of this template (a name) or directory; they stay as they are")
	f.StringArrayVar(&p.allowNet, "allow-net", nil, "allow network access to HOST[:PORT]; *.HOST is its subdomains, * all but private addresses, @npm, @pypi, @go and @cargo are registries; may be given several times (default none)")
	f.StringArrayVar(&p.secrets, "secret", nil, "NAME@HOST: allow HOST, and let the proxy add this secret, which the workspace never sees; may be given several times")
	p.registerLimits(f, "")
	f.BoolVar(&p.bestEffort, "best-effort", false, "ignore limits that the provider can't enforce")
}

// apply sets the policy and template of spec. With a server, directories must be
// absolute paths of the server's host.
func (p *policyFlags) apply(spec *workspace.Spec, onServer bool) error {
	spec.Policy.Isolation = workspace.Isolation(p.isolation)
	var err error
	if spec.Policy.Env, err = parseEnv(p.env); err != nil {
		return err
	}
	if spec.From.Template, err = p.templatePath(onServer); err != nil {
		return err
	}
	if err := p.applyNetwork(&spec.Policy.Network); err != nil {
		return err
	}
	spec.Policy.Limits = p.requestedLimits()
	return nil
}

// templatePath returns the name of a template, or the absolute path of a directory.
func (p *policyFlags) templatePath(onServer bool) (string, error) {
	written := strings.Contains(p.template, "/") || p.template == "." || p.template == ".."
	switch {
	case onServer && written && !filepath.IsAbs(p.template):
		return "", usagef("--template %s is relative: with --server, give a directory of the server's host from its root, or a name", p.template)
	case written, !onServer && isPath(p.template):
		return filepath.Abs(p.template)
	}
	return p.template, nil
}

func (p *policyFlags) applyNetwork(n *workspace.Network) error {
	for _, host := range p.allowNet {
		rule, err := parseRule("--allow-net", host)
		if err != nil {
			return err
		}
		n.Allow = append(n.Allow, rule)
	}
	for _, s := range p.secrets {
		name, host, ok := strings.Cut(s, "@")
		if !ok || name == "" || host == "" {
			return usagef("--secret %q is not NAME@HOST: give a secret and the host that gets it, such as --secret KEY@api.example.com", s)
		}
		rule, err := parseRule("--secret", host)
		if err != nil {
			return err
		}
		if strings.HasPrefix(rule.Host, "@") {
			return usagef("--secret %q is not NAME@HOST: a secret goes to one host", s)
		}
		rule.Credential = strings.ToLower(name) // as the configuration has it
		n.Allow = append(n.Allow, rule)
	}
	return nil
}

// parseRule reads HOST, HOST:PORT or @NAME.
func parseRule(flag, s string) (workspace.NetRule, error) {
	rule, err := config.ParseNetRule(s)
	if config.IsRegistryRule(s) {
		return rule, usagef("%s %q: it is no name of a host: did you mean @%s, the registry? A host of that name is %s:443", flag, s, s, s)
	}
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), fault.InvalidArgument.Error()+": ")
		return rule, usagef("%s %q: %s", flag, s, why)
	}
	return rule, nil
}

// registerLimits makes a flag for each resource. of is added to its documentation.
func (p *policyFlags) registerLimits(f *pflag.FlagSet, of string) {
	p.limits = workspace.Limits{}
	for _, r := range driver.Resources {
		f.Var(&limitFlag{limits: p.limits, resource: r}, limitFlagName(r), "limit of "+r.Doc+of+", such as "+config.Example(r.Unit)+"; 0 is none")
	}
}

// limitFlagName is the flag of a resource: its name with hyphens, and cpus for cores.
func limitFlagName(r driver.ResourceInfo) string {
	if r.Unit == driver.UnitMillicores {
		return string(r.Name) + "s"
	}
	var b strings.Builder
	for _, c := range string(r.Name) {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// requestedLimits returns the limits of the flags.
func (p *policyFlags) requestedLimits() workspace.Limits {
	asked := p.limits.With(nil)
	for name, l := range asked {
		asked[name] = workspace.Limit{Max: l.Max, BestEffort: p.bestEffort}
	}
	return asked
}

// warnUnenforced warns, in one line, of limits that were asked for as best effort and are
// not enforced for the whole workspace.
func (a *command) warnUnenforced(ws client.Workspace) {
	if ws.Traits == nil {
		return
	}
	var names []string
	why := ""
	for _, r := range driver.Resources {
		if l := ws.Policy.Limits[r.Name]; l.Max > 0 && l.BestEffort && !ws.Traits.Limits[r.Name].Enforced() {
			names, why = append(names, string(r.Name)), oneLine(ws.Traits.Limits[r.Name].Reason)
		}
	}
	if len(names) > 0 {
		text := strings.Join(names, ", ")
		if slices.Contains(names, string(driver.ResourceMemory)) {
			text += " (memory is limited for each process, not for all together)"
		}
		a.note("croft: warning: limits of the workspace are not enforced: %s: %s", text, why)
	}
}

// A limitFlag is the flag of one limit.
type limitFlag struct {
	limits   workspace.Limits
	resource driver.ResourceInfo
}

// Set reads the limit.
func (l *limitFlag) Set(text string) error {
	n, err := config.ParseAmount(l.resource.Unit, text)
	l.limits[l.resource.Name] = workspace.Limit{Max: n}
	return err
}

// String returns the limit, or "" for none.
func (l *limitFlag) String() string {
	if n := l.limits[l.resource.Name].Max; n != 0 {
		return config.Amount{N: n, Unit: l.resource.Unit}.String()
	}
	return ""
}

// Type returns the type of the value, for the help.
func (l *limitFlag) Type() string {
	return map[driver.Unit]string{driver.UnitBytes: "size", driver.UnitMillicores: "cores", driver.UnitNanoseconds: "duration", driver.UnitCount: "int"}[l.resource.Unit]
}

var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parseEnv reads K=V pairs.
func parseEnv(pairs []string) (map[string]string, error) {
	var env map[string]string
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			example := "GREETING=hi"
			if !ok && variableName.MatchString(pair) { // docker passes that of the host on
				example = pair + `="$` + pair + `"`
			}
			return nil, usagef("--env %q is not K=V: give a name and a value, such as --env %s", pair, example)
		}
		if strings.ContainsFunc(k, unicode.IsControl) {
			return nil, usagef("--env %q: the name has a line break or another control character: give each variable with a flag of its own", pair)
		}
		if env == nil {
			env = map[string]string{}
		}
		env[k] = v
	}
	return env, nil
}
