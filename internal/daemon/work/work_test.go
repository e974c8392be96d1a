package work

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace"
)

// put writes files below a directory.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// user makes a home with the programs of all agents and a project.
func user(t *testing.T, env ...string) (User, Project) {
	t.Helper()
	home := t.TempDir()
	for _, a := range Agents {
		put(t, home, map[string]string{"tools/" + a.Name + "/bin/" + a.Program: "#!/bin/sh\n", "app/.git/HEAD": ""})
		env = append(env, "PATH="+filepath.Join(home, "tools", a.Name, "bin")+":"+pathOf(env))
	}
	u := User{Home: home, Environ: env}
	p, err := FindProject(filepath.Join(home, "app"), home)
	if err != nil {
		t.Fatal(err)
	}
	return u, p
}

func pathOf(env []string) string { return User{Environ: env}.Env("PATH") }

// jwt makes a JSON Web Token that expires at a time.
func jwt(expires time.Time) string {
	claims := fmt.Sprintf(`{"exp":%d,"email":"a@example.com"}`, expires.Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".planted-signature"
}

// TestLogins gives each agent a key or a login file: the tokens are nowhere in what a work
// is opened with, their placeholders are, and each goes to the hosts of its model alone.
func TestLogins(t *testing.T) {
	later := time.Now().Add(time.Hour)
	const secret = "planted-secret-0123456789"
	for _, tt := range []struct {
		name, agent string
		env         []string
		files       map[string]string
		want        map[string]string // credential by host
		inside      string            // of the file that has the placeholder
	}{
		{"claude, key", "claude", []string{"ANTHROPIC_API_KEY=" + secret}, nil, map[string]string{"api.anthropic.com": "anthropic_api_key"}, ""},
		{"claude, gateway", "claude", []string{"ANTHROPIC_AUTH_TOKEN=" + secret, "ANTHROPIC_BASE_URL=https://llm.test:8443/x"}, nil, map[string]string{"llm.test:8443": "anthropic_auth_token"}, ""},
		{"claude, login", "claude", nil, map[string]string{".claude/.credentials.json": fmt.Sprintf(`{"claudeAiOauth":{"accessToken":%q,"refreshToken":"planted-refresh-1","expiresAt":%d},"mcpOAuth":{"x":"planted-mcp"}}`, secret, later.UnixMilli())},
			map[string]string{"api.anthropic.com": "claude_login"}, ".claude/.credentials.json"},
		{"codex, key", "codex", []string{"OPENAI_API_KEY=" + secret}, nil, map[string]string{"api.openai.com": "openai_api_key"}, ".codex/auth.json"},
		{"codex, login", "codex", nil, map[string]string{".codex/auth.json": fmt.Sprintf(`{"OPENAI_API_KEY":null,"tokens":{"id_token":%q,"access_token":%q,"refresh_token":"planted-refresh-2"}}`, jwt(later), jwt(later))},
			map[string]string{"api.openai.com": "", "chatgpt.com": "codex_login"}, ".codex/auth.json"},
		{"codex, own provider", "codex", []string{"MY_KEY=" + secret}, map[string]string{".codex/config.toml": "model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"https://llm.test/v1\"\nenv_key = \"MY_KEY\"\n"},
			map[string]string{"llm.test": "my_key"}, ""},
		{"codex, own provider beside OpenAI", "codex", []string{"OPENAI_API_KEY=planted-openai", "MY_KEY=" + secret}, map[string]string{
			".codex/config.toml": "profile = \"p\"\n[profiles.p]\nmodel_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"https://llm.test/v1\"\nenv_key = \"MY_KEY\"\n",
			".codex/auth.json":   fmt.Sprintf(`{"OPENAI_API_KEY":null,"tokens":{"id_token":%q,"access_token":%q,"refresh_token":"planted-refresh-5"}}`, jwt(later), jwt(later))},
			map[string]string{"llm.test": "my_key"}, ""},
		{"opencode, login", "opencode", nil, map[string]string{".local/share/opencode/auth.json": fmt.Sprintf(`{"anthropic":{"type":"oauth","access":%q,"refresh":"planted-refresh-3","expires":%d},"odd":{"type":"api","key":"planted-odd"}}`, secret, later.UnixMilli())},
			map[string]string{"api.anthropic.com": "opencode_anthropic"}, ".local/share/opencode/auth.json"},
		{"opencode, own providers, with comments", "opencode", []string{"MY_KEY=" + secret}, map[string]string{
			".config/opencode/opencode.json":  "{\n  // mine\n  \"provider\": {\"a\": {\"options\": {\"baseURL\": \"https://llm.test/v1\", \"apiKey\": \"{env:MY_KEY}\"}}},\n}\n",
			".config/opencode/opencode.jsonc": "{\"provider\": {\"b\": {\"options\": {\"baseURL\": \"https://other.test/v1\", \"apiKey\": \"{env:MY_KEY}\"}}} /* and */}\n"},
			map[string]string{"llm.test": "my_key", "other.test": "my_key"}, ""},
		{"opencode, two keys", "opencode", []string{"OPENAI_API_KEY=" + secret, "ANTHROPIC_API_KEY=" + secret + "b"}, nil,
			map[string]string{"api.anthropic.com": "anthropic_api_key", "api.openai.com": "openai_api_key"}, ""},
		{"gemini, login", "gemini", nil, map[string]string{".gemini/oauth_creds.json": fmt.Sprintf(`{"access_token":%q,"refresh_token":"planted-refresh-4","expiry_date":%d}`, secret, later.UnixMilli())},
			map[string]string{"generativelanguage.googleapis.com": "", "cloudcode-pa.googleapis.com": "gemini_login"}, ".gemini/oauth_creds.json"},
		{"copilot, token", "copilot", []string{"GH_TOKEN=" + secret}, nil,
			map[string]string{"api.githubcopilot.com": "gh_token", "*.githubcopilot.com": "gh_token", "api.github.com": "gh_token"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, p := user(t, tt.env...)
			put(t, u.Home, tt.files)
			s, err := New(Options{Project: p, Agent: FindAgent(tt.agent)}, u)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := s.Spec()
			if err != nil {
				t.Fatal(err)
			}
			if (Options{}).Again(spec.Labels).ShareLogin {
				t.Errorf("labels %v start it again with --share-login", spec.Labels)
			}
			got := map[string]string{}
			for _, r := range spec.Policy.Network.Allow {
				at := r.Host
				for _, port := range r.Ports {
					at += fmt.Sprintf(":%d", port)
				}
				got[at] = r.Credential
				if r.Credential != "" && u.Secrets()[r.Credential].Text == "" {
					t.Errorf("the secret %s has no value", r.Credential)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("credentials by host (-want +got):\n%s", diff)
			}
			all, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			text := string(all)
			for name, data := range s.Home {
				text += "\n" + name + ": " + string(data)
			}
			if strings.Contains(text, "planted-") {
				t.Errorf("a secret is inside: %s", text)
			}
			if !strings.Contains(text, "croft-secret:") {
				t.Errorf("no placeholder is inside: %s", text)
			}
			if tt.inside != "" && !strings.Contains(string(s.Home[tt.inside]), "croft-secret:") {
				t.Errorf("%s is %s", tt.inside, s.Home[tt.inside])
			}
			shared, err := New(Options{Project: p, Agent: FindAgent(tt.agent), ShareLogin: true}, u)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(shared.Notes, func(n string) bool { return strings.Contains(n, "is inside") }) {
				t.Errorf("--share-login says %q", shared.Notes)
			}
			if slices.ContainsFunc(shared.Notes, func(n string) bool { return strings.Contains(n, "no login") }) {
				t.Errorf("--share-login says %q", shared.Notes)
			}
			// Started again, the work has the login as before.
			if spec, err = shared.Spec(); err != nil {
				t.Fatal(err)
			}
			if again := (Options{}).Again(spec.Labels); !again.ShareLogin || again.NoAsk || again.Agent != shared.Agent {
				t.Errorf("labels %v start it again with %+v", spec.Labels, again)
			}
		})
	}
}

// TestRenew starts an agent again after its user has logged in, and after the key is not set
// any more: the login of now is the one that is used.
func TestRenew(t *testing.T) {
	u, p := user(t)
	open := func(env ...string) *Start {
		t.Helper()
		s, err := New(Options{Project: p, Agent: FindAgent("claude")}, User{Home: u.Home, Environ: append(env, u.Environ...)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	none, err := open().Spec()
	if err != nil {
		t.Fatal(err)
	}
	keyed := open("ANTHROPIC_API_KEY=planted-key-01234567")
	withKey, err := keyed.Spec()
	if err != nil {
		t.Fatal(err)
	}
	put(t, u.Home, map[string]string{".claude/.credentials.json": `{"claudeAiOauth":{"accessToken":"planted-token"}}`})
	more := workspace.NetRule{Host: "more.test"} // of croft work allow
	for _, tt := range []struct {
		name   string
		before workspace.Policy
		start  *Start
		env    map[string]string
		cred   string
	}{
		{"logged in since", none.Policy, open(), nil, "claude_login"},
		{"key since", none.Policy, keyed, map[string]string{"ANTHROPIC_API_KEY": "croft-secret:anthropic_api_key"}, "anthropic_api_key"},
		{"login instead of a key", withKey.Policy, open(), map[string]string{"ANTHROPIC_API_KEY": ""}, "claude_login"},
		{"as before", withKey.Policy, keyed, nil, "anthropic_api_key"},
	} {
		tt.before.Network.Allow = append(slices.Clone(tt.before.Network.Allow), more)
		tt.start.AgentEnv = nil
		got := tt.start.Renew(tt.before, u)
		want := []workspace.NetRule{{Host: "api.anthropic.com", Credential: tt.cred}, more}
		if diff := cmp.Diff(want, got.Network.Allow); diff != "" {
			t.Errorf("%s: rules (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.env, tt.start.AgentEnv); diff != "" {
			t.Errorf("%s: variables (-want +got):\n%s", tt.name, diff)
		}
		if tt.name == "as before" != got.Equal(tt.before) {
			t.Errorf("%s: the policy is %+v, before %+v", tt.name, got, tt.before)
		}
	}
}

// TestNoAsk: each agent has arguments or variables with which it asks for no permissions.
func TestNoAsk(t *testing.T) {
	u, p := user(t)
	for _, a := range Agents {
		asks, err := New(Options{Project: p, Agent: a}, u)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Project: p, Agent: a, NoAsk: true}, u)
		if err != nil {
			t.Fatal(err)
		}
		if spec, err := s.Spec(); err != nil || !(Options{}).Again(spec.Labels).NoAsk {
			t.Errorf("%s does not start again as it started: %v", a.Name, err)
		}
		if len(asks.AgentEnv) > 0 || len(s.AgentEnv)+len(s.Argv) <= len(asks.Argv) {
			t.Errorf("%s: %q %q, with NoAsk %q %q", a.Name, asks.AgentEnv, asks.Argv, s.AgentEnv, s.Argv)
		}
	}
}

// TestExpiredLogin refuses a login that has expired, and says how to renew it.
func TestExpiredLogin(t *testing.T) {
	u, p := user(t)
	put(t, u.Home, map[string]string{".claude/.credentials.json": `{"claudeAiOauth":{"accessToken":"planted-old","expiresAt":1000}}`})
	_, err := New(Options{Project: p, Agent: FindAgent("claude")}, u)
	if fault.Of(err) != fault.Unauthenticated || !strings.Contains(err.Error(), "start claude once outside") {
		t.Errorf("an expired login: %v", err)
	}
}

// TestSettingsWithSecret leaves out a settings file of an agent with a secret in it.
func TestSettingsWithSecret(t *testing.T) {
	u, p := user(t, "ANTHROPIC_API_KEY=planted-key-01234567")
	put(t, u.Home, map[string]string{".claude/settings.json": `{"env":{"GITHUB_TOKEN":"ghp_0123456789abcdefghijABCDEFGHIJ012345"}}`, ".claude/CLAUDE.md": "be kind"})
	s, err := New(Options{Project: p, Agent: FindAgent("claude")}, u)
	if err != nil {
		t.Fatal(err)
	}
	if s.Home[".claude/settings.json"] != nil || string(s.Home[".claude/CLAUDE.md"]) != "be kind" {
		t.Errorf("the home has %q", s.Home)
	}
	if !slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, "left out ~/.claude/settings.json") }) {
		t.Errorf("it says %q", s.Notes)
	}
}

// TestVariablesWithSecret: variables of an agent that may hold a secret are left out and
// named; the others are inside.
func TestVariablesWithSecret(t *testing.T) {
	u, p := user(t, "ANTHROPIC_MODEL=claude-x", "ANTHROPIC_CUSTOM_HEADERS=x-gateway: planted-header", "ANTHROPIC_FOUNDRY_API_KEY=planted-foundry", "ANTHROPIC_API_KEY=planted-key-01234567",
		"ANTHROPIC_BASE_URL=https://me:planted-password@llm.test", "HOME_TOKEN=planted-other")
	s, err := New(Options{Project: p, Agent: FindAgent("claude")}, u)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := s.Spec()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spec)
	if err != nil || strings.Contains(string(text), "planted-") {
		t.Errorf("a secret is in %s, %v", text, err)
	}
	if spec.Policy.Env["ANTHROPIC_MODEL"] != "claude-x" {
		t.Errorf("the environment is %v", spec.Policy.Env)
	}
	const want = "left out the variables ANTHROPIC_CUSTOM_HEADERS, ANTHROPIC_FOUNDRY_API_KEY, ANTHROPIC_BASE_URL: they may hold a secret; --env ANTHROPIC_CUSTOM_HEADERS=... passes one on"
	if !slices.Contains(s.Notes, want) {
		t.Errorf("the notes are %q", s.Notes)
	}
}

// TestProgram shows the package of a program and its interpreter, without credential files,
// and never the home.
func TestProgram(t *testing.T) {
	u, p := user(t)
	put(t, u.Home, map[string]string{
		"nvm/v20/lib/node_modules/@openai/codex/bin/codex.js": "#!/usr/bin/env node\n", "nvm/v20/bin/node": "",
		"claude": "#!/bin/sh\n",
	})
	if err := os.Symlink("../lib/node_modules/@openai/codex/bin/codex.js", filepath.Join(u.Home, "nvm/v20/bin/codex")); err != nil {
		t.Fatal(err)
	}
	u.Environ = []string{"PATH=" + filepath.Join(u.Home, "nvm/v20/bin") + ":" + u.Home + ":/usr/bin"}
	s, err := New(Options{Project: p, Agent: FindAgent("codex"), Words: []string{"hi"}}, u)
	if err != nil {
		t.Fatal(err)
	}
	nvm := filepath.Join(u.Home, "nvm/v20")
	if diff := cmp.Diff([]string{nvm + "/lib/node_modules", nvm}, s.ReadOnly); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{nvm + "/lib/node_modules/@openai/codex/bin/codex.js", "-c", `sandbox_mode="danger-full-access"`, "hi"}, s.Argv); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
	spec, err := s.Spec()
	if err != nil {
		t.Fatal(err)
	}
	binds := []sandbox.Bind{{Dir: nvm, ReadOnly: true, HideCredentials: true, Optional: true}}
	if diff := cmp.Diff(binds, s.SandboxOptions().Binds, cmpopts.IgnoreUnexported(sandbox.Bind{})); diff != "" {
		t.Errorf("binds (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(spec.Policy.Env["PATH"], nvm+"/bin:") {
		t.Errorf("PATH is %s", spec.Policy.Env["PATH"])
	}
	if _, err := New(Options{Project: p, Agent: FindAgent("claude")}, u); fault.Of(err) != fault.Unsupported {
		t.Errorf("a program in the home itself: %v", err)
	}
	if _, err := New(Options{Project: p, Agent: FindAgent("gemini")}, u); fault.Of(err) != fault.NotFound || !strings.Contains(err.Error(), "npm install -g @google/gemini-cli") {
		t.Errorf("an agent that is not installed: %v", err)
	}
}

// TestFindProject finds the root of the repository around a directory, but not that of the
// user's dotfiles.
func TestFindProject(t *testing.T) {
	home := t.TempDir()
	put(t, home, map[string]string{".git/HEAD": "", "src/app/.git/HEAD": "", "src/app/sub/file": "", "src/app/.git/objects/x": "", "src/app/.git/refs/x": "", "notes/file": "",
		"bare/HEAD": "", "bare/objects/x": "", "bare/refs/x": "", "bare/hooks/x": ""})
	for _, tt := range []struct {
		dir, want, sub string
		repository     bool
	}{{"src/app/sub", "src/app", "sub", true}, {"src/app", "src/app", "", true}, {"src/app/.git", "src/app", "", true}, {"src/app/.git/refs", "src/app", "", true}, {"notes", "notes", "", false}, {"src", "src", "", false}} {
		p, err := FindProject(filepath.Join(home, tt.dir), home)
		if want := (Project{Dir: filepath.Join(home, tt.want), Sub: tt.sub, Repository: tt.repository}); err != nil || p != want {
			t.Errorf("%s: %+v, %v, want %+v", tt.dir, p, err, want)
		}
	}
	for _, dir := range []string{home, "/"} {
		if p, err := FindProject(dir, home); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: %+v, %v", dir, p, err)
		}
	}
	put(t, home, map[string]string{"tree/.git": "gitdir: /elsewhere/worktrees/tree\n", "linked/file": ""})
	if err := os.Symlink("../src/app/.git", filepath.Join(home, "linked/.git")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"tree": "/elsewhere/worktrees/tree", "linked": "../src/app/.git", "src/app": ""} {
		if p, err := FindProject(filepath.Join(home, dir), home); err != nil || p.LinkedGit != want {
			t.Errorf("%s: the git directory is %q, %v, want %q", dir, p.LinkedGit, err, want)
		}
	}
	for _, dir := range []string{"bare", "bare/hooks"} {
		if p, err := FindProject(filepath.Join(home, dir), home); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "bare is a bare repository") {
			t.Errorf("%s: %+v, %v", dir, p, err)
		}
	}
	odd := filepath.Join(t.TempDir(), "odd\xff")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := FindProject(odd, t.TempDir()); fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "not valid UTF-8") {
		t.Errorf("a path that is not UTF-8: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		dir, agent string
		n          int
		want       string
	}{
		{"/src/My App", "claude", 1, "my-app-claude"},
		{"/src/app", "codex", 2, "app-codex-2"},
		{"/src/" + strings.Repeat("x", 80), "sh", 3, strings.Repeat("x", 61) + "-3"},
		{"/src/日本", "語", 1, "work"},
	} {
		if got := (Project{Dir: tt.dir}).Name(tt.agent, tt.n); got != tt.want {
			t.Errorf("%s, %s, %d: %q, want %q", tt.dir, tt.agent, tt.n, got, tt.want)
		}
	}
}

// TestNamedModels forwards a gateway on the loopback interface that a start names, and gives it the
// key. The settings of a project, which may come from anywhere, open no port by themselves.
func TestNamedModels(t *testing.T) {
	const at, settings = "http://127.0.0.1:4000", `{"env":{"ANTHROPIC_BASE_URL":"http://127.0.0.1:4000"}}`
	allowed := []workspace.NetRule{{Host: "127.0.0.1", Ports: []int{4000}}}
	for _, tt := range []struct {
		name, agent string
		words       []string
		env         map[string]string
		inProject   bool
		allow       []workspace.NetRule
		key         string // its credential, or none; "" is that of the first key of the agent
		want, note  string
	}{
		{name: "variable", agent: "claude", env: map[string]string{"ANTHROPIC_BASE_URL": at}, want: "127.0.0.1:4000"},
		{name: "settings as text", agent: "claude", words: []string{"--settings", settings}, want: "127.0.0.1:4000"},
		{name: "settings as file", agent: "claude", words: []string{"--settings=.claude/settings.json"}, inProject: true, want: "127.0.0.1:4000"},
		{name: "project", agent: "claude", inProject: true, want: "api.anthropic.com", note: "--allow-net 127.0.0.1:4000"},
		{name: "project, allowed", agent: "claude", inProject: true, allow: allowed, want: "127.0.0.1:4000"},
		{name: "codex", agent: "codex", words: []string{"-c", "model_provider=mine", "-c", `model_providers.mine.base_url="http://127.0.0.1:4000/v1"`}, want: "127.0.0.1:4000"},
		{name: "codex, key of its own", agent: "codex", words: []string{"-c", "model_provider=mine", "-c", `model_providers.mine.base_url="http://127.0.0.1:4000/v1"`,
			"-c", "model_providers.mine.env_key=MY_KEY"}, key: "my_key", want: "127.0.0.1:4000"},
		{name: "codex --oss", agent: "codex", words: []string{"--oss"}, key: "none", want: "localhost:11434"},
		{name: "codex --oss, variable", agent: "codex", words: []string{"--oss"}, env: map[string]string{"CODEX_OSS_PORT": "4000"}, key: "none", want: "localhost:4000"},
		{name: "codex --oss, setting", agent: "codex", words: []string{"--oss", "-c", "oss_provider=lmstudio"}, key: "none", want: "localhost:1234"},
		{name: "codex --local-provider", agent: "codex", words: []string{"--local-provider", "lmstudio", "--oss"}, key: "none", want: "localhost:1234"},
		{name: "not understood", agent: "gemini", words: []string{"--endpoint", "http://localhost:4000/x"}, want: "generativelanguage.googleapis.com", note: "--allow-net localhost:4000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, p := user(t, "ANTHROPIC_API_KEY=planted-key-01234567", "OPENAI_API_KEY=planted-key-01234567", "GEMINI_API_KEY=planted-key-01234567", "MY_KEY=planted-key-01234567")
			if tt.inProject {
				put(t, p.Dir, map[string]string{".claude/settings.json": settings})
			}
			opts := Options{Project: p, Agent: FindAgent(tt.agent), Words: tt.words, Allow: tt.allow}
			u = u.ForStart(opts, tt.env)
			s, err := New(opts, u)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, r := range s.rules() {
				at := r.Host
				for _, port := range r.Ports {
					at += fmt.Sprintf(":%d", port)
				}
				got[at] = r.Credential
			}
			key := strings.ToLower(FindAgent(tt.agent).Keys[0])
			if tt.key != "" {
				key = strings.TrimPrefix(tt.key, "none")
			}
			if diff := cmp.Diff(map[string]string{tt.want: key}, got); diff != "" {
				t.Errorf("credentials by host (-want +got):\n%s", diff)
			}
			if plain := u.Secrets()[key].Plain; plain != (tt.note == "") && key != "" {
				t.Errorf("the key is sent over plain HTTP: %t", plain)
			}
			if notes := strings.Join(s.Notes, "\n"); strings.Contains(notes, "--allow-net") != (tt.note != "") || !strings.Contains(notes, tt.note) {
				t.Errorf("the notes are %q, want %q", notes, tt.note)
			}
		})
	}
}
