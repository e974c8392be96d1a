package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

// TestSetupAgents: what croft setup adds is what the agents themselves list, and --undo
// leaves the files as they were.
func TestSetupAgents(t *testing.T) {
	croft := buildCroft(t)
	for _, tt := range []struct{ name, file, before string }{
		{"claude", ".claude.json", "{\n  \"numStartups\": 3,\n  \"hasCompletedOnboarding\": true\n}\n"},
		{"codex", ".codex/config.toml", "# mine\nmodel = \"gpt-5\"\n"},
		{"opencode", ".config/opencode/opencode.json", "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  // mine\n  \"autoupdate\": false,\n}\n"},
		{"gemini", ".gemini/settings.json", "{\n  \"privacy\": {\"usageStatisticsEnabled\": false} // mine\n}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin := testenv.NeedsAgent(t, tt.name)
			testenv.OwnNetwork(t)
			home, dir := agentHome(t), t.TempDir()
			put(t, home, home, map[string]string{tt.file: tt.before})
			env := []string{"HOME=" + home, "PATH=" + croft + ":" + filepath.Dir(bin) + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "CI=1", "NO_COLOR=1",
				"CROFT_DATA=" + filepath.Join(home, "croft"), "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true",
				"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"}
			run := func(name string, args ...string) string {
				cmd := exec.Command(name, args...)
				cmd.Dir, cmd.Env = dir, env
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, out)
				}
				return string(out)
			}
			asked := run(filepath.Join(croft, "croft"), "setup", tt.name)
			if !strings.Contains(asked, "+") || !strings.Contains(asked, "croft") || !strings.Contains(asked, "--yes says yes") {
				t.Errorf("without --yes: %s", asked)
			}
			file := filepath.Join(home, tt.file)
			if data, err := os.ReadFile(file); err != nil || string(data) != tt.before {
				t.Errorf("without --yes the file is %q, %v", data, err)
			}
			run(filepath.Join(croft, "croft"), "setup", tt.name, "--yes")
			if list := run(bin, "mcp", "list"); !strings.Contains(list, "croft") {
				t.Errorf("%s mcp list: %s", tt.name, list)
			}
			run(filepath.Join(croft, "croft"), "setup", tt.name, "--undo", "--yes")
			if data, err := os.ReadFile(file); err != nil || tt.name != "claude" && string(data) != tt.before || strings.Contains(string(data), "mcp\", \"--dir") {
				t.Errorf("after --undo the file is %q, %v", data, err) // claude itself changes its file
			}
		})
	}
}

// TestSetup: as an ordinary user, with the files that agents have.
func TestSetup(t *testing.T) {
	p := newProject(t, 12345)
	if os.Getuid() != 0 {
		p = newProject(t, os.Getuid())
	}
	home := filepath.Dir(p.dir)
	p.setEnv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	if out, status := p.run(p.croft, "setup"); status == 0 || !strings.Contains(out, "no agent is installed; looked for claude, codex, opencode, gemini, copilot, cursor, vscode") {
		t.Errorf("without agents: exit %d, %s", status, out)
	}
	files := map[string]string{
		".claude.json": "{\"numStartups\": 1}\n", ".claude/settings.json": "{}", ".codex/config.toml": "# mine\n", ".config/opencode/opencode.jsonc": "{\n  // mine\n}\n",
		".gemini/settings.json": "{broken", ".copilot/config.json": "{}", ".cursor/mcp.json": "{\"mcpServers\": {}}", ".config/Code/User/settings.json": "{}",
	}
	put(t, "", home, files)
	if err := chownAll(home, p.uid); err != nil {
		t.Fatal(err)
	}
	before := digestTree(t, home)
	if out, status := p.run(p.croft, "setup", "claud"); status != 2 || !strings.Contains(out, "did you mean claude") {
		t.Errorf("an unknown agent: exit %d, %s", status, out)
	}
	out, status := p.run(p.croft, "setup", "--yes")
	if status == 0 || !strings.Contains(out, "settings.json: invalid argument: it is not valid JSON") {
		t.Errorf("with a file that can't be parsed: exit %d, %s", status, out)
	}
	for _, name := range []string{".claude.json", ".codex/config.toml", ".config/opencode/opencode.jsonc", ".copilot/mcp-config.json", ".cursor/mcp.json", ".config/Code/User/mcp.json"} {
		data, err := os.ReadFile(filepath.Join(home, name))
		if err != nil || !strings.Contains(string(data), "\"--dir\"") || !strings.Contains(string(data), p.croft) {
			t.Errorf("%s: %s, %v", name, data, err)
		}
		if backup, err := os.ReadFile(filepath.Join(home, name+".croft-backup")); files[name] != "" && (err != nil || string(backup) != files[name]) {
			t.Errorf("the backup of %s: %q, %v", name, backup, err)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(home, ".gemini/settings.json")); string(data) != "{broken" {
		t.Errorf("the file that can't be parsed: %s", data)
	}
	p.run(p.croft, "setup", "--undo", "--yes")
	after := digestTree(t, home)
	for path, is := range after { // times of changed files and directories differ
		if strings.HasSuffix(path, "croft-backup") || before[path] == "" {
			t.Errorf("%s stays: %s", path, is)
		}
	}
	for name, text := range files {
		if data, err := os.ReadFile(filepath.Join(home, name)); err != nil || string(data) != text {
			t.Errorf("after --undo, %s is %q, %v", name, data, err)
		}
	}
}
