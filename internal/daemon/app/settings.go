package app

import (
	"context"
	"path/filepath"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/host/cmdpolicy"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/secret"
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

// credentials returns the credentials of the configuration and of further secrets.
func (s *System) credentials(secrets func() map[string]Secret) map[string]egress.Credential {
	all := s.settings().Credentials()
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
