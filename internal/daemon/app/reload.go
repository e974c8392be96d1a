package app

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/secret"
)

// Reload replaces the configuration, and drops cached API keys. Policies, quotas, defaults and
// sources of secrets take effect at once; the names of the returned sections are those that
// differ and need a restart.
func (s *System) Reload(ctx context.Context, settings *config.Config) (restart []string, err error) {
	forms, err := newSystemScrubber(settings)
	if err != nil {
		return nil, fmt.Errorf("app: reload: %w", err)
	}
	old := s.current.Swap(settings)
	s.scrub.replace(forms)
	s.guard.Keys.Flush()
	for _, part := range []struct {
		name     string
		old, now any
	}{
		{"data", old.Data, settings.Data}, {"server", old.Server, settings.Server}, {"store", old.Store, settings.Store}, {"cluster", old.Cluster, settings.Cluster},
		{"providers", old.Providers, settings.Providers}, {"hostRoots", old.HostRoots, settings.HostRoots}, {"skills", old.Skills, settings.Skills},
		{"env", old.Env, settings.Env}, {"commands", old.Commands, settings.Commands}, {"caps", old.Caps, settings.Caps},
		{"events", old.Events, settings.Events}, {"effects", old.Effects, settings.Effects}, {"secrets", old.Secrets, settings.Secrets},
		{"network.proxy", old.Network.Proxy, settings.Network.Proxy},
		{"credentials of policies", old.Credentials(), settings.Credentials()},
	} {
		if !reflect.DeepEqual(part.old, part.now) {
			restart = append(restart, part.name)
		}
	}
	s.log.InfoContext(ctx, "the configuration was read again", "restart", strings.Join(restart, ", "))
	return restart, nil
}

// auditSink receives the audit events of calls. A command on its own data directory is no
// client, and has none.
func (s *System) auditSink() event.Sink {
	if s.operator {
		return event.Discard
	}
	return s.events
}

// secretsOf returns the secrets of one workspace, by its id, or by its name if it has no owner
// and no tenant and is no fork of a bound MCP client: these choose names freely, and must not get
// the secrets of another workspace by a name.
func (s *System) secretsOf(ctx context.Context, workspace string) (secret.Set, bool) {
	if set, ok := s.tenants.SecretsOf(ctx, workspace); ok {
		return set, true
	}
	if len(s.settings().Secrets.Workspaces) == 0 {
		return secret.Set{}, false
	}
	set, ok := s.settings().SecretsOf(workspace)
	if !ok && s.Registry != nil {
		rec, err := s.Registry.Lookup(ctx, "", workspace)
		if fault.Of(err) == "" && rec.Owner == "" && rec.Name != "" && rec.Labels[forkOfLabel] == "" {
			set, ok = s.settings().SecretsOf(rec.Name)
		}
	}
	return secret.Set{Prefix: set.Env, Dir: set.Dir}, ok
}
