package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

func agentsIn(home string) map[string]Agent {
	all := map[string]Agent{}
	for _, a := range Agents(Options{Home: home, Getenv: func(string) string { return "" }, LookPath: func(string) (string, error) { return "", os.ErrNotExist }}) {
		all[a.Name] = a
	}
	return all
}

// write writes the configuration of an agent.
func write(t *testing.T, a Agent, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(a.File), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.File, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// make makes a change, which there must be.
func (c *Change) must(t *testing.T, err error) string {
	t.Helper()
	if err != nil || c == nil {
		t.Fatalf("no change: %v", err)
	}
	backup, err := c.Make()
	if err != nil {
		t.Fatal(err)
	}
	return backup
}

func TestAddKeepsTheRest(t *testing.T) {
	for _, tt := range []struct{ name, agent, before, after string }{
		{"claude", "claude", `{
  "numStartups": 12,
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://example.com/mcp"
    }
  },
  "projects": {"/home/me/src": {"allowedTools": []}}
}
`, `{
  "numStartups": 12,
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://example.com/mcp"
    },
    "croft": {
      "type": "stdio",
      "command": "croft",
      "args": ["mcp", "--dir", "."],
      "alwaysLoad": true
    }
  },
  "projects": {"/home/me/src": {"allowedTools": []}}
}
`},
		{"claude without servers, on one line", "claude", `{"numStartups":1,"mcpServers":{}}`, `{"numStartups":1,"mcpServers":{
  "croft": {
    "type": "stdio",
    "command": "croft",
    "args": ["mcp", "--dir", "."],
    "alwaysLoad": true
  }
}}`},
		{"all on one line", "cursor", `{"mcpServers": {"a": {"command": "a"}}}`, `{"mcpServers": {"a": {"command": "a"}, "croft": {"command":"croft","args":["mcp","--dir","${workspaceFolder}"]}}}`},
		{"gemini, with tabs", "gemini", "{\n\t\"theme\": \"Dracula\"\n}\n", "{\n\t\"theme\": \"Dracula\",\n\t\"mcpServers\": {\n\t\t\"croft\": {\n\t\t\t\"command\": \"croft\",\n\t\t\t\"args\": [\"mcp\", \"--dir\", \".\"]\n\t\t}\n\t}\n}\n"},
		{"opencode, with comments and a trailing comma", "opencode", `{
  "$schema": "https://opencode.ai/config.json", // the schema
  /* servers, of mine */
  "mcp": {
    // a, first
    "a": {"type": "local", "command": ["a"]}, // not "croft": {}
  },
}
`, `{
  "$schema": "https://opencode.ai/config.json", // the schema
  /* servers, of mine */
  "mcp": {
    // a, first
    "a": {"type": "local", "command": ["a"]}, // not "croft": {}
    "croft": {
      "type": "local",
      "command": ["croft", "mcp", "--dir", "."],
      "enabled": true
    }
  },
}
`},
		{"vscode, a comment after the last value", "vscode", `{
    "servers": {
        "a": {"command": "a"} // the last, so far
    }
}
`, `{
    "servers": {
        "a": {"command": "a"}, // the last, so far
        "croft": {
            "type": "stdio",
            "command": "croft",
            "args": ["mcp", "--dir", "${workspaceFolder}"]
        }
    }
}
`},
		{"CRLF", "cursor", "{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n", "{\r\n  \"mcpServers\": {\r\n    \"a\": {},\r\n    \"croft\": {\r\n      \"command\": \"croft\",\r\n      \"args\": [\"mcp\", \"--dir\", \"${workspaceFolder}\"]\r\n    }\r\n  }\r\n}\r\n"},
		{"codex", "codex", `# my settings
model = "gpt-5" # the best

[mcp_servers.a]
command = "a"

[projects."/home/me/src"]
trust_level = "trusted"`, `# my settings
model = "gpt-5" # the best

[mcp_servers.a]
command = "a"

[projects."/home/me/src"]
trust_level = "trusted"

[mcp_servers.croft]
command = "croft"
args = ["mcp", "--dir", "."]
`},
		{"an empty file", "gemini", "", `{
  "mcpServers": {
    "croft": {
      "command": "croft",
      "args": ["mcp", "--dir", "."]
    }
  }
}
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := agentsIn(t.TempDir())[tt.agent]
			write(t, a, tt.before)
			c, err := a.Add()
			backup := c.must(t, err)
			if diff := cmp.Diff(tt.after, read(t, a.File)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := read(t, backup); got != tt.before {
				t.Errorf("the backup is %q", got)
			}
			if info, err := os.Stat(a.File); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if again, err := a.Add(); again != nil || err != nil {
				t.Errorf("a second time: %v, %v", again, err)
			}
			c, err = a.Remove()
			c.must(t, err)
			if diff := cmp.Diff(tt.before, read(t, a.File)); diff != "" {
				t.Errorf("after undo (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(backup); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the backup stays: %v", err)
			}
			if again, err := a.Remove(); again != nil || err != nil {
				t.Errorf("undo a second time: %v, %v", again, err)
			}
		})
	}
}

// Undo after further changes removes the entry alone.
func TestUndoKeepsLaterChanges(t *testing.T) {
	for _, tt := range []struct{ agent, before, change, with, want string }{
		{"claude", "{\n  \"mcpServers\": {\n    \"a\": {} // mine\n  },\n  \"n\": 1\n}\n", `"n": 1`, `"n": 2`, "{\n  \"mcpServers\": {\n    \"a\": {} // mine\n  },\n  \"n\": 2\n}\n"},
		{"gemini", "{\n  \"theme\": \"x\"\n}\n", `"x"`, `"y"`, "{\n  \"theme\": \"y\",\n  \"mcpServers\": {\n  }\n}\n"},
		{"codex", "model = \"a\"\n", `"a"`, `"b"`, "model = \"b\"\n"},
	} {
		a := agentsIn(t.TempDir())[tt.agent]
		write(t, a, tt.before)
		c, err := a.Add()
		c.must(t, err)
		write(t, a, strings.Replace(read(t, a.File), tt.change, tt.with, 1))
		c, err = a.Remove()
		c.must(t, err)
		if diff := cmp.Diff(tt.want, read(t, a.File)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.agent, diff)
		}
	}
	// An entry between others.
	a := agentsIn(t.TempDir())["cursor"]
	write(t, a, "{\n  \"mcpServers\": {\n    \"croft\": {\"command\": \"croft\"},\n    \"b\": {}\n  }\n}\n")
	if err := os.WriteFile(a.File+".croft-backup", []byte("{}\n"), 0o600); err != nil { // of an earlier setup
		t.Fatal(err)
	}
	c, err := a.Remove()
	c.must(t, err)
	if got, want := read(t, a.File), "{\n  \"mcpServers\": {\n    \"b\": {}\n  }\n}\n"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestNewFileIsRemovedByUndo(t *testing.T) {
	for _, name := range []string{"claude", "codex", "copilot", "vscode"} {
		a := agentsIn(t.TempDir())[name]
		c, err := a.Add()
		if backup := c.must(t, err); backup != "" {
			t.Errorf("%s: a backup of nothing: %s", name, backup)
		}
		if info, err := os.Stat(a.File); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		c, err = a.Remove()
		c.must(t, err)
		if _, err := os.Stat(a.File); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the file stays: %v", name, err)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	for _, tt := range []struct{ agent, text, want string }{
		{"claude", `{"mcpServers": `, "it is not valid JSON"},
		{"claude", `[]`, "it is not a JSON object"},
		{"claude", `{"mcpServers": []}`, "is not an object"},
		{"claude", `{"mcpServers": {}, "mcpServers": {}}`, "twice"},
		{"gemini", "\x00\x01", "it is not valid JSON"},
		{"codex", "model = \n", "it is not valid TOML"},
		{"codex", "mcp_servers = {a = {command = \"a\"}}\n", "inline table"},
		{"codex", "mcp_servers = 1\n", "inline table"},
	} {
		a := agentsIn(t.TempDir())[tt.agent]
		write(t, a, tt.text)
		c, err := a.Add()
		if fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "it was not changed") {
			t.Errorf("%s %q: got %v, %v; want %q", tt.agent, tt.text, c, err, tt.want)
		}
		if got := read(t, a.File); got != tt.text {
			t.Errorf("%s %q: it is now %q", tt.agent, tt.text, got)
		}
	}
}

func TestChangedMeanwhile(t *testing.T) {
	a := agentsIn(t.TempDir())["claude"]
	write(t, a, "{}")
	c, err := a.Add()
	if err != nil {
		t.Fatal(err)
	}
	write(t, a, `{"numStartups": 2}`)
	if _, err := c.Make(); fault.Of(err) != fault.Conflict {
		t.Errorf("got %v", err)
	}
	if got := read(t, a.File); got != `{"numStartups": 2}` {
		t.Errorf("the file is %q", got)
	}
}

func TestSymlinkStays(t *testing.T) {
	home := t.TempDir()
	a := agentsIn(home)["claude"]
	real := filepath.Join(home, "dotfiles.json")
	if err := os.WriteFile(real, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, a.File); err != nil {
		t.Fatal(err)
	}
	c, err := a.Add()
	c.must(t, err)
	if target, err := os.Readlink(a.File); err != nil || target != real || !strings.Contains(read(t, real), "croft") {
		t.Errorf("got %q, %v", target, err)
	}
}

// TestUndoLeavesEntryOfUser: an entry that the user had before is neither changed nor removed, and
// one that setup wrote is known wherever it is in the file.
func TestUndoLeavesEntryOfUser(t *testing.T) {
	for name, text := range map[string]string{
		"cursor": "{\"mcpServers\":{\"croft\":{\"command\":\"mine\"}}}\n",
		"codex":  "[mcp_servers.croft]\ncommand = \"mine\"\n",
	} {
		a := agentsIn(t.TempDir())[name]
		write(t, a, text)
		if c, err := a.Add(); c != nil || err != nil {
			t.Fatalf("%s: Add: %v, %v; want no change", name, c, err)
		}
		if _, err := a.Remove(); fault.Of(err) != fault.WrongState || read(t, a.File) != text {
			t.Errorf("%s: Remove: %v; want %v and the file as it was", name, err, fault.WrongState)
		}
	}
	for _, name := range []string{"claude", "cursor", "gemini", "codex"} {
		a := agentsIn(t.TempDir())[name]
		c, err := a.Add() // the file is new, so that there is no backup
		c.must(t, err)
		write(t, a, read(t, a.File)+"\n")
		if c, err = a.Remove(); err != nil || c == nil {
			t.Errorf("%s: Remove: %v, %v", name, c, err)
		}
	}
}
