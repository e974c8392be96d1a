package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/croft-run/croft/fault"
)

// A toolCall is a call of a tool whose result is to come.
type toolCall struct {
	tool    string
	command int // its place in Builder.Commands + 1; 0 is none
}

// toolServer is what agents call the server of Input.Tools.
const toolServer = "croft"

// offerTools tells a program of this kind of the server of in.Tools: by a file below
// d, the home that it was given, by arguments behind the word for what it is to do,
// or in its environment. A program that can't be told is Unsupported.
func offerTools(kind string, d *agentDir, in Input, env map[string]string) (args []string, err error) {
	if in.Tools == "" {
		return nil, nil
	}
	switch kind {
	case "claude-code":
		const name = claudeHome + "/croft-tools.json"
		servers := map[string]any{"mcpServers": map[string]any{toolServer: map[string]any{"type": "http", "url": in.Tools, "alwaysLoad": true}}}
		return []string{"--mcp-config", d.path(name)}, d.write(name, encodeJSON(servers), 0o600)
	case "codex":
		set := func(key, value string) []string {
			return []string{"-c", "mcp_servers." + toolServer + "." + key + "=" + value}
		}
		args = append(args, set("url", fmt.Sprintf("%q", in.Tools))...)
		args = append(args, set("default_tools_approval_mode", `"approve"`)...)
		return append(args, set("tool_timeout_sec", "1800")...), nil
	case "opencode":
		server := map[string]any{"type": "remote", "url": in.Tools, "oauth": false}
		return nil, editOpencodeConfig(env, func(content map[string]any) { subObject(content, "mcp")[toolServer] = server })
	case "gemini":
		server := map[string]any{"httpUrl": in.Tools, "trust": true, "timeout": 1800000}
		return nil, editSettings(d, filepath.Join(geminiHome, ".gemini", "settings.json"), func(s map[string]any) { subObject(s, "mcpServers")[toolServer] = server })
	case "copilot":
		server := map[string]any{"type": "http", "url": in.Tools, "tools": []string{"*"}}
		return nil, editSettings(d, filepath.Join(copilotHome, "mcp-config.json"), func(s map[string]any) { subObject(s, "mcpServers")[toolServer] = server })
	case "command":
		env["CROFT_EVAL_TOOLS"] = in.Tools
		return nil, nil
	}
	return nil, fmt.Errorf("agent: give %s tools: %w: it takes them from the user's own settings only", kind, fault.Unsupported)
}

// editOpencodeConfig changes the piece of configuration that opencode takes from its
// environment.
func editOpencodeConfig(env map[string]string, change func(map[string]any)) error {
	const name = "OPENCODE_CONFIG_CONTENT"
	content := map[string]any{}
	if text := env[name]; text != "" {
		if err := json.Unmarshal([]byte(text), &content); err != nil {
			return fmt.Errorf("agent: %s: %w: %w", name, fault.InvalidArgument, err)
		}
	}
	change(content)
	env[name] = string(encodeJSON(content))
	return nil
}

// editSettings changes a file of settings in JSON, which need not be there.
func editSettings(d *agentDir, name string, change func(map[string]any)) error {
	content := map[string]any{}
	data, err := d.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(data, &content); err != nil {
			return fmt.Errorf("agent: read %s: %w: %w", d.path(name), fault.InvalidArgument, err)
		}
	}
	change(content)
	return d.write(name, encodeJSON(content), 0o600)
}
