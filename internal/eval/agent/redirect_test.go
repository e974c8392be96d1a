package agent

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/eval/replay"
	"github.com/croft-run/croft/internal/testmodel"
)

// TestRedirect: an agent is told another place for its model, and the true one is
// known.
func TestRedirect(t *testing.T) {
	const base = "http://127.0.0.1:4000"
	for _, tt := range []struct {
		cfg            Config
		upstream, says string // says is somewhere in the invocation
	}{
		{Config{Type: "claude-code", Model: "m"}, "https://api.anthropic.com", "ANTHROPIC_BASE_URL=" + base},
		{Config{Type: "claude-code", Model: "m", Env: map[string]string{"ANTHROPIC_BASE_URL": "http://gw/a"}}, "http://gw", "ANTHROPIC_BASE_URL=" + base + "/a"},
		{Config{Type: "gemini", Model: "m"}, "https://generativelanguage.googleapis.com", "GOOGLE_GEMINI_BASE_URL=" + base},
		{Config{Type: "codex", Model: "m"}, "https://api.openai.com", `npx codex exec -c openai_base_url="` + base + `/v1" --model m`},
		{Config{Type: "opencode", Model: "anthropic/m"}, "https://api.anthropic.com", `OPENCODE_CONFIG_CONTENT={"provider":{"anthropic":{"options":{"baseURL":"` + base + `/v1"}}}}`},
		{Config{Type: "opencode", Model: "mine/m", Env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"provider":{"mine":{"options":{"baseURL":"http://gw/x"}}}}`}}, "http://gw", base + "/x"},
		{Config{Type: "command", Command: "x", Env: map[string]string{"OPENAI_BASE_URL": "https://gw/v1"}}, "https://gw", "OPENAI_BASE_URL=" + base + "/v1"},
		{Config{Type: "copilot", Model: "m", Env: map[string]string{"COPILOT_PROVIDER_BASE_URL": "https://gw/v1"}}, "https://gw", "COPILOT_PROVIDER_BASE_URL=" + base + "/v1"},
	} {
		cfg, up, err := Redirect(tt.cfg, base)
		if err != nil || up.String() != tt.upstream {
			t.Errorf("%+v: upstream %v, %v, want %s", tt.cfg, up, err, tt.upstream)
			continue
		}
		inv, err := mustNew(t, cfg).Prepare(t.Context(), input(t, cfg))
		if err != nil {
			t.Fatal(err)
		}
		all := inv.String()
		for k, v := range inv.Env {
			all += "\n" + k + "=" + v
		}
		if !strings.Contains(all, tt.says) {
			t.Errorf("%s, want in it %s", all, tt.says)
		}
	}
	for _, cfg := range []Config{{Type: "cursor-agent"}, {Type: "copilot"}, {Type: "opencode", Model: "mine/m"}} {
		if _, _, err := Redirect(cfg, base); fault.Of(err) != fault.Unsupported {
			t.Errorf("%s: %v, want unsupported", cfg.Type, err)
		}
	}
	if _, up, err := Redirect(Config{Type: "command", Command: "x"}, base); up != nil || err != nil {
		t.Errorf("a program that may have no model: upstream %v, %v, want neither", up, err)
	}
	if _, _, err := Redirect(Config{Type: "gemini"}, "nowhere"); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a base that is no URL: %v", err)
	}
}

// TestRealRedirect: a real agent with no settings asks where it is told to.
func TestRealRedirect(t *testing.T) {
	t.Parallel()
	c := clis["codex"]
	c.home = nil
	c.redirect = true
	c.env = func(string) map[string]string { return map[string]string{"CODEX_API_KEY": "none"} }
	out, in := c.run(t, func(dir string) http.Handler {
		up := &url.URL{Scheme: "https", Host: "api.openai.com"}
		return replay.Handler(up, inProcess{&testmodel.Model{Steps: c.steps(dir), Last: "There are 2 lines."}})
	})
	if out.Failure != nil {
		t.Fatalf("failure: %v", out.Failure)
	}
	c.check(t, out.Report, in)
}
