package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/daemon/config"
	"github.com/croft-run/croft/egress"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/cmdpolicy"
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
	if roots := s.settings.HostRoots; len(roots) > 0 {
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
	rules.Commands.Allow = s.settings.Commands.Allow
	rules.Commands.Deny = append(rules.Commands.Deny, s.settings.Commands.Deny...)
	rules.Env = cmdpolicy.Env{Allow: s.settings.Env.Allow, Deny: s.settings.Env.Deny, Refuse: true}
	return rules
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

// openSecrets opens the store of secrets. The secrets of one workspace are found by its
// id, or by its name if it has no owner: an owner chooses names freely, and must not
// get the secrets of another workspace by a name.
func (s *System) openSecrets(ctx context.Context) (*secret.Store, error) {
	ctx = context.WithoutCancel(ctx)
	return secret.New(&secret.Options{
		Shared: secret.Set{Prefix: s.settings.Secrets.Env, Dir: s.settings.Secrets.Dir},
		Workspace: func(id string) (secret.Set, bool) {
			if len(s.settings.Secrets.Workspaces) == 0 {
				return secret.Set{}, false
			}
			set, ok := s.settings.SecretsOf(id)
			if !ok && s.Registry != nil {
				if rec, err := s.Registry.Lookup(ctx, "", id); err == nil && rec.Owner == "" && rec.Name != "" {
					set, ok = s.settings.SecretsOf(rec.Name)
				}
			}
			return secret.Set{Prefix: set.Env, Dir: set.Dir}, ok
		},
	})
}

// admitSpec completes a spec from the configuration: the named policy, the provider
// with its options, and the template.
func (s *System) admitSpec(ctx context.Context, spec *driver.Spec, policy string) error {
	var err error
	if spec.Policy, err = s.settings.Apply(policy, spec.Policy); err != nil {
		return err
	}
	if err := s.resolveAuto(ctx, spec); err != nil {
		return err
	}
	kind, options, err := s.settings.Provider(spec.Kind)
	if err != nil {
		return err
	}
	if spec.Config, err = mergeObjects(options, spec.Config); err != nil {
		return fmt.Errorf("app: options of provider %s: %w", spec.Kind, err)
	}
	spec.Kind = kind
	if err := s.resolveTemplate(ctx, spec); err != nil {
		return err
	}
	name := ""
	if spec.Session.User == "" {
		name = spec.Name
	}
	return s.checkCredentials(ctx, name, spec.Policy)
}

// resolveTemplate replaces the name of a template by its snapshot. A path stays for
// the provider.
func (s *System) resolveTemplate(ctx context.Context, spec *driver.Spec) error {
	if spec.From.Template == "" || filepath.IsAbs(spec.From.Template) {
		return nil
	}
	t, err := s.templates.Get(ctx, spec.From.Template)
	if err != nil {
		return err
	}
	spec.From = driver.Source{Snapshot: t.Snapshot, CrossSession: true}
	return nil
}

// admitPolicy checks the new policy of a workspace.
func (s *System) admitPolicy(ctx context.Context, id string, policy driver.Policy) error {
	if err := s.settings.CheckEnv(policy.Env); err != nil {
		return err
	}
	return s.checkCredentials(ctx, id, policy)
}

// checkCredentials refuses a policy with a missing or too short secret, so that opening
// the workspace fails and not a later request.
func (s *System) checkCredentials(ctx context.Context, workspace string, policy driver.Policy) error {
	known := egressCredentials(s.settings)
	for _, r := range policy.Network.Allow {
		if r.Credential == "" {
			continue
		}
		name := secretName(known, r.Credential)
		if err := s.settings.CheckHost(name, r.Host); err != nil {
			return err
		}
		v, err := s.secrets.Get(ctx, workspace, name)
		switch {
		case fault.Of(err) == fault.NotFound || fault.Of(err) == fault.Unsupported:
			return fmt.Errorf("app: secret %.80q for %s: %w: there is no secret of this name; set the variable %s%s, or write it to the file %s in the directory secrets.dir of croft.yaml",
				name, r.Host, fault.InvalidArgument, s.settings.Secrets.Env, strings.ToUpper(name), name)
		case err != nil:
			return fmt.Errorf("app: secret %.80q for %s: %w", name, r.Host, err)
		case v.Len() < secret.MinLength:
			return fmt.Errorf("app: secret %.80q for %s: %w: it is too short to be redacted from answers; use at least %d bytes",
				name, r.Host, fault.InvalidArgument, secret.MinLength)
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

// mergeObjects merges two JSON objects; the second overrides the first.
func mergeObjects(base, over json.RawMessage) (json.RawMessage, error) {
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
	for k, v := range more {
		sum[k] = v
	}
	return json.Marshal(sum)
}
