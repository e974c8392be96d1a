package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

// TestTools: each kind of program is told of the server in its own way, and what the
// user has set stays.
func TestTools(t *testing.T) {
	const url = "http://127.0.0.1:3128/mcp"
	for kind, want := range map[string]string{
		"claude-code": "--mcp-config", "codex": `mcp_servers.croft.url="` + url + `"`, "opencode": `"mine":{"enabled":true}`,
		"gemini": `"theme":"dark"`, "copilot": "", "command": "CROFT_EVAL_TOOLS=" + url,
	} {
		t.Run(kind, func(t *testing.T) {
			in := Input{Prompt: "p", Dir: t.TempDir(), Artifacts: t.TempDir(), UserHome: t.TempDir(), Tools: url}
			put(t, in.UserHome, map[string]string{".gemini/settings.json": `{"theme": "dark"}`})
			a := mustNew(t, Config{Type: kind, Model: "m", Command: "x", Env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"mcp":{"mine":{"enabled":true}}}`}})
			inv, err := a.Prepare(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			told := strings.Join(inv.Argv, " ")
			for name, value := range inv.Env {
				told += "\n" + name + "=" + value
			}
			for _, name := range []string{claudeHome + "/croft-tools.json", geminiHome + "/.gemini/settings.json", copilotHome + "/mcp-config.json"} {
				text, _ := os.ReadFile(filepath.Join(in.Artifacts, name)) // there is one of them
				told += "\n" + string(text)
			}
			if !strings.Contains(told, url) || !strings.Contains(told, want) {
				t.Errorf("it is told %s\nwant it to be told %s and %s", told, url, want)
			}
			if last := inv.Argv[len(inv.Argv)-1]; kind != "copilot" && last != "p" {
				t.Errorf("the last argument is %q, want the prompt", last)
			}
		})
	}
	in := Input{Prompt: "p", Dir: t.TempDir(), Artifacts: t.TempDir(), Tools: url}
	if _, err := mustNew(t, Config{Type: "cursor-agent", Model: "m"}).Prepare(t.Context(), in); fault.Of(err) != fault.Unsupported {
		t.Errorf("a program that can't be told: %v, want it unsupported", err)
	}
	in.UserHome = t.TempDir()
	put(t, in.UserHome, map[string]string{".gemini/settings.json": `{"theme": `})
	if _, err := mustNew(t, Config{Type: "gemini", Model: "m"}).Prepare(t.Context(), in); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("settings that are no JSON: %v, want an invalid argument", err)
	}
}
