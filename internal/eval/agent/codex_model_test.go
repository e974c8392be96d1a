package agent

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/croft-run/croft/fault"
)

// TestCodexIsMovedFromItsOwnProvider redirects Codex with settings of its user.
func TestCodexIsMovedFromItsOwnProvider(t *testing.T) {
	const file = `
model_provider = "mine"
[model_providers.mine]
base_url = "https://mine.test/v1"
[model_providers.other]
base_url = "https://other.test:8443/api"
[model_providers.empty]
name = "without a place"
[profiles.work]
model_provider = "other"
`
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".codex", "config.toml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	const base = "http://127.0.0.1:1/model"
	for name, c := range map[string]struct {
		home     string
		args     []string
		env      map[string]string
		up, want string
		code     fault.Code
	}{
		"no settings":      {up: "https://api.openai.com", want: `openai_base_url="` + base + `/v1"`},
		"of the variable":  {env: map[string]string{"OPENAI_BASE_URL": "http://stub.test/x"}, up: "http://stub.test", want: `openai_base_url="` + base + `/x"`},
		"of the file":      {home: home, up: "https://mine.test", want: `model_providers.mine.base_url="` + base + `/v1"`},
		"of a profile":     {home: home, args: []string{"--profile", "work"}, up: "https://other.test:8443", want: `model_providers.other.base_url="` + base + `/api"`},
		"of an argument":   {home: home, args: []string{"-c", `model_provider="other"`}, up: "https://other.test:8443", want: `model_providers.other.base_url="` + base + `/api"`},
		"openai after all": {home: home, args: []string{"--config=model_provider=openai"}, up: "https://api.openai.com", want: `openai_base_url="` + base + `/v1"`},
		"a new one":        {args: []string{"-c", "model_provider=new", "-c", `model_providers.new.base_url=http://new.test`}, up: "http://new.test", want: `model_providers.new.base_url="` + base + `"`},
		"an inline table": {args: []string{"-c", "model_provider=new", "-c", `model_providers.new={name="new",base_url="http://new.test/v1",env_key="K",wire_api="responses"}`},
			up: "http://new.test", want: `model_providers.new.base_url="` + base + `/v1"`},
		"all providers in a table": {args: []string{"-c", `model_providers={new={base_url="http://new.test"}}`, "-c", "model_provider=new"}, up: "http://new.test", want: `model_providers.new.base_url="` + base + `"`},
		"one that is local":        {args: []string{"-c", "model_provider=ollama"}, up: "http://localhost:11434", want: `model_providers.ollama.base_url="` + base + `/v1"`},
		"of the local one":         {home: home, args: []string{"--oss"}, up: "http://localhost:11434", want: `model_providers.ollama.base_url="` + base + `/v1"`},
		"of another local one": {home: home, args: []string{"--local-provider=lmstudio", "--oss"}, env: map[string]string{"CODEX_OSS_PORT": "9"},
			up: "http://localhost:9", want: `model_providers.lmstudio.base_url="` + base + `/v1"`},
		"a local one without --oss": {home: home, args: []string{"--local-provider=lmstudio"}, up: "https://mine.test", want: `model_providers.mine.base_url="` + base + `/v1"`},
		"without a place":           {home: home, args: []string{"-c", "model_provider=empty"}, code: fault.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			got, up, err := Redirect(Config{Type: "codex", Model: "m", CommandArgs: c.args, Env: c.env, UserHome: c.home}, base)
			if c.code != "" {
				if fault.Of(err) != c.code || err == nil {
					t.Fatalf("got %v, want %s", err, c.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if up.String() != c.up || !slices.Equal(got.execArgs, []string{"-c", c.want}) {
				t.Errorf("it asks %s with %q, want %s with %q", up, got.execArgs, c.up, c.want)
			}
		})
	}
}
