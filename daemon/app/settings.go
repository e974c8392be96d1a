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

// EventsFile returns where the audit stream of a data directory is kept under a
// configuration, "" where it keeps none.
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

// hostRoots returns the directories of the host that workspaces may use, nil for
// any. Who can reach a server from another host is not therefore one who may
// read this one's files, so without a list there is nothing for them.
func (s *System) hostRoots(beyond bool) []string {
	if roots := s.settings.HostRoots; len(roots) > 0 {
		return roots
	}
	if beyond {
		return []string{}
	}
	return nil
}

// commandPolicy returns what is judged of the commands of a kind, beyond what its
// provider does by itself.
func (s *System) commandPolicy(kind string) *cmdpolicy.Options {
	rules := new(cmdpolicy.Options)
	if kind == sandbox.Kind {
		rules = cmdpolicy.Sandbox()
	}
	rules.Commands.Allow = s.settings.Guard.Allow
	rules.Commands.Deny = append(rules.Commands.Deny, s.settings.Guard.Deny...)
	rules.Env = cmdpolicy.Env{Allow: s.settings.Env.Allow, Deny: s.settings.Env.Deny, Refuse: true}
	return rules
}

// egressCredentials says how those of the configuration are sent.
func egressCredentials(c *config.Config) map[string]egress.Credential {
	all := map[string]egress.Credential{}
	for name, cred := range c.Credentials() {
		all[name] = egress.Credential{
			Secret: cred.Secret, Header: cred.Header, Format: cred.Format, User: cred.User, Placeholder: cred.Placeholder, Plain: cred.Plain,
		}
	}
	return all
}

// openSecrets opens the store of secrets. The set that a workspace has for
// itself is found by its id, or by its name where it has no owner: names of
// owners are theirs to choose, and must not choose secrets.
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

// admitSpec makes the wish for a workspace complete as the configuration says: its
// provider by name, with the options that it has there, and its policy.
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
		return fmt.Errorf("system: options of provider %s: %w", spec.Kind, err)
	}
	spec.Kind = kind
	if err := s.resolveTemplate(ctx, spec); err != nil {
		return err
	}
	whose := ""
	if spec.Session.User == "" {
		whose = spec.Name
	}
	return s.checkCredentials(ctx, whose, spec.Policy)
}

// resolveTemplate finds the template that a wish names, which is a snapshot. A path is
// the provider's to judge.
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

// admitPolicy judges a policy that a workspace is to change to.
func (s *System) admitPolicy(ctx context.Context, id string, policy driver.Policy) error {
	if err := s.settings.CheckEnv(policy.Env); err != nil {
		return err
	}
	return s.checkCredentials(ctx, id, policy)
}

// checkCredentials refuses a policy with a credential that can't be had, so that
// it fails now and not at a request in the middle of somebody's work.
func (s *System) checkCredentials(ctx context.Context, whose string, policy driver.Policy) error {
	known := egressCredentials(s.settings)
	for _, r := range policy.Network.Allow {
		if r.Credential == "" {
			continue
		}
		name := secretName(known, r.Credential)
		if err := s.settings.CheckHost(name, r.Host); err != nil {
			return err
		}
		v, err := s.secrets.Get(ctx, whose, name)
		switch {
		case err != nil:
			return fmt.Errorf("system: secret %.80q for %s: %w: it is not there; set %s%s, or put it into the directory of secrets: %w",
				name, r.Host, fault.InvalidArgument, s.settings.Secrets.Env, strings.ToUpper(name), err)
		case v.Len() < secret.MinLength:
			return fmt.Errorf("system: secret %.80q for %s: %w: it is too short to be kept from answers; it needs %d bytes at least",
				name, r.Host, fault.InvalidArgument, secret.MinLength)
		}
	}
	return nil
}

// secretName returns the secret that a credential is, by default the one of its name.
func secretName(known map[string]egress.Credential, credential string) string {
	if name := known[credential].Secret; name != "" {
		return name
	}
	return credential
}

// mergeObjects returns the object with the keys of both; those of the second win.
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
