package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// codexSettings are the settings of Codex that name its model's endpoint.
type codexSettings struct {
	Profile   string                   `toml:"profile"`
	Provider  string                   `toml:"model_provider"`
	OpenAI    string                   `toml:"openai_base_url"`
	Providers map[string]codexProvider `toml:"model_providers"`
	Profiles  map[string]codexSettings `toml:"profiles"`
	Local     string                   `toml:"oss_provider"` // of --oss

	oss   bool   // --oss is given
	local string // of --local-provider
}

type codexProvider struct {
	Base   string `toml:"base_url"`
	EnvKey string `toml:"env_key"`
}

// codexKnown returns the URL of a built-in provider of Codex, beside openai.
func codexKnown(provider string, env map[string]string) string {
	port := map[string]string{"ollama": "11434", "lmstudio": "1234"}[provider]
	if port == "" {
		return ""
	}
	return cmp.Or(strings.TrimSpace(env["CODEX_OSS_BASE_URL"]), "http://localhost:"+cmp.Or(env["CODEX_OSS_PORT"], port)+"/v1")
}

// CodexKey returns the variable from which Codex takes the key of its model provider. Without own it takes the key or the login
// of OpenAI; with own and "" it needs none.
func CodexKey(cfg Config) (name string, own bool) {
	s, provider, err := readCodex(cfg)
	if err != nil {
		return "", false // Codex reports it
	}
	p := s.Providers[provider]
	return p.EnvKey, p.EnvKey != "" || p.Base == "" && codexKnown(provider, nil) != ""
}

// readCodex returns the settings of Codex with its arguments, and its model provider.
func readCodex(cfg Config) (s codexSettings, provider string, err error) {
	if cfg.UserHome != "" {
		data, err := os.ReadFile(filepath.Join(cfg.UserHome, ".codex", "config.toml"))
		if err == nil {
			err = toml.Unmarshal(data, &s)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s, "", fmt.Errorf("agent: settings of codex: %w: %w", fault.InvalidArgument, err)
		}
	}
	s.applyArgs(cfg.CommandArgs)
	p := s.Profiles[s.Profile]
	if s.oss {
		return s, cmp.Or(s.local, p.Local, s.Local, "ollama"), nil
	}
	return s, cmp.Or(p.Provider, s.Provider), nil
}

// CodexModel returns the model provider of Codex, "" for OpenAI, and its URL: from its
// settings file, overridden by its arguments.
func CodexModel(cfg Config) (provider string, base *url.URL, err error) {
	s, provider, err := readCodex(cfg)
	if err != nil {
		return "", nil, err
	}
	at := cmp.Or(s.Providers[provider].Base, codexKnown(provider, cfg.Env))
	if provider == "" || provider == "openai" {
		provider, at = "", cmp.Or(cfg.Env["OPENAI_BASE_URL"], cmp.Or(s.OpenAI, "https://api.openai.com/v1"))
	}
	if base, err = url.Parse(at); err != nil || base.Host == "" {
		if provider == "" {
			return "", nil, fmt.Errorf("agent: the model of codex: %w: OPENAI_BASE_URL is %q, want a URL", fault.InvalidArgument, at)
		}
		return "", nil, fmt.Errorf("agent: the model of codex: %w: model_providers.%s.base_url is %q, want a URL", fault.InvalidArgument, provider, at)
	}
	return provider, base, nil
}

// applyArgs applies -c KEY=VALUE, --profile, --oss and --local-provider arguments.
func (s *codexSettings) applyArgs(args []string) {
	for i, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		switch flag {
		case "-p", "--profile":
			s.Profile = value
		case "-c", "--config":
			s.set(value)
		case "--oss":
			s.oss = true
		case "--local-provider":
			s.local = value
		}
	}
}

var codexBase = lazyregexp.New(`^model_providers\.([A-Za-z0-9_-]+)\.base_url$`)

// set applies KEY=VALUE. The key may be dotted and the value a table, as in TOML; a value that
// is not TOML is a text, as Codex has it.
func (s *codexSettings) set(pair string) {
	var one codexSettings
	if toml.Unmarshal([]byte(pair), &one) != nil {
		key, value, _ := strings.Cut(pair, "=")
		one = codexSettings{}
		if toml.Unmarshal(fmt.Appendf(nil, "%s = %q", key, value), &one) != nil {
			return // Codex reports it
		}
	}
	s.Profile, s.Provider, s.OpenAI = cmp.Or(one.Profile, s.Profile), cmp.Or(one.Provider, s.Provider), cmp.Or(one.OpenAI, s.OpenAI)
	s.Local = cmp.Or(one.Local, s.Local)
	for name, p := range one.Providers {
		before := s.Providers[name]
		s.Providers = setIn(s.Providers, name, codexProvider{cmp.Or(p.Base, before.Base), cmp.Or(p.EnvKey, before.EnvKey)})
	}
	for name, p := range one.Profiles {
		s.Profiles = setIn(s.Profiles, name, p)
	}
}

// setIn sets a key of a map that may be nil.
func setIn[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

// redirectCodex makes Codex send model requests to base.
func redirectCodex(cfg Config, base string) (Config, *url.URL, error) {
	provider, up, err := CodexModel(cfg)
	if err != nil {
		return cfg, nil, err
	}
	key := "openai_base_url"
	if provider != "" {
		if key = "model_providers." + provider + ".base_url"; !codexBase.MatchString(key) {
			return cfg, nil, fmt.Errorf("agent: redirect codex: %w: the name of the provider %q can't be used in an argument", fault.Unsupported, provider)
		}
	}
	cfg.execArgs = []string{"-c", fmt.Sprintf("%s=%q", key, base+up.Path)}
	up.Path = ""
	return cfg, up, nil
}
