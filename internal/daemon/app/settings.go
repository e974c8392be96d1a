package app

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
	"unicode"
	"unicode/utf8"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace/driver"
)

// EventsFile returns the path of the audit stream's file, "" for none.
func EventsFile(dir string, settings *config.Config) string {
	switch file := settings.Events.File; {
	case file == config.NoFile:
		return ""
	case filepath.IsAbs(file):
		return file
	default:
		return filepath.Join(dir, file)
	}
}

// hostRoots returns the directories of the host that workspaces may use, nil for all.
// A server beyond loopback allows none without a list: its clients must not get to
// read the host's files.
func (s *System) hostRoots(beyond bool) []string {
	if roots := s.settings().HostRoots; len(roots) > 0 {
		return roots
	}
	if beyond {
		return []string{}
	}
	return nil
}

// commandPolicy returns the command policy for a kind, in addition to the provider's
// own rules.
func (s *System) commandPolicy(kind string) *cmdpolicy.Options {
	rules := new(cmdpolicy.Options)
	if kind == sandbox.Kind {
		rules = cmdpolicy.Sandbox()
	}
	rules.Commands.Allow = s.settings().Commands.Allow
	rules.Commands.Deny = append(rules.Commands.Deny, s.settings().Commands.Deny...)
	rules.Env = cmdpolicy.Env{Allow: s.settings().Env.Allow, Deny: s.settings().Env.Deny}
	if !s.operator {
		rules.Env.Fixed = s.settings().FixedEnv()
	}
	return rules
}

// PolicyWarnings says which policies of the configuration have limits that this host can't
// enforce: no workspace is opened with one, or the limit is ignored if it is best effort.
func (s *System) PolicyWarnings(ctx context.Context) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.settings().Policies)) {
		p, err := s.settings().Policy(name)
		if err != nil || p.Limits.IsZero() {
			continue
		}
		traits, err := s.defaultTraits(ctx, p)
		if err != nil {
			out = append(out, fmt.Sprintf("policy %s: no workspace can be opened with it here: %v", name, err))
			continue
		}
		for _, r := range driver.Resources {
			if l := p.Limits[r.Name]; l.Max > 0 && !traits.Limits[r.Name].Enforced() {
				out = append(out, fmt.Sprintf("policy %s: limit %s is ignored here: %s", name, r.Name, traits.Limits[r.Name].Reason))
			}
		}
	}
	return out
}

// defaultTraits returns the traits of the provider that workspaces with a policy are opened
// with if none is named.
func (s *System) defaultTraits(ctx context.Context, p driver.Policy) (driver.Traits, error) {
	spec := driver.Spec{Policy: p}
	if err := s.resolveAuto(ctx, &spec); err != nil {
		return driver.Traits{}, err
	}
	kind, _, err := s.settings().Provider(cmp.Or(spec.Kind, s.settings().Defaults.Provider))
	if err != nil {
		return driver.Traits{}, err
	}
	if err := s.checkProvider(ctx, kind, spec); err != nil {
		return driver.Traits{}, fmt.Errorf("%s: %w", kind, err)
	}
	provider, err := s.Mux.Provider(kind)
	if err != nil {
		return driver.Traits{}, err
	}
	return provider.Probe(ctx)
}

// egressCredentials returns the credentials of the configuration for the egress proxy.
func egressCredentials(c *config.Config) map[string]egress.Credential {
	all := map[string]egress.Credential{}
	for name, cred := range c.Credentials() {
		all[name] = egress.Credential{
			Secret: cred.Secret, Header: cred.Header, Format: cred.Format, User: cred.User, Placeholder: cred.Placeholder, Plain: cred.Plain,
		}
	}
	return all
}

// upstreamProxy returns the proxy of the configuration for the egress proxy, nil if there
// is none.
func upstreamProxy(c *config.Config) *egress.UpstreamProxy {
	p := c.Network.Proxy
	if p.URL == "" {
		return nil
	}
	return &egress.UpstreamProxy{URL: p.URL, NoProxy: p.NoProxy, User: p.User, Secret: p.Secret}
}

// credentials returns the credentials of the configuration and of further secrets.
func (s *System) credentials(secrets func() map[string]Secret) map[string]egress.Credential {
	all := egressCredentials(s.settings())
	if secrets == nil {
		return all
	}
	for name, one := range secrets() {
		if _, ok := all[name]; !ok {
			all[name] = egress.Credential{Secret: name, Placeholder: true, Plain: one.Plain}
		}
	}
	return all
}

// openSecrets opens the store of secrets: those of the configuration, and further ones.
func (s *System) openSecrets(ctx context.Context, secrets func() map[string]Secret) (*secret.Store, error) {
	ctx = auth.Without(context.WithoutCancel(ctx))
	var values func() map[string]string
	if secrets != nil {
		values = func() map[string]string {
			texts := map[string]string{}
			for name, one := range secrets() {
				texts[name] = one.Text
			}
			return texts
		}
	}
	return secret.New(&secret.Options{
		Values:    values,
		Shared:    secret.Set{Prefix: s.settings().Secrets.Env, Dir: s.settings().Secrets.Dir},
		Workspace: func(workspace string) (secret.Set, bool) { return s.secretsOf(ctx, workspace) },
	})
}

// projectCommands returns the commands of the configuration for the project of a workspace,
// by the name that agents call it by, its name or its id.
func (s *System) projectCommands(name, id string) profile.Commands {
	if len(s.settings().Project.Workspaces) == 0 {
		return s.settings().CommandsOf()
	}
	names := []string{id, name}
	if rec, err := s.Registry.Lookup(context.Background(), "", id); err == nil { //nolint:forbidigo // a profile has no context
		names = append(names, rec.Name)
	}
	return s.settings().CommandsOf(names...)
}

// checkOfferedProviders refuses a server whose list of offered providers names an
// unknown one.
func (s *System) checkOfferedProviders() error {
	if s.operator {
		return nil
	}
	for _, name := range s.settings().Server.Providers {
		kind, _, err := s.settings().Provider(name)
		if err == nil {
			_, err = s.Mux.Provider(kind)
		}
		if err != nil {
			return fmt.Errorf("app: server.providers: %w", err)
		}
	}
	return nil
}

// checkKind refuses workspaces of a kind that the clients of this server may not use,
// whichever process opened them.
func (s *System) checkKind(kind string) error {
	if s.operator {
		return nil
	}
	return s.settings().CheckKindOffered(kind, s.confined)
}

// admitSpec completes a spec from the configuration: the named policy, the provider
// with its options, and the template. For a client of a server the configuration is a
// ceiling.
func (s *System) admitSpec(ctx context.Context, spec *driver.Spec, policy string) error {
	if err := s.checkDataDir(); err != nil {
		return err
	}
	if err := checkHostAccess(ctx, spec); err != nil {
		return err
	}
	apply := s.settings().ApplyWithin
	if s.operator {
		apply = s.settings().Apply
	}
	policy, err := s.settings().TenantPolicy(auth.Tenant(ctx), policy)
	if err != nil {
		return err
	}
	if spec.Policy, err = apply(policy, spec.Policy); err != nil {
		return err
	}
	if err := s.checkNetwork(ctx, spec.Policy.Network); err != nil {
		return err
	}
	if err := s.resolveAuto(ctx, spec); err != nil {
		return err
	}
	if !s.operator {
		if err := s.settings().CheckOffered(spec.Kind, s.confined); err != nil {
			return err
		}
	}
	kind, options, err := s.settings().Provider(spec.Kind)
	if err != nil {
		return err
	}
	if spec.Config, err = mergeObjects(options, spec.Config, s.operator); err != nil {
		return fmt.Errorf("app: options of provider %s: %w", spec.Kind, err)
	}
	spec.Kind = kind
	if err := s.resolveTemplate(ctx, spec); err != nil {
		return err
	}
	name := ""
	if tenant := auth.Tenant(ctx); tenant != "" {
		name = tenantScope + tenant
	} else if spec.Session.User == "" {
		name = spec.Name
	}
	return s.checkCredentials(ctx, name, spec.Policy)
}

// Labels of a workspace with what was left out of the directory that it started from.
const (
	LeftOutLabel    = "croft.leftOut"    // credential files
	UnreadableLabel = "croft.unreadable" // what the user may not read
)

// resolveTemplate replaces a template by its snapshot. A directory is captured, unless
// it is to be used live.
func (s *System) resolveTemplate(ctx context.Context, spec *driver.Spec) error {
	from := spec.From
	switch {
	case from.Template == "" || from.Live:
		return nil
	case filepath.IsAbs(from.Template):
		m, err := s.templates.Capture(ctx, from.Template, from.Credentials)
		if err != nil {
			return err
		}
		spec.From = driver.Source{Snapshot: m.ID, CrossSession: true}
		var unreadable []string
		for _, skip := range m.Missing {
			if skip.Reason == driver.SkipUnreadable {
				unreadable = append(unreadable, skip.Path)
			}
		}
		labels := maps.Clone(spec.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		if len(m.LeftOut) > 0 {
			labels[LeftOutLabel] = leftOutText(len(m.LeftOut), "credential file", "credential files", m.LeftOut)
		}
		if len(unreadable) > 0 {
			// Missing has the first of them; what vanished meanwhile is counted, too.
			labels[UnreadableLabel] = leftOutText(max(int(m.MissingTotal), len(unreadable)), "file or directory that you may not read", "files or directories that you may not read", unreadable)
		}
		spec.Labels = labels
		return nil
	}
	t, err := s.templates.Get(ctx, from.Template)
	if err != nil {
		return err
	}
	spec.From = driver.Source{Snapshot: t.Snapshot, CrossSession: true}
	return nil
}

// leftOutText counts and names files, within the limits of a label.
func leftOutText(total int, one, many string, names []string) string {
	const most = 200
	text := fmt.Sprintf("%d %s:", total, many)
	if total == 1 {
		text = "1 " + one + ":"
	}
	for i, name := range names {
		if name = printableName(name); len(text)+len(name) > most {
			return text + fmt.Sprintf(" and %d more", total-i)
		}
		if i > 0 {
			text += ","
		}
		text += " " + name
	}
	return text
}

// printableName replaces what a label can't hold.
func printableName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, name)
}

// admitPolicy checks the new policy of a workspace, and replaces its named rules. A client
// of a server may lower the present one, and ask for what it could have opened.
func (s *System) admitPolicy(ctx context.Context, id string, present driver.Policy, policy *driver.Policy) (err error) {
	if policy.Network, _, err = s.settings().ExpandNetwork(policy.Network); err != nil {
		return err
	}
	if !s.operator && policy.Within(present) != nil {
		if err := s.settings().CheckWithin(auth.Tenant(ctx), *policy); err != nil {
			return err
		}
		if err := s.checkNetwork(ctx, policy.Network); err != nil {
			return err
		}
	}
	if err := s.settings().CheckEnv(policy.Env); err != nil {
		return err
	}
	return s.checkCredentials(ctx, id, *policy)
}

// checkCredentials refuses a policy with a missing or too short secret, so that opening
// the workspace fails and not a later request.
func (s *System) checkCredentials(ctx context.Context, workspace string, policy driver.Policy) error {
	known := egressCredentials(s.settings())
	for _, r := range policy.Network.Allow {
		if r.Credential == "" {
			continue
		}
		name := secretName(known, r.Credential)
		if err := s.settings().CheckHost(name, r.Host); err != nil {
			return err
		}
		v, err := s.secrets.Get(ctx, workspace, name)
		switch {
		case fault.Of(err) == fault.NotFound || fault.Of(err) == fault.Unsupported:
			return fault.Advise(fmt.Errorf("app: secret %.80q for %s: %w: there is no secret of this name", name, r.Host, fault.InvalidArgument),
				"set the variable %s%s, or write it to the file %s in the directory secrets.dir of croft.yaml", s.settings().Secrets.Env, strings.ToUpper(name), name)
		case err != nil:
			return fmt.Errorf("app: secret %.80q for %s: %w", name, r.Host, err)
		case v.Len() < secret.MinLength:
			return fault.Advise(fmt.Errorf("app: secret %.80q for %s: %w: it is too short to be redacted from answers", name, r.Host, fault.InvalidArgument), "use at least %d bytes", secret.MinLength)
		}
	}
	return nil
}

// secretName returns the name of a credential's secret, by default its own name.
func secretName(known map[string]egress.Credential, credential string) string {
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
