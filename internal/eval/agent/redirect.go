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

// Redirect returns a configuration with which an agent sends model requests to base
// instead of its model's endpoint (the upstream), and the upstream, so that a recorder, a
// tape or a gateway can be in between. base is a URL such as http://127.0.0.1:4000; paths
// of the upstream are appended. For Codex the provider is read from the settings in
// cfg.UserHome. A command or ACP program is redirected by the first of ModelVariables in
// its configuration; if it sets none, the upstream is nil. Agents without such a setting
// are Unsupported.
func Redirect(cfg Config, base string) (Config, *url.URL, error) {
	if u, err := url.Parse(base); err != nil || u.Host == "" {
		return cfg, nil, fmt.Errorf("agent: redirect to %q: %w: want a URL with a host", base, fault.InvalidArgument)
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
			return cfg, nil, fmt.Errorf("agent: redirect copilot: %w: set COPILOT_PROVIDER_BASE_URL; only a custom model can be redirected", fault.Unsupported)
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
	return cfg, nil, fmt.Errorf("agent: redirect %s: %w: it has no setting for the endpoint of its model", cfg.Type, fault.Unsupported)
}

// ModelVariables are environment variables that name the endpoint of a model.
var ModelVariables = []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"}

// redirectVariable sets a variable with the endpoint of the model.
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

// opencodeProviders are the endpoints of opencode's built-in providers.
var opencodeProviders = map[string]string{
	"anthropic": "https://api.anthropic.com/v1", "openai": "https://api.openai.com/v1", "google": "https://generativelanguage.googleapis.com/v1beta",
	"openrouter": "https://openrouter.ai/api/v1", "opencode": "https://opencode.ai/zen/v1", "xai": "https://api.x.ai/v1",
	"groq": "https://api.groq.com/openai/v1", "mistral": "https://api.mistral.ai/v1", "deepseek": "https://api.deepseek.com",
}

// redirectOpencode sets the endpoint of opencode's provider in the configuration of
// OPENCODE_CONFIG_CONTENT, which overrides all others.
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
		return cfg, nil, fmt.Errorf("agent: redirect opencode: %w: the endpoint of the provider %q must be in %s; known providers: %s", fault.Unsupported, id, name,
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

// subObject returns a nested object, and makes it if it does not exist.
func subObject(m map[string]any, key string) map[string]any {
	inner, ok := m[key].(map[string]any)
	if !ok {
		inner = map[string]any{}
		m[key] = inner
	}
	return inner
}
