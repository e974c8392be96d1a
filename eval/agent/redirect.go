package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// Redirect returns a configuration with which an agent asks its model at base
// instead of where it is, and where that is: so a recorder, a tape or a gateway can
// be put between them. Codex is asked for the provider that its settings in
// cfg.UserHome name. Base is a URL such as http://127.0.0.1:4000; behind it come the paths of the
// upstream. A program of the user's own is moved where its configuration sets one of
// ModelVariables; of one that sets none, which may have no model, the upstream is nil.
// Agents that have no switch for it are Unsupported.
func Redirect(cfg Config, base string) (Config, *url.URL, error) {
	if u, err := url.Parse(base); err != nil || u.Host == "" {
		return cfg, nil, fmt.Errorf("agent: redirect to %q: %w: it is no URL with a host", base, fault.InvalidArgument)
	}
	cfg.Env = maps.Clone(cfg.Env)
	if cfg.Env == nil {
		cfg.Env = map[string]string{}
	}
	switch cfg.Type {
	case "claude-code":
		return redirectVariable(cfg, "ANTHROPIC_BASE_URL", "https://api.anthropic.com", base)
	case "gemini":
		return redirectVariable(cfg, "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com", base)
	case "codex":
		return redirectCodex(cfg, base)
	case "opencode":
		return redirectOpencode(cfg, base)
	case "copilot":
		if cfg.Env["COPILOT_PROVIDER_BASE_URL"] == "" {
			return cfg, nil, fmt.Errorf("agent: redirect copilot: %w: only a model of one's own can be moved, which COPILOT_PROVIDER_BASE_URL names", fault.Unsupported)
		}
		return redirectVariable(cfg, "COPILOT_PROVIDER_BASE_URL", "", base)
	case "command", "acp":
		for _, name := range ModelVariables {
			if cfg.Env[name] != "" {
				return redirectVariable(cfg, name, "", base)
			}
		}
		return cfg, nil, nil
	}
	return cfg, nil, fmt.Errorf("agent: redirect %s: %w: it has no switch for where its model is", cfg.Type, fault.Unsupported)
}

// ModelVariables are those by which programs are told where their model is.
var ModelVariables = []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"}

// redirectVariable sets a variable that has the place of the model.
func redirectVariable(cfg Config, name, def, base string) (Config, *url.URL, error) {
	was := cmp.Or(cfg.Env[name], def)
	up, err := url.Parse(was)
	if err != nil || up.Host == "" {
		return cfg, nil, fmt.Errorf("agent: redirect %s: %w: %s is %q, want a URL", cfg.Type, fault.InvalidArgument, name, was)
	}
	cfg.Env[name] = base + up.Path
	up.Path = ""
	return cfg, up, nil
}

// opencodeProviders are the places of the providers that opencode knows by itself.
var opencodeProviders = map[string]string{
	"anthropic": "https://api.anthropic.com/v1", "openai": "https://api.openai.com/v1", "google": "https://generativelanguage.googleapis.com/v1beta",
	"openrouter": "https://openrouter.ai/api/v1", "opencode": "https://opencode.ai/zen/v1", "xai": "https://api.x.ai/v1",
	"groq": "https://api.groq.com/openai/v1", "mistral": "https://api.mistral.ai/v1", "deepseek": "https://api.deepseek.com",
}

// redirectOpencode sets the place of opencode's provider in a piece of configuration
// that is laid over all others.
func redirectOpencode(cfg Config, base string) (Config, *url.URL, error) {
	const name = "OPENCODE_CONFIG_CONTENT"
	id, _, _ := strings.Cut(cfg.Model, "/")
	known, ok := opencodeProviders[id]
	content := map[string]any{}
	if text := cfg.Env[name]; text != "" {
		if err := json.Unmarshal([]byte(text), &content); err != nil {
			return cfg, nil, fmt.Errorf("agent: redirect opencode: %w: %s: %w", fault.InvalidArgument, name, err)
		}
	}
	options := subObject(subObject(subObject(content, "provider"), id), "options")
	if was, isText := options["baseURL"].(string); isText {
		known, ok = was, true
	}
	if !ok {
		return cfg, nil, fmt.Errorf("agent: redirect opencode: %w: where the provider %q is must be in %s; known are %s", fault.Unsupported, id, name,
			strings.Join(slices.Sorted(maps.Keys(opencodeProviders)), ", "))
	}
	up, err := url.Parse(known)
	if err != nil || up.Host == "" {
		return cfg, nil, fmt.Errorf("agent: redirect opencode: %w: the provider %q is at %q, want a URL", fault.InvalidArgument, id, known)
	}
	options["baseURL"] = base + up.Path
	cfg.Env[name] = string(encodeJSON(content))
	up.Path = ""
	return cfg, up, nil
}

// subObject returns an object inside another, made where it is not.
func subObject(m map[string]any, key string) map[string]any {
	inner, ok := m[key].(map[string]any)
	if !ok {
		inner = map[string]any{}
		m[key] = inner
	}
	return inner
}
