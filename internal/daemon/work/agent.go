package work

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/agent"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// An Agent is a program that works on a project, and what it needs.
type Agent struct {
	Name    string
	Program string
	Install string   // command that installs it
	Hosts   []string // of its model, unless Base or its settings name another one

	Base     string            // variable with the URL of its model
	Keys     []string          // variables with a key of its model
	Prefixes []string          // of further variables that are passed on, except secrets
	Env      map[string]string // that it always has
	NoAsk    []string          // arguments with which it asks for no permissions
	NoAskEnv map[string]string // variables with which it asks for no permissions
	Continue []string          // arguments with which it continues its last conversation

	Files []string // of the user's home that are copied, if they have no secret in them
	Own   []string // of the user's home, files and directories that it writes
	Login *Login   // nil if it has no login file that is understood

	// ownKey returns the variable with the key of the model that the settings and arguments name, "" if
	// that needs none; ok is false where the Keys and the Login are for the model.
	ownKey func(u User, words []string) (name string, ok bool)

	// moreKeys returns variables with keys that the agent's settings name.
	moreKeys func(u User) []string

	// settingsBase returns the URL of the model that the agent's settings name, "" if none. It
	// counts before the variable.
	settingsBase func(u User) string

	// prepare adds what is particular to the agent, after its files.
	prepare func(s *Start, u User) error
}

// Agents are the known agents.
var Agents = []*Agent{
	{
		Name: "claude", Program: "claude", Own: []string{".claude", ".claude.json"}, Install: "npm install -g @anthropic-ai/claude-code", Hosts: []string{"api.anthropic.com"},
		Base: "ANTHROPIC_BASE_URL", Keys: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
		Prefixes: []string{"ANTHROPIC_", "CLAUDE_CODE_"},
		Env:      map[string]string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"},
		NoAsk:    []string{"--dangerously-skip-permissions"}, Continue: []string{"--continue"}, Files: []string{claudeSettings, ".claude/CLAUDE.md"},
		Login: claudeLogin, settingsBase: claudeBase, prepare: prepareClaude,
	},
	{
		Name: "codex", Program: "codex", Own: []string{".codex"}, Install: "npm install -g @openai/codex", Hosts: []string{"api.openai.com"},
		Base: "OPENAI_BASE_URL", Keys: []string{"OPENAI_API_KEY", "CODEX_API_KEY"}, Prefixes: []string{"OPENAI_", "CODEX_OSS_"},
		NoAsk: []string{"--dangerously-bypass-approvals-and-sandbox"}, Continue: []string{"resume", "--last"}, Files: []string{".codex/config.toml", ".codex/AGENTS.md"},
		Login: codexLogin, ownKey: codexKey, moreKeys: codexKeys, settingsBase: codexBase, prepare: prepareCodex,
	},
	{
		Name: "opencode", Program: "opencode", Own: []string{".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"}, Install: "npm install -g opencode-ai",
		Keys:  []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
		Env:   map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
		Files: append([]string{".config/opencode/AGENTS.md"}, opencodeSettings...), Prefixes: []string{"OPENCODE_"}, Continue: []string{"--continue"},
		// It is merged with the permissions of all settings, kind by kind.
		NoAskEnv: map[string]string{"OPENCODE_PERMISSION": `{"*":"allow","bash":"allow","edit":"allow","read":"allow","task":"allow","webfetch":"allow","external_directory":"allow","doom_loop":"allow"}`},
		Login:    opencodeLogin, moreKeys: opencodeKeys, prepare: prepareOpencode,
	},
	{
		Name: "gemini", Program: "gemini", Own: []string{".gemini"}, Install: "npm install -g @google/gemini-cli", Hosts: []string{"generativelanguage.googleapis.com"},
		Base: "GOOGLE_GEMINI_BASE_URL", Keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, Prefixes: []string{"GEMINI_", "GOOGLE_"},
		Env:   map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"},
		NoAsk: []string{"--yolo"}, Continue: []string{"--resume", "latest"}, Files: []string{".gemini/settings.json", ".gemini/GEMINI.md"}, Login: geminiLogin,
	},
	{
		Name: "copilot", Program: "copilot", Own: []string{".copilot"}, Install: "npm install -g @github/copilot", Hosts: []string{"api.githubcopilot.com", "*.githubcopilot.com", "api.github.com"},
		Base: "COPILOT_PROVIDER_BASE_URL", Keys: []string{"COPILOT_PROVIDER_API_KEY", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"}, Prefixes: []string{"COPILOT_"},
		Env:   map[string]string{"COPILOT_AUTO_UPDATE": "false"},
		NoAsk: []string{"--allow-all-tools", "--allow-all-paths"}, Continue: []string{"--continue"}, prepare: prepareCopilot,
	},
}

// keyHosts are the hosts that a key is sent to, for keys of agents with several models.
var keyHosts = map[string]string{
	"ANTHROPIC_API_KEY": "api.anthropic.com", "OPENAI_API_KEY": "api.openai.com", "GEMINI_API_KEY": "generativelanguage.googleapis.com",
	"OPENROUTER_API_KEY": "openrouter.ai",
}

// FindAgent returns the agent of a name, nil if it is not known.
func FindAgent(name string) *Agent {
	for _, a := range Agents {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Names returns the names of the known agents.
func Names() []string {
	var names []string
	for _, a := range Agents {
		names = append(names, a.Name)
	}
	return names
}

// baseURL returns the URL of the model that the user named, "" if none.
func (a *Agent) baseURL(u User) string {
	if base := u.models[a.Name]; base != "" {
		return base
	}
	if a.settingsBase != nil {
		if base := a.settingsBase(u); base != "" {
			return base
		}
	}
	return u.Env(a.Base)
}

// claudeSettings is the settings file of Claude Code, which also sets variables.
const claudeSettings = ".claude/settings.json"

// claudeBase returns the URL of the model in the settings of Claude Code.
func claudeBase(u User) string {
	data, err := os.ReadFile(u.userFile(claudeSettings))
	if err != nil {
		return ""
	}
	return claudeBaseIn(data)
}

// claudeBaseIn returns the URL of the model in settings of Claude Code, "" if none.
func claudeBaseIn(settings []byte) string {
	var s struct {
		Env map[string]string `json:"env"`
	}
	if json.Unmarshal(settings, &s) != nil {
		return "" // the agent reports it
	}
	return s.Env["ANTHROPIC_BASE_URL"]
}

// prepareClaude answers the questions of a first start: the project is trusted, as nothing
// outside the workspace can be reached, and the key in the environment is to be used.
func prepareClaude(s *Start, _ User) error {
	projects := map[string]any{}
	for _, dir := range s.trustedDirs() {
		projects[dir] = map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}
	}
	state := map[string]any{"hasCompletedOnboarding": true, "theme": "dark", "bypassPermissionsModeAccepted": true, "projects": projects}
	if key := s.Env["ANTHROPIC_API_KEY"]; key != "" {
		const shown = 20 // bytes of a key by which Claude Code remembers the answer
		state["customApiKeyResponses"] = map[string]any{"approved": []string{key[max(0, len(key)-shown):]}, "rejected": []string{}}
	}
	return s.addJSON(".claude.json", state)
}

// codexConfig is the part of config.toml that names variables with keys, and the trusted projects.
type codexConfig struct {
	Providers map[string]struct {
		EnvKey string `toml:"env_key"`
	} `toml:"model_providers"`
	Projects map[string]any `toml:"projects"`
}

// codexSettings is the settings file of Codex.
const codexSettings = ".codex/config.toml"

// codexBase returns the URL of the model in the settings of Codex, "" if they do not name one.
func codexBase(u User) string { return codexBaseWith(u, nil) }

// codexBaseWith returns the URL of the model in the settings of Codex and its arguments.
func codexBaseWith(u User, words []string) string {
	_, base, err := agent.CodexModel(codexSetup(u, words))
	if err != nil || base.Host == "api.openai.com" {
		return ""
	}
	return base.String()
}

// codexSetup returns what the model of Codex is chosen by.
func codexSetup(u User, words []string) agent.Config {
	env := map[string]string{}
	for _, name := range codexLocal {
		env[name] = u.Env(name)
	}
	return agent.Config{UserHome: u.Home, CommandArgs: words, Env: env}
}

// codexKey returns the variable with the key of the model, see Agent.ownKey.
func codexKey(u User, words []string) (string, bool) { return agent.CodexKey(codexSetup(u, words)) }

// codexLocal are the variables with the endpoint of a model on this host.
var codexLocal = []string{"CODEX_OSS_BASE_URL", "CODEX_OSS_PORT"}

// codexKeys returns the variables that the settings of Codex name for keys.
func codexKeys(u User) []string {
	var names []string
	if u.codexKey != "" {
		names = append(names, u.codexKey)
	}
	var c codexConfig
	data, err := os.ReadFile(u.userFile(codexSettings))
	if err != nil || toml.Unmarshal(data, &c) != nil {
		return names
	}
	for _, p := range c.Providers {
		names = Add(names, p.EnvKey)
	}
	return names
}

// prepareCodex trusts the project, and turns off the sandbox of Codex, which does not start
// in another one.
func prepareCodex(s *Start, _ User) error {
	const file = codexSettings
	var c codexConfig
	if err := toml.Unmarshal(s.Home[file], &c); err != nil {
		return fmt.Errorf("work: codex: ~/%s: %w: %w", file, fault.InvalidArgument, err)
	}
	s.Args = append(s.Args, "-c", `sandbox_mode="danger-full-access"`)
	for _, dir := range s.trustedDirs() {
		if _, ok := c.Projects[dir]; !ok {
			s.addFile(file, append(s.Home[file], fmt.Sprintf("\n[projects.%q]\ntrust_level = \"trusted\"\n", dir)...))
		}
	}
	if key := s.Env["OPENAI_API_KEY"]; key != "" && s.Home[".codex/auth.json"] == nil {
		return s.addJSON(".codex/auth.json", map[string]any{"OPENAI_API_KEY": key})
	}
	return nil
}

// opencodeSettings are the settings files of opencode, which may have comments.
var opencodeSettings = []string{".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"}

// opencodeKeys returns the variables that the settings of opencode name for keys.
func opencodeKeys(u User) []string {
	var names []string
	for _, file := range opencodeSettings {
		data, err := os.ReadFile(u.userFile(file))
		if err != nil {
			continue
		}
		names = Add(names, envReferences(data)...)
	}
	return names
}

// envReferences returns the variables that a settings file of opencode refers to.
func envReferences(data []byte) []string {
	var names []string
	for _, m := range envReference.FindAllSubmatch(data, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

var envReference = lazyregexp.New(`\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

// prepareOpencode allows the hosts of the providers in its settings, and hides their keys.
func prepareOpencode(s *Start, u User) error {
	var keys []string
	for _, file := range opencodeSettings {
		if s.Home[file] == nil {
			continue
		}
		keys = Add(keys, envReferences(s.Home[file])...)
		var settings map[string]any
		text, err := hujson.Standardize(slices.Clone(s.Home[file]))
		if err == nil {
			err = json.Unmarshal(text, &settings)
		}
		if err != nil {
			return fmt.Errorf("work: opencode: ~/%s: %w: %w", file, fault.InvalidArgument, err)
		}
		providers, _ := settings["provider"].(map[string]any)
		for _, p := range providers {
			options, _ := object(p, "options")
			if base, ok := options["baseURL"].(string); ok {
				s.addModel(base)
			}
		}
	}
	for _, name := range keys {
		s.addKey(name, u)
	}
	return nil
}

// prepareCopilot trusts the project, and keeps Copilot with a model of its own from asking
// GitHub.
func prepareCopilot(s *Start, _ User) error {
	if s.Env["COPILOT_PROVIDER_BASE_URL"] != "" {
		s.Env["COPILOT_OFFLINE"] = "true"
	}
	return s.addJSON(".copilot/config.json", map[string]any{"trusted_folders": s.trustedDirs(), "banner": "never"})
}

func object(v any, key string) (map[string]any, bool) {
	m, _ := v.(map[string]any)
	inner, ok := m[key].(map[string]any)
	return inner, ok
}

// setModel makes the host of a URL the only host of the model.
func (s *Start) setModel(base string) {
	s.models, s.Gateways = nil, nil
	s.addModel(base)
}

// addModel adds the host of a URL to the hosts of the model.
func (s *Start) addModel(base string) {
	if u, err := url.Parse(base); err == nil && u.Host != "" {
		s.models = append(s.models, modelHost{u.Host, true})
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80"}[u.Scheme]
		}
		s.Gateways = append(s.Gateways, net.JoinHostPort(u.Hostname(), cmp.Or(port, "443")))
	}
}

// userFile returns the path of a file in the user's home.
func (u User) userFile(name string) string { return filepath.Join(u.Home, name) }
