package console

import (
	"os"
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

// PolicyFlags are the flags for the policy of a workspace. The provider refuses what
// it can't enforce.
type PolicyFlags struct {
	Name       string
	isolation  string
	Template   string
	allowNet   []string
	Secrets    []string
	limits     workspace.Limits // of the flags, without BestEffort
	BestEffort bool
	Env        []string
}

// RegisterFlags adds the flags.
func (p *PolicyFlags) RegisterFlags(f *pflag.FlagSet) {
	p.RegisterAllButEnv(f)
	RegisterEnv(f, &p.Env)
}

// Given reports whether a flag was given.
func (p *PolicyFlags) Given() bool {
	return p.Name != "" || p.isolation != "" || p.Template != "" || len(p.allowNet) > 0 || len(p.Secrets) > 0 ||
		!p.limits.IsZero() || p.BestEffort || len(p.Env) > 0
}

// RegisterAllButEnv adds the flags, except for --env.
func (p *PolicyFlags) RegisterAllButEnv(f *pflag.FlagSet) {
	f.StringVar(&p.Name, "policy", "", "name of a policy in the configuration; the flags below change it (default defaults.policy)")
	f.StringVar(&p.isolation, "isolation", "", "minimum level of isolation: none, process, bubblewrap, namespaces, container, gvisor, vm (default the provider's)")
	f.StringVar(&p.Template, "template", "", "start with the files of this template (a name) or directory; they stay as they are")
	f.StringArrayVar(&p.allowNet, "allow-net", nil, "allow network access to HOST[:PORT]; *.HOST is its subdomains, * all but private addresses, @npm, @pypi, @go and @cargo are registries; may be given several times (default none)")
	f.StringArrayVar(&p.Secrets, "secret", nil, "NAME@HOST: allow HOST, and let the proxy add this secret, which the workspace never sees; may be given several times")
	p.RegisterLimits(f, "")
	f.BoolVar(&p.BestEffort, "best-effort", false, "ignore limits that the provider can't enforce")
}

// Apply sets the policy and template of spec. With a server, directories must be
// absolute paths of the server's host.
func (p *PolicyFlags) Apply(spec *workspace.Spec, onServer bool) error {
	spec.Policy.Isolation = workspace.Isolation(p.isolation)
	var err error
	if spec.Policy.Env, err = ParseEnv(p.Env); err != nil {
		return err
	}
	if spec.From.Template, err = p.templatePath(onServer); err != nil {
		return err
	}
	if err := p.ApplyNetwork(&spec.Policy.Network); err != nil {
		return err
	}
	spec.Policy.Limits = p.RequestedLimits()
	return nil
}

// templatePath returns the name of a template, or the absolute path of a directory.
func (p *PolicyFlags) templatePath(onServer bool) (string, error) {
	written := strings.Contains(p.Template, "/") || p.Template == "." || p.Template == ".."
	switch {
	case onServer && written && !filepath.IsAbs(p.Template):
		return "", Usagef("--template %s is relative: with --server, give a directory of the server's host from its root, or a name", p.Template)
	case written, !onServer && IsPath(p.Template):
		return filepath.Abs(p.Template)
	}
	return p.Template, nil
}

// ApplyNetwork adds the rules of --allow-net and --secret.
func (p *PolicyFlags) ApplyNetwork(n *workspace.Network) error {
	for _, host := range p.allowNet {
		rule, err := ParseRule("--allow-net", host)
		if err != nil {
			return err
		}
		n.Allow = append(n.Allow, rule)
	}
	for _, s := range p.Secrets {
		name, host, ok := strings.Cut(s, "@")
		if !ok || name == "" || host == "" {
			return Usagef("--secret %q is not NAME@HOST: give a secret and the host that gets it, such as --secret KEY@api.example.com", s)
		}
		rule, err := ParseRule("--secret", host)
		if err != nil {
			return err
		}
		if strings.HasPrefix(rule.Host, "@") {
			return Usagef("--secret %q is not NAME@HOST: a secret goes to one host", s)
		}
		rule.Credential = strings.ToLower(name) // as the configuration has it
		n.Allow = append(n.Allow, rule)
	}
	return nil
}

// ParseRule reads HOST, HOST:PORT or @NAME.
func ParseRule(flag, s string) (workspace.NetRule, error) {
	rule, err := config.ParseNetRule(s)
	if config.IsRegistryRule(s) {
		return rule, Usagef("%s %q: it is no name of a host: did you mean @%s, the registry? A host of that name is %s:443", flag, s, s, s)
	}
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), fault.InvalidArgument.Error()+": ")
		return rule, Usagef("%s %q: %s", flag, s, why)
	}
	return rule, nil
}

// RegisterLimits makes a flag for each resource. of is added to its documentation.
func (p *PolicyFlags) RegisterLimits(f *pflag.FlagSet, of string) {
	p.limits = workspace.Limits{}
	for _, r := range driver.Resources {
		f.Var(&LimitFlag{Limits: p.limits, Resource: r}, LimitFlagName(r), "limit of "+r.Doc+of+", such as "+config.Example(r.Unit)+"; 0 is none")
	}
}

// LimitFlagName is the flag of a resource: its name with hyphens, and cpus for cores.
func LimitFlagName(r driver.ResourceInfo) string {
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

// RequestedLimits returns the limits of the flags.
func (p *PolicyFlags) RequestedLimits() workspace.Limits {
	asked := p.limits.With(nil)
	for name, l := range asked {
		asked[name] = workspace.Limit{Max: l.Max, BestEffort: p.BestEffort}
	}
	return asked
}

// WarnUnenforced warns, in one line, of limits that were asked for as best effort and are
// not enforced for the whole workspace.
func WarnUnenforced(a *Console, ws client.Workspace) {
	if ws.Traits == nil {
		return
	}
	var names []string
	why := ""
	for _, r := range driver.Resources {
		if l := ws.Policy.Limits[r.Name]; l.Max > 0 && l.BestEffort && !ws.Traits.Limits[r.Name].Enforced() {
			names, why = append(names, string(r.Name)), OneLine(ws.Traits.Limits[r.Name].Reason)
		}
	}
	if len(names) > 0 {
		text := strings.Join(names, ", ")
		if slices.Contains(names, string(driver.ResourceMemory)) {
			text += " (memory is limited for each process, not for all together)"
		}
		a.Note("croft: warning: limits of the workspace are not enforced: %s: %s", text, why)
	}
}

// A LimitFlag is the flag of one limit.
type LimitFlag struct {
	Limits   workspace.Limits
	Resource driver.ResourceInfo
}

// Set reads the limit.
func (l *LimitFlag) Set(text string) error {
	n, err := config.ParseAmount(l.Resource.Unit, text)
	l.Limits[l.Resource.Name] = workspace.Limit{Max: n}
	return err
}

// String returns the limit, or "" for none.
func (l *LimitFlag) String() string {
	if n := l.Limits[l.Resource.Name].Max; n != 0 {
		return config.Amount{N: n, Unit: l.Resource.Unit}.String()
	}
	return ""
}

// Type returns the type of the value, for the help.
func (l *LimitFlag) Type() string {
	return map[driver.Unit]string{driver.UnitBytes: "size", driver.UnitMillicores: "cores", driver.UnitNanoseconds: "duration", driver.UnitCount: "int"}[l.Resource.Unit]
}

var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseEnv reads K=V pairs.
func ParseEnv(pairs []string) (map[string]string, error) {
	var env map[string]string
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			example := "GREETING=hi"
			if !ok && variableName.MatchString(pair) { // docker passes that of the host on
				example = pair + `="$` + pair + `"`
			}
			return nil, Usagef("--env %q is not K=V: give a name and a value, such as --env %s", pair, example)
		}
		if strings.ContainsFunc(k, unicode.IsControl) {
			return nil, Usagef("--env %q: the name has a line break or another control character: give each variable with a flag of its own", pair)
		}
		if env == nil {
			env = map[string]string{}
		}
		env[k] = v
	}
	return env, nil
}

// IsPath reports whether s is written as a path, or is an existing file.
func IsPath(s string) bool {
	if filepath.IsAbs(s) || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || s == "." || s == ".." {
		return true
	}
	_, err := os.Stat(s)
	return s != "" && err == nil
}
