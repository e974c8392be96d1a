// Package setup adds Croft's MCP server to the configuration files of agents, and removes it
// again. It changes the text of a file as little as possible: comments, order and layout of
// everything else stay as they are.
package setup

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// ServerName is the name of Croft's MCP server in the configurations of agents.
const ServerName = "croft"

// An Agent is a program with a configuration file that lists MCP servers.
type Agent struct {
	Name  string // such as claude
	Title string // such as Claude Code
	File  string // the configuration of the user, which need not exist
	Found string // the program or directory that shows that the agent is installed; "" if it is not

	edit editor
}

// An editor adds an entry to a configuration, and removes it.
type editor interface {
	// add returns the text with the entry; errPresent if it is there.
	add(text []byte) ([]byte, error)
	// remove returns the text without the entry; errAbsent if it is not there.
	remove(text []byte) ([]byte, error)
}

// Options say where agents are and what they start.
type Options struct {
	Home     string                       // of the user
	Command  string                       // program of Croft; "" is croft
	Getenv   func(string) string          // nil is os.Getenv
	LookPath func(string) (string, error) // finds a program; nil is exec.LookPath
}

// Agents lists the agents that this package knows, in order.
func Agents(opts Options) []Agent {
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if opts.LookPath == nil {
		opts.LookPath = exec.LookPath
	}
	if opts.Command == "" {
		opts.Command = "croft"
	}
	config := opts.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(opts.Home, ".config")
	}
	home := func(elem ...string) string { return filepath.Join(append([]string{opts.Home}, elem...)...) }
	codex := opts.Getenv("CODEX_HOME")
	if codex == "" {
		codex = home(".codex")
	}
	code := filepath.Join(config, "Code", "User")
	if runtime.GOOS == "darwin" {
		code = home("Library", "Application Support", "Code", "User")
	}
	args := []string{"mcp", "--dir", "."}
	folder := []string{"mcp", "--dir", "${workspaceFolder}"} // an editor starts programs elsewhere
	list := []Agent{
		{Name: "claude", Title: "Claude Code", File: home(".claude.json"), Found: opts.find(home(".claude"), "claude"),
			edit: jsonEditor{"mcpServers", fields{{"type", "stdio"}, {"command", opts.Command}, {"args", args}, {"alwaysLoad", true}}}}, // or it searches for tools first
		{Name: "codex", Title: "Codex", File: filepath.Join(codex, "config.toml"), Found: opts.find(codex, "codex"),
			edit: tomlEditor{"mcp_servers", fields{{"command", opts.Command}, {"args", args}}}},
		{Name: "opencode", Title: "opencode", File: firstFile(filepath.Join(config, "opencode"), "opencode.json", "opencode.jsonc"), Found: opts.find(filepath.Join(config, "opencode"), "opencode"),
			edit: jsonEditor{"mcp", fields{{"type", "local"}, {"command", append([]string{opts.Command}, args...)}, {"enabled", true}}}},
		{Name: "gemini", Title: "Gemini CLI", File: home(".gemini", "settings.json"), Found: opts.find(home(".gemini"), "gemini"),
			edit: jsonEditor{"mcpServers", fields{{"command", opts.Command}, {"args", args}}}},
		{Name: "copilot", Title: "Copilot CLI", File: home(".copilot", "mcp-config.json"), Found: opts.find(home(".copilot"), "copilot"),
			edit: jsonEditor{"mcpServers", fields{{"type", "local"}, {"command", opts.Command}, {"args", args}, {"tools", []string{"*"}}}}},
		{Name: "cursor", Title: "Cursor", File: home(".cursor", "mcp.json"), Found: opts.find(home(".cursor"), "cursor", "cursor-agent"),
			edit: jsonEditor{"mcpServers", fields{{"command", opts.Command}, {"args", folder}}}},
		{Name: "vscode", Title: "VS Code", File: filepath.Join(code, "mcp.json"), Found: opts.find(code, "code"),
			edit: jsonEditor{"servers", fields{{"type", "stdio"}, {"command", opts.Command}, {"args", folder}}}},
	}
	return list
}

// find returns the first of the programs that is installed, or else the directory if it
// exists, "" if neither.
func (o Options) find(dir string, programs ...string) string {
	for _, name := range programs {
		if path, err := o.LookPath(name); err == nil {
			return path
		}
	}
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir
	}
	return ""
}

// firstFile returns the first of the files in dir that exists, or else the first.
func firstFile(dir string, names ...string) string {
	for _, name := range names {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	return filepath.Join(dir, names[0])
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
