package work

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace"
)

// ForStart returns the user with the endpoint of the model that a start of an agent names: by its
// arguments, or by env, the variables of the workspace.
func (u User) ForStart(opts Options, env map[string]string) User {
	a := opts.Agent
	if a == nil {
		return u
	}
	for _, name := range append([]string{a.Base}, codexLocal...) {
		if text := env[name]; text != "" {
			u.Environ = append(slices.Clone(u.Environ), name+"="+text)
		}
	}
	base := ""
	switch a.Name {
	case "claude":
		if base = claudeBaseOfArgs(opts); base == "" {
			// A project may come from anywhere, so it can't send the key where it likes.
			at := claudeBaseOfProject(opts.Project)
			if rule, ok := loopbackRule(at); ok && allows(opts.Allow, rule) {
				base = at
			}
		}
	case "codex":
		base = codexBaseWith(u, opts.Words)
		u.codexKey, _ = codexKey(u, opts.Words)
	}
	if base != "" {
		u.models = maps.Clone(u.models)
		if u.models == nil {
			u.models = map[string]string{}
		}
		u.models[a.Name] = base
	}
	return u
}

// claudeBaseOfArgs returns the URL of the model that --settings names, as JSON or as a file.
func claudeBaseOfArgs(opts Options) (base string) {
	for i, word := range opts.Words {
		flag, text, joined := strings.Cut(word, "=")
		if flag != "--settings" || !joined && i+1 == len(opts.Words) {
			continue
		}
		if !joined {
			text = opts.Words[i+1]
		}
		data := []byte(text)
		if !strings.HasPrefix(strings.TrimSpace(text), "{") {
			if !filepath.IsAbs(text) {
				text = filepath.Join(opts.Project.Dir, opts.Project.Sub, text)
			}
			data, _ = os.ReadFile(text) // the agent reports it
		}
		base = claudeBaseIn(data)
	}
	return base
}

// claudeBaseOfProject returns the URL of the model that the settings in a project name.
func claudeBaseOfProject(p Project) string {
	for _, dir := range []string{filepath.Join(p.Dir, p.Sub), p.Dir} {
		for _, name := range []string{".claude/settings.local.json", claudeSettings} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			if base := claudeBaseIn(data); base != "" {
				return base
			}
		}
	}
	return ""
}

// loopbackRule returns the rule of a URL on the loopback interface of this host.
func loopbackRule(base string) (workspace.NetRule, bool) {
	u, err := url.Parse(base)
	if err != nil || u.Port() == "" {
		return workspace.NetRule{}, false
	}
	ip := net.ParseIP(u.Hostname())
	return hostRule(u.Host), u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// allows reports whether one of the rules is for a host and port.
func allows(rules []workspace.NetRule, want workspace.NetRule) bool {
	return slices.ContainsFunc(rules, func(r workspace.NetRule) bool {
		return r.Host == want.Host && (len(r.Ports) == 0 || slices.Contains(r.Ports, want.Ports[0]))
	})
}

var loopbackURL = lazyregexp.New(`https?://(?:localhost|127\.[0-9.]+|\[::1\]):[0-9]+`)

// noteUnforwarded says which ports of the loopback interface of this host the agent is told of,
// but does not reach: inside there is another interface, where a connection is refused or
// tried again for minutes.
func (s *Start) noteUnforwarded() {
	words := slices.Clone(s.Words)
	if s.Agent.Name == "claude" {
		words = append(words, claudeBaseOfProject(s.Project))
	}
	rules, named := s.rules(), []string{}
	for _, found := range loopbackURL.FindAllSubmatch([]byte(strings.Join(words, " ")), -1) {
		named = Add(named, string(found[0]))
	}
	for _, at := range named {
		if rule, ok := loopbackRule(at); ok && !allows(rules, rule) {
			s.Notes = append(s.Notes, fmt.Sprintf("%s is named, but inside it is the sandbox's own; to reach the port of this host: --allow-net %s",
				at, net.JoinHostPort(rule.Host, strconv.Itoa(rule.Ports[0]))))
		}
	}
}
